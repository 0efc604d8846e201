# tenon_add_plugin(NAME SOURCES file... [MANIFEST file] [KERNELGEN] [PLAN] [STREAM] [LINK lib...])
#
# Builds one plugin: a module with hidden visibility that exports only tenon_plugin_query, and its
# manifest NAME.plugin.json in the same folder. MANIFEST is the hand-written part (default:
# manifest.json.in next to the CMakeLists); the build adds `provides`, `build` and `library`, which
# it derives from the code.
function(tenon_add_plugin name)
  cmake_parse_arguments(P "KERNELGEN;PLAN;STREAM;NO_INSTALL" "MANIFEST;OUTPUT_DIRECTORY" "SOURCES;LINK" ${ARGN})
  if(NOT P_MANIFEST)
    set(P_MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/manifest.json.in)
  endif()
  if(NOT P_OUTPUT_DIRECTORY)
    if(TENON_IN_TREE)
      set(P_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/tenon/plugins.d)
    else()
      set(P_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    endif()
  endif()
  set(target tenon_plugin_${name})
  add_library(${target} MODULE ${P_SOURCES})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${P_OUTPUT_DIRECTORY}
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON C_STANDARD 11)
  if(P_KERNELGEN)
    target_link_libraries(${target} PRIVATE Tenon::kernelgen)
  endif()
  if(P_STREAM)
    target_link_libraries(${target} PRIVATE Tenon::stream)
  endif()
  if(P_PLAN)
    target_link_libraries(${target} PRIVATE Tenon::plan)
  endif()
  target_link_libraries(${target} PRIVATE Tenon::sdk ${P_LINK})
  # Hidden visibility is not enough: the standard library declares templates with default visibility.
  set(exports ${CMAKE_CURRENT_BINARY_DIR}/${name}.exports)
  file(WRITE ${exports} "{ global: tenon_plugin_query; local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,now -Wl,--gc-sections
    -Wl,--version-script=${exports})
  # A missing symbol is an error here and not on the user's machine. The host program provides
  # sanitizer runtimes.
  if(NOT TENON_SANITIZE AND NOT "${CMAKE_CXX_FLAGS}${CMAKE_C_FLAGS}" MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND Tenon::manifest --library $<TARGET_FILE:${target}> --input ${P_MANIFEST}
            --output ${P_OUTPUT_DIRECTORY}/${name}.plugin.json
    VERBATIM)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${P_MANIFEST})
  if(TENON_IN_TREE)
    add_dependencies(${target} tenon-manifest)
    if(NOT P_NO_INSTALL)
      install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins.d)
      install(FILES ${P_OUTPUT_DIRECTORY}/${name}.plugin.json
              DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins.d)
    endif()
  elseif(NOT P_NO_INSTALL)
    # In a wheel the root is the folder that Tenon searches.
    set(folder lib/tenon/plugins.d)
    if(SKBUILD)
      set(folder .)
    endif()
    install(TARGETS ${target} LIBRARY DESTINATION ${folder})
    install(FILES ${P_OUTPUT_DIRECTORY}/${name}.plugin.json DESTINATION ${folder})
  endif()
endfunction()

# tenon_test_plugin(NAME LEVEL n [EXAMPLES file...]): a test that the plugin reaches this level of
# `tenon conform`; EXAMPLES are files of a frontend's format, or models that a kernel set is for.
#
# tenon_test_plugin(NAME RUN word... [STATUS n] [PRINTS regex] [GOLDEN file]
#                   [ENVIRONMENT NAME=VALUE...])
# A test that `tenon word...`, run in the source folder with the plugin at hand, ends with status n
# (default: 0), prints what the regular expression matches, and writes to stdout exactly what the
# file holds. `TENON_BLESS=1 ctest` writes the files of all such tests again: look at what changed
# before you commit it.
#
# Out of the tree, after tenon_add_plugin(NAME) and enable_testing().
function(tenon_test_plugin name)
  cmake_parse_arguments(P "" "LEVEL;STATUS;PRINTS;GOLDEN" "RUN;ENVIRONMENT;EXAMPLES" ${ARGN})
  if(P_UNPARSED_ARGUMENTS OR P_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "tenon_test_plugin(${name}) does not understand: "
      "${P_UNPARSED_ARGUMENTS} ${P_KEYWORDS_MISSING_VALUES}")
  endif()
  set(folder $<TARGET_FILE_DIR:tenon_plugin_${name}>)
  if(P_LEVEL)
    list(TRANSFORM P_EXAMPLES PREPEND "--example=${CMAKE_CURRENT_SOURCE_DIR}/")
    add_test(NAME ${name}_conforms COMMAND Tenon::command conform ${folder}/${name}.plugin.json --level ${P_LEVEL} ${P_EXAMPLES})
  endif()
  if(P_RUN)
    list(GET P_RUN 0 word)
    set(test ${name}_${word})
    while(TEST ${test})  # the same command with other arguments
      string(APPEND test _more)
    endwhile()
    set(judge -DSTATUS=0)
    if(DEFINED P_STATUS)
      set(judge -DSTATUS=${P_STATUS})
    endif()
    if(DEFINED P_PRINTS)
      string(REPLACE ";" "\\;" regex "${P_PRINTS}")
      list(APPEND judge "-DPRINTS=${regex}")
    endif()
    if(DEFINED P_GOLDEN)
      list(APPEND judge -DGOLDEN=${CMAKE_CURRENT_SOURCE_DIR}/${P_GOLDEN}
        -DPRINTED=${CMAKE_CURRENT_BINARY_DIR}/${test}.printed)
    endif()
    # The script always looks at the exit status; CTest's PASS_REGULAR_EXPRESSION would not.
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/TenonTest.cmake)
    add_test(NAME ${test} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      COMMAND ${CMAKE_COMMAND} ${judge} -P ${script} -- $<TARGET_FILE:Tenon::command> ${P_RUN})
    set_tests_properties(${test} PROPERTIES
      ENVIRONMENT "TENON_PLUGIN_ADD=${folder};${P_ENVIRONMENT}")
  endif()
endfunction()
