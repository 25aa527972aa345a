// A preloaded library that makes system calls on files of the store fail or block.
//
// CALIBD_IO_FAULT=CALL:K:ERRNO, where CALL is write, short, sync or room: the K-th such call,
// counted from 1, on the database or a file of the log fails with this error. short writes half of
// the bytes; room is the allocation of space for a file before it is written. All other calls are
// passed on.
//
// CALIBD_IO_STALL=PATH: while this file exists, no sync of the store returns.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Fault {
  char call[8] = "";
  int at = 0;
  int error = 0;
};

const Fault& TheFault() {
  static const Fault fault = [] {
    Fault read;
    const char* const text = std::getenv("CALIBD_IO_FAULT");
    if (text != nullptr) std::sscanf(text, "%7[a-z]:%d:%d", read.call, &read.at, &read.error);
    return read;
  }();
  return fault;
}

bool IsStore(int file) {
  char link[64];
  char path[1024];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  // The files of the log are log-<id>, log.new and log.spare.
  return std::strstr(path, "calibd.db") != nullptr || std::strstr(path, "/log-") != nullptr ||
         std::strstr(path, "/log.") != nullptr;
}

// Returns whether this call must fail.
bool Fails(const char* call, int file) {
  static std::atomic<int> calls = 0;
  return std::strcmp(TheFault().call, call) == 0 && IsStore(file) && ++calls == TheFault().at;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Blocks like a disk that does not respond.
void Stall(int file) {
  static const char* const path = std::getenv("CALIBD_IO_STALL");
  if (path == nullptr || !IsStore(file)) return;
  constexpr useconds_t kInterval = 5000;
  while (access(path, F_OK) == 0) usleep(kInterval);
}

ssize_t Write(const char* name, int file, const void* data, size_t size, off64_t offset) {
  if (Fails("write", file)) {
    errno = TheFault().error;
    return -1;
  }
  if (Fails("short", file)) size /= 2;
  return Next<ssize_t(int, const void*, size_t, off64_t)>(name)(file, data, size, offset);
}

ssize_t WritePieces(const char* name, int file, const iovec* pieces, int count, off64_t offset) {
  if (Fails("write", file)) {
    errno = TheFault().error;
    return -1;
  }
  std::vector<iovec> kept(pieces, pieces + count);
  if (Fails("short", file)) {
    size_t size = 0;
    for (const iovec& piece : kept) size += piece.iov_len;
    size /= 2;
    for (iovec& piece : kept) {
      piece.iov_len = std::min(piece.iov_len, size);
      size -= piece.iov_len;
    }
  }
  return Next<ssize_t(int, const iovec*, int, off64_t)>(name)(file, kept.data(), count, offset);
}

int TakeRoom(const char* name, int file, off64_t offset, off64_t size) {
  return Fails("room", file) ? TheFault().error
                             : Next<int(int, off64_t, off64_t)>(name)(file, offset, size);
}

int Sync(const char* name, int file) {
  Stall(file);
  if (Fails("sync", file)) {
    errno = TheFault().error;
    return -1;
  }
  return Next<int(int)>(name)(file);
}

}  // namespace

extern "C" {

ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  return Write("pwrite", file, data, size, offset);
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) {
  return Write("pwrite64", file, data, size, offset);
}
ssize_t pwritev(int file, const iovec* pieces, int count, off_t offset) {
  return WritePieces("pwritev", file, pieces, count, offset);
}
ssize_t pwritev64(int file, const iovec* pieces, int count, off64_t offset) {
  return WritePieces("pwritev64", file, pieces, count, offset);
}
int posix_fallocate(int file, off_t offset, off_t size) {
  return TakeRoom("posix_fallocate", file, offset, size);
}
int posix_fallocate64(int file, off64_t offset, off64_t size) {
  return TakeRoom("posix_fallocate64", file, offset, size);
}

int fsync(int file) { return Sync("fsync", file); }
int fdatasync(int file) { return Sync("fdatasync", file); }

}  // extern "C"
