#include "client/cli/files/npz_reader.h"

#include <zip.h>

#include <array>
#include <filesystem>
#include <istream>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr zip_int64_t kMaxEntries = 10000;

// An entry of the archive as a stream.
class EntryBuffer : public std::streambuf {
 public:
  explicit EntryBuffer(zip_file_t* entry) : entry_(entry) {}

  // Whether the archive is damaged.
  [[nodiscard]] bool failed() const { return failed_; }

 protected:
  int_type underflow() override {
    const zip_int64_t count = zip_fread(entry_, bytes_.data(), bytes_.size());
    failed_ |= count < 0;
    if (count <= 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(bytes_[0]);
  }

 private:
  zip_file_t* entry_;
  std::array<char, 65536> bytes_{};
  bool failed_ = false;
};

struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

}  // namespace

void NpzFile::Discard::operator()(struct zip* archive) const { zip_discard(archive); }

absl::StatusOr<NpzFile> NpzFile::Open(const std::string& path) {
  if (std::error_code error; std::filesystem::is_fifo(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": this is NPZ, which cannot be read from a pipe; give the path of the file"));
  }
  NpzFile file;
  file.path_ = path;
  int code = 0;
  file.archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (file.archive_ == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    return absl::InvalidArgumentError(
        absl::StrCat(path, " begins like a zip archive (NPZ), but cannot be read as one: ", reason,
                     "; copy or save it again if it is not complete"));
  }
  const zip_int64_t entries = zip_get_num_entries(file.archive_.get(), 0);
  std::string_view first;
  for (zip_int64_t i = 0; i < entries && i < kMaxEntries; ++i) {
    const char* const name = zip_get_name(file.archive_.get(), static_cast<zip_uint64_t>(i), 0);
    if (name == nullptr) continue;
    std::string_view text(name);
    if (first.empty()) first = text;
    if (!text.ends_with(kSuffix)) continue;
    text.remove_suffix(kSuffix.size());
    file.names_.emplace_back(text);
  }
  if (file.names_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a zip archive without NumPy arrays; its first entry is ",
                     Quote(first), ". Save an Excel workbook as CSV, and tensors of PyTorch with ",
                     "numpy.savez(path, probabilities=p.numpy(), labels=y.numpy())"));
  }
  return file;
}

absl::StatusOr<NpyArray> NpzFile::Read(const std::string& name) const {
  const std::string source = absl::StrCat(path_, ", array ", Quote(name));
  const std::string entry_name = absl::StrCat(name, std::string(kSuffix));
  const std::unique_ptr<zip_file_t, CloseEntry> entry(
      zip_fopen(archive_.get(), entry_name.c_str(), 0));
  if (entry == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", zip_strerror(archive_.get())));
  }
  EntryBuffer buffer(entry.get());
  std::istream input(&buffer);
  auto array = ReadNpy(input, source);
  if (buffer.failed()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is damaged: ", zip_file_strerror(entry.get())));
  }
  return array;
}

}  // namespace calibd::cli
