// The readers of NumPy files, of one array and of several.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "client/cli/files/npy_reader.h"
#include "client/cli/files/npz_reader.h"
#include "fuzz/require.h"

namespace {

using ::calibd::testing::Require;

void CheckArray(const absl::StatusOr<calibd::cli::NpyArray>& array) {
  Require(array.ok() || absl::IsInvalidArgument(array.status()), "errors are INVALID_ARGUMENT");
  if (!array.ok()) return;
  Require(array->row_count > 0 && array->column_count > 0, "an array has elements");
  Require(array->texts.empty() ? array->values.size() == array->row_count * array->column_count
                               : array->texts.size() == array->row_count && array->values.empty(),
          "an array is rectangular");
}

// libzip reads a file by its path.
void CheckArchive(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("archive", 0);
  Require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "a file in memory");
  const auto archive = calibd::cli::NpzFile::Open("/proc/self/fd/" + std::to_string(file));
  Require(archive.ok() || absl::IsInvalidArgument(archive.status()), "errors are INVALID_ARGUMENT");
  if (archive.ok()) {
    Require(!archive->names().empty(), "an archive has arrays");
    for (const std::string& name : archive->names()) CheckArray(archive->Read(name));
  }
  close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == 'P') {
    CheckArchive(data, size);
  } else {
    std::istringstream input(std::string(reinterpret_cast<const char*>(data), size));
    CheckArray(calibd::cli::ReadNpy(input, "input"));
  }
  return 0;
}
