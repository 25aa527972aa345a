# Everything comes from Debian 12 packages; nothing is downloaded while building.
# deploy/packages lists them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl REQUIRED CONFIG)
find_package(Protobuf REQUIRED)  # module mode; before gRPC
find_package(gRPC REQUIRED CONFIG)
find_program(CALIBD_PROTOC protoc REQUIRED)
find_program(CALIBD_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

find_package(Eigen3 REQUIRED CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)

# The server needs these; calibctl needs JSON and CLI11 too.
find_package(spdlog REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(tomlplusplus REQUIRED CONFIG)
find_package(prometheus-cpp REQUIRED CONFIG)
find_package(Boost 1.74 REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET libpq)
find_package(OpenSSL 3 REQUIRED)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
# Another prefix than re2: gRPC looks for it by that name, and would take the cache for its answer.
pkg_check_modules(libre2 REQUIRED IMPORTED_TARGET re2)
find_library(CALIBD_XXHASH xxhash REQUIRED NO_CACHE)

# calibctl reads NPZ files with it.
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)

if(CALIBD_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
