# What every target of the project is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(CALIBD_BUILD_TESTS "Build the tests" ON)
option(CALIBD_FAILPOINTS "Let tests end calibd at certain points" OFF)
if(CALIBD_FAILPOINTS AND NOT CALIBD_BUILD_TESTS)
  message(FATAL_ERROR "CALIBD_FAILPOINTS is for builds with tests")
endif()
set(CALIBD_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined")
set(CALIBD_TEST_DATA "${CMAKE_SOURCE_DIR}/../shared/data" CACHE PATH
    "Folder with cifar10/ and small_cases.json; tests that need it are skipped without it")

option(CALIBD_UNITE_FOLDERS "Compile the sources of a folder as one: a clean build takes half the time"
       OFF)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness, ccache caches nothing that includes a precompiled header. Clones and
  # worktrees share what they compile, because paths are hashed relative to the sources.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE})
endif()

include(CheckPIESupported)
check_pie_supported()

# The warnings are for our own code. Generated code gets the rest.
add_library(calibd_warnings INTERFACE)
target_compile_options(calibd_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion
  # Clang's warning also means long double, in which tests compute reference values.
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion>
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wunused
  -Wimplicit-fallthrough)

add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection
                    -fno-omit-frame-pointer)
add_link_options(-Wl,-z,relro,-z,now)
# This linker takes a quarter of the time. What is installed keeps the default one.
set(CALIBD_TEST_LINKER "")
find_program(CALIBD_LLD ld.lld)
if(CALIBD_LLD)
  set(CALIBD_TEST_LINKER -fuse-ld=lld)
endif()
# Options for code that leaves the work to the engine and to core. Under a sanitizer, it compiles in
# half the time.
set(CALIBD_UNOPTIMISED "")
if(CALIBD_SANITIZE)
  set(CALIBD_UNOPTIMISED -O0)
endif()
# Options for code that is not under test, and for inner loops that the checks make many times
# slower.
set(CALIBD_UNCHECKED "")
if(CALIBD_SANITIZE MATCHES "undefined")
  list(APPEND CALIBD_UNCHECKED -fno-sanitize=undefined)
endif()
if(CALIBD_SANITIZE MATCHES "fuzzer")
  list(APPEND CALIBD_UNCHECKED -fno-sanitize=fuzzer-no-link)
endif()
if(CALIBD_SANITIZE)
  add_compile_options(-fsanitize=${CALIBD_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CALIBD_SANITIZE} ${CALIBD_TEST_LINKER})
  if(CALIBD_SANITIZE MATCHES "undefined")
    # The check of virtual tables opens a pipe to test an address. It reports a false error when a test
    # has used up the file descriptors.
    # The other three stand at each access through a pointer. They take a third of the time of a
    # compilation, and AddressSanitizer reports the access itself.
    add_compile_options(-fno-sanitize=vptr,null,object-size,pointer-overflow)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes the alternatives of a moved std::variant for uninitialised in instrumented code.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR CALIBD_SANITIZE)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# calibd_unite_folders(TARGET): compiles the sources of each folder as one. This takes a third of
# the time, most of which goes into gRPC's and Protobuf's headers, but a change then costs more.
function(calibd_unite_folders target)
  if(NOT CALIBD_UNITE_FOLDERS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${target}_${folder}")
  endforeach()
endfunction()

# Without these settings, ccache caches no source that includes a precompiled header.
set(CALIBD_PRECOMPILED_OPTIONS
    "$<IF:$<CXX_COMPILER_ID:GNU>,-fpch-preprocess,SHELL:-Xclang -fno-pch-timestamp>")

# calibd_precompile_headers(TARGET HEADER...): parses headers of others once for all sources of the
# target. This does not change what the sources are compiled to.
function(calibd_precompile_headers target)
  target_compile_options(${target} PRIVATE ${CALIBD_PRECOMPILED_OPTIONS})
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()
