#include "client/cli/files/npy_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "calibd/convert/json.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/text_row.h"

static_assert(std::endian::native == std::endian::little,
              "NumPy files are read without a change of the byte order");

namespace calibd::cli {
namespace {

using convert::Json;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 65536;
// Class names in an array of texts are shorter.
constexpr std::size_t kMaxTextLength = 10000;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Parses the header. It is a Python dict with three known keys, which becomes JSON after replacing
// quotes, tuples, truth values and trailing commas.
std::optional<Header> ParseHeader(std::string text) {
  for (std::size_t comma = text.find(','); comma != std::string::npos;
       comma = text.find(',', comma + 1)) {
    const std::size_t next = text.find_first_not_of(" \n", comma + 1);
    if (next != std::string::npos && (text[next] == ')' || text[next] == '}')) text[comma] = ' ';
  }
  const Json dict = Json::parse(
      absl::StrReplaceAll(
          text, {{"'", "\""}, {"(", "["}, {")", "]"}, {"True", "true"}, {"False", "false"}}),
      nullptr, /*allow_exceptions=*/false);
  if (!dict.is_object() || dict.size() != 3) return std::nullopt;
  const Json descr = dict.value("descr", Json());
  const Json order = dict.value("fortran_order", Json());
  const Json shape = dict.value("shape", Json());
  const bool valid = descr.is_string() && order.is_boolean() && shape.is_array() &&
                     std::all_of(shape.begin(), shape.end(),
                                 [](const Json& extent) { return extent.is_number_unsigned(); });
  if (!valid) return std::nullopt;
  return Header{descr.get<std::string>(), order.get<bool>(),
                shape.get<std::vector<std::uint64_t>>()};
}

bool ReadBytes(std::istream& input, char* to, std::size_t count) {
  input.read(to, static_cast<std::streamsize>(count));
  return input.gcount() == static_cast<std::streamsize>(count);
}

absl::StatusOr<Header> ReadHeader(std::istream& input, const std::string& source) {
  std::array<char, 8> start{};
  if (!ReadBytes(input, start.data(), start.size()) ||
      std::string_view(start.data(), kMagic.size()) != kMagic) {
    return FileError(source, "is not a NumPy file");
  }
  const int major = static_cast<unsigned char>(start[6]);
  if (major != 1 && major != 2) {
    return FileError(source, absl::StrCat("NumPy format ", major, ", expected 1 or 2"));
  }
  std::array<unsigned char, 4> length_bytes{};
  if (!ReadBytes(input, reinterpret_cast<char*>(length_bytes.data()), major == 1 ? 2 : 4)) {
    return FileError(source, "ends inside the header");
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= std::size_t{length_bytes[i]} << (8 * i);
  if (length > kMaxHeaderBytes) {
    return FileError(
        source, absl::StrCat("header of ", length, " bytes, expected at most ", kMaxHeaderBytes));
  }
  std::string text(length, '\0');
  if (!ReadBytes(input, text.data(), length)) return FileError(source, "ends inside the header");
  const std::optional<Header> header = ParseHeader(text);
  if (!header.has_value()) {
    return FileError(source, absl::StrCat("header \"", absl::CHexEscape(text.substr(0, 80)),
                                          "\", expected descr, fortran_order and shape"));
  }
  return *header;
}

std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

// Reads `count` elements of `element_bytes` each, and checks that the input ends there. take:
// called with the bytes of each element.
template <typename Take>
absl::Status ReadElements(std::istream& input, const std::string& source, std::uint64_t count,
                          std::size_t element_bytes, const Take& take) {
  const std::size_t per_chunk = std::max<std::size_t>(1, kChunkBytes / element_bytes);
  std::vector<char> chunk(per_chunk * element_bytes);
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t now = std::min<std::uint64_t>(count - done, per_chunk);
    if (!ReadBytes(input, chunk.data(), now * element_bytes)) {
      return FileError(source,
                       absl::StrCat("ends before element ", count, " that its header claims"));
    }
    for (std::uint64_t i = 0; i < now; ++i) take(chunk.data() + i * element_bytes);
    done += now;
  }
  if (input.peek() != std::char_traits<char>::eof()) {
    return FileError(source, absl::StrCat("has data after the ", count, " elements of its header"));
  }
  return absl::OkStatus();
}

template <typename Stored>
absl::Status ReadNumbers(std::istream& input, const std::string& source, std::uint64_t count,
                         std::vector<double>& values) {
  return ReadElements(input, source, count, sizeof(Stored), [&](const char* bytes) {
    Stored stored;
    std::memcpy(&stored, bytes, sizeof(Stored));
    if constexpr (std::is_same_v<Stored, Eigen::half>) {
      values.push_back(static_cast<double>(static_cast<float>(stored)));
    } else {
      values.push_back(static_cast<double>(stored));
    }
  });
}

// A type of numbers as it is named in a header, and the function that reads them.
struct NumberType {
  std::string_view descr;
  absl::Status (*read)(std::istream& input, const std::string& source, std::uint64_t count,
                       std::vector<double>& values);
};
constexpr std::string_view kTruthValues = "|b1";
constexpr NumberType kNumberTypes[] = {
    {"<f8", ReadNumbers<double>},        {"<f4", ReadNumbers<float>},
    {"<f2", ReadNumbers<Eigen::half>},   {"<i8", ReadNumbers<std::int64_t>},
    {"<i4", ReadNumbers<std::int32_t>},  {"<i2", ReadNumbers<std::int16_t>},
    {"|i1", ReadNumbers<std::int8_t>},   {"<u8", ReadNumbers<std::uint64_t>},
    {"<u4", ReadNumbers<std::uint32_t>}, {"<u2", ReadNumbers<std::uint16_t>},
    {"|u1", ReadNumbers<std::uint8_t>},  {kTruthValues, ReadNumbers<std::uint8_t>}};

// Returns the number of characters of the texts of type "<U12"; unset for another type.
std::optional<std::size_t> TextLength(std::string_view descr) {
  std::size_t length = 0;
  if (!descr.starts_with("<U") || !absl::SimpleAtoi(std::string(descr.substr(2)), &length) ||
      length == 0 || length > kMaxTextLength) {
    return std::nullopt;
  }
  return length;
}

// Converts UTF-32 that ends at the first 0 to UTF-8. What is no character becomes U+FFFD.
std::string ToUtf8(const char* bytes, std::size_t length) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    char32_t c = 0;
    std::memcpy(&c, bytes + 4 * i, 4);
    if (c == 0) break;
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
    if (c < 0x80) {
      text += static_cast<char>(c);
      continue;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text += static_cast<char>((0xF0U << (3 - more)) | (c >> (6 * more)));
    for (int k = more - 1; k >= 0; --k) text += static_cast<char>(0x80U | ((c >> (6 * k)) & 0x3FU));
  }
  return text;
}

// Replaces values in Fortran order by the same values in C order.
void Transpose(NpyArray& array) {
  std::vector<double> values(array.values.size());
  for (std::size_t column = 0; column < array.column_count; ++column) {
    for (std::size_t row = 0; row < array.row_count; ++row) {
      values[row * array.column_count + column] = array.values[column * array.row_count + row];
    }
  }
  array.values = std::move(values);
}

absl::Status TypeError(const std::string& source, const std::string& descr) {
  const char* hint = "expected numbers; convert them with a.astype(\"<f8\") before you save them";
  if (descr.starts_with("|O")) {
    hint =
        "which are pickled Python objects; convert numbers with a.astype(\"<f8\") and class names "
        "with a.astype(str) before you save them";
  }
  return FileError(source, absl::StrCat("elements of type \"",
                                        absl::CHexEscape(descr.substr(0, 32)), "\", ", hint));
}

}  // namespace

absl::StatusOr<NpyArray> ReadNpy(std::istream& input, const std::string& source) {
  CALIBD_ASSIGN_OR_RETURN(const auto header, ReadHeader(input, source));
  NpyArray array;
  const std::vector<std::uint64_t>& shape = header.shape;
  if (shape.size() == 1 || shape.size() == 2) {
    array.row_count = shape[0];
    array.column_count = shape.size() == 2 ? shape[1] : 1;
  }
  if (array.row_count == 0 || array.column_count == 0 ||
      array.row_count > std::numeric_limits<std::int64_t>::max() / 8 / array.column_count) {
    return FileError(source,
                     absl::StrCat("shape ", ShapeText(shape),
                                  ", expected (rows,) or (rows, classes), at least one each"));
  }
  const std::uint64_t count = array.row_count * array.column_count;
  if (const auto length = TextLength(header.descr); length.has_value() && array.column_count == 1) {
    CALIBD_RETURN_IF_ERROR(ReadElements(input, source, count, 4 * *length, [&](const char* bytes) {
      array.texts.push_back(ToUtf8(bytes, *length));
    }));
    return array;
  }
  const auto* const type =
      std::find_if(std::begin(kNumberTypes), std::end(kNumberTypes),
                   [&](const NumberType& one) { return one.descr == header.descr; });
  if (type == std::end(kNumberTypes)) return TypeError(source, header.descr);
  array.truth_values = type->descr == kTruthValues;
  CALIBD_RETURN_IF_ERROR(type->read(input, source, count, array.values));
  if (header.fortran_order) Transpose(array);
  return array;
}

}  // namespace calibd::cli
