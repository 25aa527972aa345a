# A build with a sanitizer takes the libraries that it does not check from the build of the preset
# test. Compiling them again would take as long as all that it checks.
set(CALIBD_PLAIN_BUILD ${CMAKE_SOURCE_DIR}/build/test)

# calibd_add_plain_build(TARGETS ... FILES ...): builds the targets there, which write the files.
function(calibd_add_plain_build)
  cmake_parse_arguments(arg "" "" "TARGETS;FILES" ${ARGN})
  if(NOT EXISTS ${CALIBD_PLAIN_BUILD}/build.ninja)
    execute_process(COMMAND ${CMAKE_COMMAND} --preset test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  add_custom_target(calibd_plain_build
    COMMAND ${CMAKE_COMMAND} --build ${CALIBD_PLAIN_BUILD} --target ${arg_TARGETS}
    BYPRODUCTS ${arg_FILES}
    VERBATIM)
endfunction()

# calibd_add_plain_library(NAME): the target of a library from there. Its folder is the current one.
function(calibd_add_plain_library name)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${CALIBD_PLAIN_BUILD}/${folder}/lib${name}.a)
  add_dependencies(${name} calibd_plain_build)
endfunction()
