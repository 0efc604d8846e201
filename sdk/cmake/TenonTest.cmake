# One test of tenon_test_plugin: runs the words after `--` and judges what they end with and print.
#   cmake -DSTATUS=n [-DPRINTS=regex] [-DGOLDEN=file -DPRINTED=file] -P TenonTest.cmake -- word...
# STATUS is the exit status that is right. PRINTS is sought in all that is printed. GOLDEN is what
# stdout has to be; PRINTED is where stdout is kept when it is not. With TENON_BLESS=1 in the
# environment GOLDEN is written.
cmake_minimum_required(VERSION 3.20)
set(bless $ENV{TENON_BLESS})
unset(ENV{TENON_BLESS})  # tenon does not know it and would say so

set(words "")
set(taking FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(taking)
    string(REPLACE ";" "\\;" word "${CMAKE_ARGV${i}}")
    list(APPEND words "${word}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(taking TRUE)
  endif()
endforeach()
execute_process(COMMAND ${words} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
message("${err}${out}")

# All complaints are collected, since the second often explains the first.
set(wrong "")
if(NOT status STREQUAL STATUS)
  string(APPEND wrong "The command ended with ${status} instead of ${STATUS}.\n")
endif()
if(DEFINED PRINTS AND NOT "${out}${err}" MATCHES "${PRINTS}")
  string(APPEND wrong "The command printed nothing that this expression matches: ${PRINTS}\n")
endif()

# Sets `difference` in the caller when stdout is not what GOLDEN holds. A missing file is empty.
function(compare_golden)
  set(expected "")
  set(file "${PRINTED}.none")
  if(EXISTS "${GOLDEN}")
    set(file "${GOLDEN}")
    file(READ "${GOLDEN}" expected)
  endif()
  if(expected STREQUAL out)
    return()
  endif()
  file(WRITE "${PRINTED}.none" "")
  file(WRITE "${PRINTED}" "${out}")
  find_program(diff diff)
  if(diff)
    execute_process(OUTPUT_VARIABLE text
      COMMAND ${diff} -u --label expected --label printed "${file}" "${PRINTED}")
  else()
    set(text "expected:\n${expected}printed:\n${out}")
  endif()
  set(difference "${text}" PARENT_SCOPE)
endfunction()

if(DEFINED GOLDEN AND "${bless}" STREQUAL "1")
  if(wrong STREQUAL "")  # what a failed command printed is nothing to expect
    file(WRITE "${GOLDEN}" "${out}")
    message("written: ${GOLDEN}")
  endif()
elseif(DEFINED GOLDEN)
  compare_golden()
  if(DEFINED difference)
    string(APPEND wrong "The command printed something else than ${GOLDEN} holds.\n"
      "When it is right, TENON_BLESS=1 ctest writes the file.\n${difference}")
  endif()
endif()
if(NOT wrong STREQUAL "")
  message("${wrong}")
  message(FATAL_ERROR "The test failed; the reasons are above.")
endif()
