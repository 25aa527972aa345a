#ifndef CALIBD_CLIENT_CLI_FILES_NPZ_READER_H_
#define CALIBD_CLIENT_CLI_FILES_NPZ_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/files/npy_reader.h"

struct zip;

namespace calibd::cli {

// A file of named NumPy arrays, as numpy.savez and numpy.savez_compressed write them: a zip archive
// with one NPY file for each array. The sizes in it are not trusted. Needs a file with a path,
// since a zip archive is read from its end.
class NpzFile {
 public:
  // Errors: InvalidArgument if the file is not a zip archive, or contains no array.
  [[nodiscard]] static absl::StatusOr<NpzFile> Open(const std::string& path);

  // The names of the arrays, in their order in the file; at least one.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  // Reads the array of this name. Errors: InvalidArgument naming the file and the array.
  [[nodiscard]] absl::StatusOr<NpyArray> Read(const std::string& name) const;

 private:
  struct Discard {
    void operator()(struct zip* archive) const;
  };

  std::string path_;
  std::unique_ptr<struct zip, Discard> archive_;
  std::vector<std::string> names_;
};

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_NPZ_READER_H_
