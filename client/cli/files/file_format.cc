#include "client/cli/files/file_format.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::cli {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kMaxMagicBytes = 16;

struct OtherFormat {
  std::string_view magic;
  const char* name;
  const char* conversion;
};
constexpr std::string_view kMatlab = "MATLAB 5.0 MAT";
constexpr OtherFormat kOtherFormats[] = {
    {"PAR1", "a Parquet file", "pandas.read_parquet(path).to_csv(\"p.csv\", index=False)"},
    {"ARROW1", "an Arrow or Feather file",
     "pandas.read_feather(path).to_csv(\"p.csv\", index=False)"},
    {"FEA1", "a Feather file", "pandas.read_feather(path).to_csv(\"p.csv\", index=False)"},
    {"ORC", "an ORC file", "pandas.read_orc(path).to_csv(\"p.csv\", index=False)"},
    {"Obj\x01", "an Avro file", "write its records as JSON, one object on each line"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file", "numpy.save(\"p.npy\", h5py.File(path)[\"NAME\"][:])"},
    {kMatlab, "a MATLAB file", "numpy.save(\"p.npy\", scipy.io.loadmat(path)[\"NAME\"])"},
    {"SQLite format 3\0"sv, "an SQLite database", "sqlite3 -csv -header FILE \"SELECT ...\""},
    {"\xD0\xCF\x11\xE0", "an old Excel workbook", "save it as CSV"},
    {"\x80\x02", "a Python pickle", "numpy.save(\"p.npy\", p) in the program that wrote it"},
    {"\x80\x03", "a Python pickle", "numpy.save(\"p.npy\", p) in the program that wrote it"},
    {"\x80\x04", "a Python pickle", "numpy.save(\"p.npy\", p) in the program that wrote it"},
    {"\x80\x05", "a Python pickle", "numpy.save(\"p.npy\", p) in the program that wrote it"},
    {"\x1F\x8B", "compressed with gzip", "zcat FILE | calibctl ... -"},
    {"BZh", "compressed with bzip2", "bzcat FILE | calibctl ... -"},
    {"\xFD"
     "7zXZ",
     "compressed with xz", "xzcat FILE | calibctl ... -"},
    {"\x28\xB5\x2F\xFD", "compressed with Zstandard", "zstdcat FILE | calibctl ... -"},
    {"\xFF\xFE", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | calibctl ... -"},
    {"\xFE\xFF", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | calibctl ... -"},
};

// Returns the next bytes, as many as the buffer of the input has, and puts them back.
std::string Peek(std::istream& input) {
  std::string bytes;
  if (input.peek() == std::char_traits<char>::eof()) {
    input.clear();
    return bytes;
  }
  std::streambuf& buffer = *input.rdbuf();
  const auto count = std::min<std::streamsize>(buffer.in_avail(), kMaxMagicBytes);
  for (std::streamsize i = 0; i < count; ++i) bytes.push_back(static_cast<char>(buffer.sbumpc()));
  for (std::streamsize i = 0; i < count; ++i) buffer.sungetc();
  return bytes;
}

// The magic bytes of some formats are letters, with which a name in a CSV file may begin too.
bool IsBinary(std::string_view start) {
  return std::any_of(start.begin(), start.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || (c >= 0 && c < ' ' && !std::isspace(c));
  });
}

}  // namespace

absl::StatusOr<FileFormat> DetectFormat(std::istream& input, const std::string& source) {
  const std::string start = Peek(input);
  if (start.starts_with("\x93NUMPY")) return FileFormat::kNpy;
  if (start.starts_with("PK\x03\x04")) return FileFormat::kNpz;
  for (const OtherFormat& format : kOtherFormats) {
    if (start.starts_with(format.magic) && (IsBinary(start) || format.magic == kMatlab)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": this is ", format.name,
                       ", which calibctl does not read; convert it: ", format.conversion));
    }
  }
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return FileFormat::kCsv;
  // A JSON array too, so that its error can name the line and the conversion.
  return start[first] == '{' || start[first] == '[' ? FileFormat::kJsonLines : FileFormat::kCsv;
}

absl::StatusOr<InputFile> OpenInput(const std::string& path) {
  InputFile file;
  file.path = path == "-" ? "/dev/stdin" : path;
  file.name = path == "-" ? "standard input" : path;
  file.stream = std::make_unique<std::ifstream>(file.path, std::ios::binary);
  const int open_error = errno;
  if (!*file.stream) {
    return absl::ErrnoToStatus(open_error, absl::StrCat("cannot read ", file.name));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(file.path, ignored)) {
    return absl::ErrnoToStatus(EISDIR, absl::StrCat("cannot read ", file.name));
  }
  CALIBD_ASSIGN_OR_RETURN(file.format, DetectFormat(*file.stream, file.name));
  return file;
}

}  // namespace calibd::cli
