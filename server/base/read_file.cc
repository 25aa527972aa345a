#include "server/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

absl::Status SystemError(int code) { return absl::InvalidArgumentError(std::strerror(code)); }

// Reads what is left of an open file.
absl::StatusOr<std::string> ReadAll(int fd, std::size_t most_bytes) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return SystemError(errno);
  if (S_ISDIR(status.st_mode)) return SystemError(EISDIR);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("it is not a regular file");
  std::string text;
  std::array<char, 1 << 16> part{};
  while (text.size() <= most_bytes) {
    const ssize_t size = read(fd, part.data(), part.size());
    if (size == 0) return text;
    if (size < 0 && errno != EINTR) return SystemError(errno);
    if (size > 0) text.append(part.data(), static_cast<std::size_t>(size));
  }
  return absl::InvalidArgumentError(absl::StrCat("it has more than ", most_bytes, " bytes"));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return SystemError(errno);
  absl::StatusOr<std::string> text = ReadAll(fd, most_bytes);
  close(fd);
  return text;
}

}  // namespace calibd::server
