#include "npy_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/convert/json.h"
#include "calibd/core/status_macros.h"

static_assert(std::endian::native == std::endian::little,
              "NumPy files are read as they lie in memory");

namespace calibd::cli {
namespace {

using convert::Json;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 65536;
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
  const std::optional<Header> header = ParseHeader(text);
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
    return Error(source, absl::StrCat("has data after the ", count, " elements of its header"));
  }
  return absl::OkStatus();
}

// A type of elements as it is named in a header, and the function that reads such elements.
template <typename Value>
struct ElementType {
  std::string_view descr;
  absl::Status (*read)(std::istream& input, const std::string& source, std::uint64_t count,
                       std::vector<Value>& values);
};

constexpr ElementType<double> kReals[] = {{"<f8", ReadElements<double>},
                                          {"<f4", ReadElements<float>}};
constexpr ElementType<std::int64_t> kIntegers[] = {
    {"<i8", ReadElements<std::int64_t>},  {"<i4", ReadElements<std::int32_t>},
    {"<i2", ReadElements<std::int16_t>},  {"|i1", ReadElements<std::int8_t>},
    {"<u8", ReadElements<std::uint64_t>}, {"<u4", ReadElements<std::uint32_t>},
    {"<u2", ReadElements<std::uint16_t>}, {"|u1", ReadElements<std::uint8_t>}};

// Reads `count` elements of one of the types. expected: describes the types, for errors.
template <typename Value>
absl::StatusOr<std::vector<Value>> ReadValues(std::istream& input, const std::string& source,
                                              const Header& header, std::uint64_t count,
                                              std::span<const ElementType<Value>> types,
                                              const char* expected) {
  const auto type = std::find_if(types.begin(), types.end(),
                                 [&](const auto& one) { return one.descr == header.descr; });
  if (type == types.end()) {
    return Error(source, absl::StrCat("type \"", absl::CHexEscape(header.descr.substr(0, 32)),
                                      "\", expected ", expected));
  }
  std::vector<Value> values;
  CALIBD_RETURN_IF_ERROR(type->read(input, source, count, values));
  return values;
}

}  // namespace

bool LooksLikeNpy(std::istream& input) {
  // The first character suffices, and can be inspected in a pipe too: no CSV begins with it.
  return input.peek() == static_cast<unsigned char>(kMagic[0]);
}

absl::StatusOr<Table> ReadNpy(std::istream& input, const std::string& source) {
  CALIBD_ASSIGN_OR_RETURN(const auto header, ReadHeader(input, source));
  if (header.fortran_order) return Error(source, "Fortran order, expected C order");
  if (header.shape.size() != 2 || header.shape[0] == 0 || header.shape[1] == 0 ||
      header.shape[0] > std::numeric_limits<std::int64_t>::max() / 8 / header.shape[1]) {
    return Error(source, absl::StrCat("shape ", ShapeText(header.shape),
                                      ", expected (predictions, classes)"));
  }
  CALIBD_ASSIGN_OR_RETURN(
      auto values, ReadValues<double>(input, source, header, header.shape[0] * header.shape[1],
                                      kReals, "\"<f4\" or \"<f8\""));
  return Table{.values = std::move(values),
               .row_count = header.shape[0],
               .column_count = header.shape[1],
               .labels = {}};
}

absl::StatusOr<std::vector<std::int64_t>> ReadNpyLabels(std::istream& input,
                                                        const std::string& source) {
  CALIBD_ASSIGN_OR_RETURN(const auto header, ReadHeader(input, source));
  if (header.shape.size() != 1 || header.shape[0] == 0 ||
      header.shape[0] > std::numeric_limits<std::int64_t>::max() / 8) {
    return Error(source, absl::StrCat("shape ", ShapeText(header.shape), ", expected (labels, )"));
  }
  return ReadValues<std::int64_t>(input, source, header, header.shape[0], kIntegers,
                                  "little-endian integers");
}

}  // namespace calibd::cli
