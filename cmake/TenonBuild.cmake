# Settings and helpers of this tree's own build. Out-of-tree plugins use sdk/cmake only.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
# One kind of code everywhere, or programs and libraries could not share precompiled headers.
add_compile_options(-fPIC)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Checks stay on in every build type; Release is optimised and keeps no assert from libraries.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  # What ccache asks for where headers are precompiled: https://ccache.dev/manual/latest.html#_precompiled_headers
  # TenonPrecompile.cmake writes the sums of those headers.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=true CCACHE_PCH_EXTSUM=true ${TENON_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
add_link_options(-fuse-ld=lld)
if(TENON_SANITIZE)
  # With -O0 a source of kernelgen compiles three times as fast, but tests that compute take up to a hundred times as long.
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
include(GNUInstallDirs)

# The compiled half of {fmt}, for core and for the tools.
add_library(tenon_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_impl.cpp)

# tenon_calls_generated_code(TARGET...): tests that do. sdk/tenon/cpp/generated_code.hpp has the reason.
function(tenon_calls_generated_code)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -fno-sanitize=function)
    endforeach()
  endif()
endfunction()

# tenon_core_library(NAME SOURCE...): one room of core/, an object library that libtenon.so collects.
# Unit tests next to the source are named foo_test.cpp and listed with tenon_unit_test.
function(tenon_core_library name)
  add_library(tenon_${name} STATIC ${ARGN})
  target_include_directories(tenon_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk)
  target_compile_definitions(tenon_${name} PRIVATE TENON_COMPONENT="${name}")
endfunction()

# tenon_fuzzed(TARGET...): what fuzz targets run. Without coverage of it the fuzzer is blind.
function(tenon_fuzzed)
  foreach(target IN LISTS ARGN)
    if(TENON_FUZZ)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  endforeach()
endfunction()

# tenon_sanitized_test(LABEL NAME TARGET...): a test that ./check runs under a sanitizer, which needs these targets. LABEL is asan or
# tsan; the target tests_LABEL builds what such tests need. ./check --full runs all tests under the address sanitizer.
function(tenon_sanitized_test label name)
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  if(ARGN)
    add_dependencies(tests_${label} ${ARGN})
  endif()
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
  endif()
endfunction()

# tenon_loads_plugins(TARGET PLUGIN...): builds the plugins before TARGET, which loads them. With TENON_PLUGINS_FROM, the four plugins
# named below are copied from another build: kernelgen takes a third of the time to compile with the address sanitizer. So ./check does
# not instrument these plugins; ./check --full does.
function(tenon_loads_plugins target)
  foreach(name ${ARGN})
    if(NOT TARGET tenon_plugin_${name})
      continue()
    endif()
    if(NOT TENON_PLUGINS_FROM OR NOT name MATCHES "^(cpu|sim|onednn|lapack)$")
      add_dependencies(${target} tenon_plugin_${name})
      continue()
    endif()
    if(NOT TARGET borrowed_${name})
      add_custom_target(borrowed_${name} COMMAND ${CMAKE_COMMAND} -E copy ${TENON_PLUGINS_FROM}/${name}.so
        ${TENON_PLUGINS_FROM}/${name}.plugin.json ${PROJECT_BINARY_DIR}/lib/tenon/plugins.d)
    endif()
    add_dependencies(${target} borrowed_${name})
  endforeach()
endfunction()

# tenon_in_full(TEST...): tests that ./check leaves to ./check --full, since what they find is rare for their time.
function(tenon_in_full)
  foreach(name ${ARGN})
    set_property(TEST ${name} APPEND PROPERTY LABELS full)
  endforeach()
endfunction()

# tenon_unit_test(NAME SOURCES a_test.cpp ... LINK lib ... [LABELS l ...] [OPTIMISED] [ASAN_IN_FULL]): one GoogleTest executable, one
# ctest entry per executable. OPTIMISED: for tests that compute much themselves; others take longer to compile than to run. The
# address sanitizer runs each in ./check; with ASAN_IN_FULL in ./check --full alone. The label tsan adds the thread sanitizer.
function(tenon_unit_test name)
  if(NOT TENON_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "OPTIMISED;ASAN_IN_FULL" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk)
  if(NOT T_OPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  # Sanitizers look at memory, not at meanings: tests that try many random cases try fewer there.
  if(TENON_SANITIZE)
    target_compile_definitions(${name} PRIVATE TENON_RANDOM_SHARE=5)
  else()
    target_compile_definitions(${name} PRIVATE TENON_RANDOM_SHARE=1)
  endif()
  target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set(labels unit ${T_LABELS})
  list(REMOVE_ITEM labels tsan)
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${labels}")
  if("tsan" IN_LIST T_LABELS)
    tenon_sanitized_test(tsan ${name} ${name})
  endif()
  if(NOT T_ASAN_IN_FULL)
    tenon_sanitized_test(asan ${name} ${name})
  endif()
endfunction()

# tenon_fuzz_test(NAME RUNS inputs SOURCES ... [LINK lib ...] [SEEDS folder]): a libFuzzer target and a ctest entry
# that tries so many inputs (about ten seconds of them); only with TENON_FUZZ.
function(tenon_fuzz_test name)
  if(NOT TENON_FUZZ)
    return()
  endif()
  cmake_parse_arguments(T "" "SEEDS;RUNS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${T_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/fuzz/run.sh $<TARGET_FILE:${name}> ${T_RUNS}
           ${PROJECT_BINARY_DIR}/fuzz/${name} ${T_SEEDS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "fuzz")
  tenon_sanitized_test(asan ${name} ${name})
endfunction()
