#include "server/process/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace calibd::server {

absl::Status WriteReadyFile(const std::string& path, const std::string& grpc_address,
                            const std::string& http_address) {
  const nlohmann::json content{{"grpc", grpc_address}, {"http", http_address}, {"pid", getpid()}};
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(temporary, std::ios::trunc);
  file << content.dump() << '\n';
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(std::remove(temporary.c_str()));
    return absl::UnavailableError(
        absl::StrCat("cannot write --ready-file ", path, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
