#include "npy_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

static_assert(std::endian::native == std::endian::little,
              "NumPy files are read as they lie in memory");

namespace calibd::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 65536;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// The header is the text of a Python dict with three known keys. This reads that
// and nothing more of Python.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> Parse() {
    Header header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!Take('{')) return std::nullopt;
    while (!Take('}')) {
      const std::optional<std::string> key = String();
      if (!key.has_value() || !Take(':')) return std::nullopt;
      if (*key == "descr" && !has_descr) {
        const std::optional<std::string> descr = String();
        if (!descr.has_value()) return std::nullopt;
        header.descr = *descr;
        has_descr = true;
      } else if (*key == "fortran_order" && !has_order) {
        header.fortran_order = TakeWord("True");
        if (!header.fortran_order && !TakeWord("False")) return std::nullopt;
        has_order = true;
      } else if (*key == "shape" && !has_shape) {
        if (!Shape(header.shape)) return std::nullopt;
        has_shape = true;
      } else {
        return std::nullopt;
      }
      if (!Take(',') && Peek() != '}') return std::nullopt;
    }
    Peek();
    if (!text_.empty() || !has_descr || !has_order || !has_shape) return std::nullopt;
    return header;
  }

 private:
  // The next character after blanks, 0 at the end.
  char Peek() {
    const std::size_t next = text_.find_first_not_of(" \n");
    text_.remove_prefix(std::min(next, text_.size()));
    return text_.empty() ? '\0' : text_.front();
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    Peek();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    text_.remove_prefix(1);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool Shape(std::vector<std::uint64_t>& shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      std::uint64_t extent = 0;
      Peek();
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc()) return false;
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape.push_back(extent);
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
};

absl::Status Error(const std::string& source, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", std::string(what)));
}

bool ReadBytes(std::istream& input, char* to, std::size_t count) {
  input.read(to, static_cast<std::streamsize>(count));
  return input.gcount() == static_cast<std::streamsize>(count);
}

absl::StatusOr<Header> ReadHeader(std::istream& input, const std::string& source) {
  std::array<char, 8> start{};
  if (!ReadBytes(input, start.data(), start.size()) ||
      std::string_view(start.data(), kMagic.size()) != kMagic) {
    return Error(source, "is not a NumPy file");
  }
  const int major = static_cast<unsigned char>(start[6]);
  if (major != 1 && major != 2) {
    return Error(source, absl::StrCat("NumPy format ", major, ", expected 1 or 2"));
  }
  std::array<unsigned char, 4> length_bytes{};
  if (!ReadBytes(input, reinterpret_cast<char*>(length_bytes.data()), major == 1 ? 2 : 4)) {
    return Error(source, "ends inside the header");
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= std::size_t{length_bytes[i]} << (8 * i);
  if (length > kMaxHeaderBytes) {
    return Error(source,
                 absl::StrCat("header of ", length, " bytes, expected at most ", kMaxHeaderBytes));
  }
  std::string text(length, '\0');
  if (!ReadBytes(input, text.data(), length)) return Error(source, "ends inside the header");
  const std::optional<Header> header = HeaderParser(text).Parse();
  if (!header.has_value()) {
    return Error(source, absl::StrCat("header \"", absl::CHexEscape(text.substr(0, 80)),
                                      "\", expected descr, fortran_order and shape"));
  }
  return *header;
}

std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (const std::uint64_t extent : shape) absl::StrAppend(&text, extent, ", ");
  return text + ")";
}

// Appends `count` elements of type Stored to `values` and checks that the input
// ends there.
template <typename Stored, typename Value>
absl::Status ReadElements(std::istream& input, const std::string& source, std::uint64_t count,
                          std::vector<Value>& values) {
  std::vector<char> chunk(kChunkBytes);
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t now = std::min<std::uint64_t>(count - done, kChunkBytes / sizeof(Stored));
    if (!ReadBytes(input, chunk.data(), now * sizeof(Stored))) {
      return Error(source, absl::StrCat("ends before element ", count, " that its header claims"));
    }
    for (std::uint64_t i = 0; i < now; ++i) {
      Stored stored;
      std::memcpy(&stored, chunk.data() + i * sizeof(Stored), sizeof(Stored));
      if constexpr (std::is_same_v<Stored, std::uint64_t>) {
        if (stored > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
          return Error(source, absl::StrCat("element ", done + i, " = ", stored,
                                            ", expected a class number"));
        }
      }
      values.push_back(static_cast<Value>(stored));
    }
    done += now;
  }
  if (input.peek() != std::char_traits<char>::eof()) {
    return Error(source, absl::StrCat("goes on after the ", count, " elements of its header"));
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeNpy(std::istream& input) {
  // One character decides and can be looked at in a pipe too: no CSV starts so.
  return input.peek() == static_cast<unsigned char>(kMagic[0]);
}

absl::StatusOr<Table> ReadNpy(std::istream& input, const std::string& source) {
  const auto header = ReadHeader(input, source);
  if (!header.ok()) return header.status();
  if (header->fortran_order) return Error(source, "Fortran order, expected C order");
  if (header->shape.size() != 2 || header->shape[0] == 0 || header->shape[1] == 0 ||
      header->shape[0] > std::numeric_limits<std::int64_t>::max() / 8 / header->shape[1]) {
    return Error(source, absl::StrCat("shape ", ShapeText(header->shape),
                                      ", expected (predictions, classes)"));
  }
  Table table;
  table.row_count = header->shape[0];
  table.column_count = header->shape[1];
  const std::uint64_t count = header->shape[0] * header->shape[1];
  absl::Status status;
  if (header->descr == "<f8") {
    status = ReadElements<double>(input, source, count, table.values);
  } else if (header->descr == "<f4") {
    status = ReadElements<float>(input, source, count, table.values);
  } else {
    status = Error(source, absl::StrCat("type \"", absl::CHexEscape(header->descr.substr(0, 32)),
                                        "\", expected \"<f4\" or \"<f8\""));
  }
  if (!status.ok()) return status;
  return table;
}

absl::StatusOr<std::vector<std::int64_t>> ReadNpyLabels(std::istream& input,
                                                        const std::string& source) {
  const auto header = ReadHeader(input, source);
  if (!header.ok()) return header.status();
  if (header->shape.size() != 1 || header->shape[0] == 0 ||
      header->shape[0] > std::numeric_limits<std::int64_t>::max() / 8) {
    return Error(source, absl::StrCat("shape ", ShapeText(header->shape), ", expected (labels, )"));
  }
  std::vector<std::int64_t> labels;
  const std::string& type = header->descr;
  const std::uint64_t count = header->shape[0];
  absl::Status status;
  if (type == "<i8") {
    status = ReadElements<std::int64_t>(input, source, count, labels);
  } else if (type == "<i4") {
    status = ReadElements<std::int32_t>(input, source, count, labels);
  } else if (type == "<i2") {
    status = ReadElements<std::int16_t>(input, source, count, labels);
  } else if (type == "|i1") {
    status = ReadElements<std::int8_t>(input, source, count, labels);
  } else if (type == "<u8") {
    status = ReadElements<std::uint64_t>(input, source, count, labels);
  } else if (type == "<u4") {
    status = ReadElements<std::uint32_t>(input, source, count, labels);
  } else if (type == "<u2") {
    status = ReadElements<std::uint16_t>(input, source, count, labels);
  } else if (type == "|u1") {
    status = ReadElements<std::uint8_t>(input, source, count, labels);
  } else {
    status = Error(source, absl::StrCat("type \"", absl::CHexEscape(type.substr(0, 32)),
                                        "\", expected little-endian integers"));
  }
  if (!status.ok()) return status;
  return labels;
}

}  // namespace calibd::cli
