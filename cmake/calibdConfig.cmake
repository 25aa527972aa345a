# find_package(calibd): the C++ SDK of calibd, as the target calibd::client.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
find_dependency(absl CONFIG)
find_dependency(Protobuf MODULE)  # before gRPC
find_dependency(gRPC CONFIG)
find_dependency(PkgConfig)
pkg_check_modules(hwy REQUIRED QUIET IMPORTED_TARGET libhwy)
include(${CMAKE_CURRENT_LIST_DIR}/calibdTargets.cmake)
