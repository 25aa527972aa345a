#include "server/intake/inference_answer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

using Document = nlohmann::json;

// Of arrays in arrays; a tensor has two.
constexpr int kMaxDepth = 16;

// A value of JSON, for errors.
std::string Describe(const Document& json) {
  if (json.is_string()) {
    return absl::StrCat("the text ", Quoted(json.get_ref<const std::string&>()));
  }
  if (json.is_null()) return "null";
  if (json.is_boolean()) return json.get<bool>() ? "true" : "false";
  return json.is_object() ? "an object" : json.is_array() ? "an array" : json.dump();
}

// Appends the numbers of nested arrays. Returns the first element that is no number, with its place
// such as "[1][0]".
std::optional<Violation> AppendNumbers(const Document& json, InferenceTensor& tensor) {
  if (json.is_number()) {
    tensor.integers &= json.is_number_integer();
    tensor.values.push_back(json.get<double>());
    return std::nullopt;
  }
  if (!json.is_array()) {
    return Violation{.field = "",
                     .description = absl::StrCat("is ", Describe(json), ", expected a number")};
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (std::optional<Violation> wrong = AppendNumbers(json[i], tensor)) {
      wrong->field = absl::StrCat("[", i, "]", wrong->field);
      return wrong;
    }
  }
  return std::nullopt;
}

// Upper bound of the values that AppendNumbers or AppendClasses append.
std::size_t CountValues(const Document& json) {
  if (!json.is_structured()) return 1;
  std::size_t count = 0;
  for (const Document& element : json) count += CountValues(element);
  return count;
}

// The end of a field that names an output or a class, from the server that answers.
std::string Key(const std::string& name) {
  constexpr std::size_t kMaxLength = 80;
  return absl::StrCat(".", absl::CHexEscape(name.substr(0, kMaxLength)));
}

// Appends the values of the classes of a row, by the keys of the tensor. place: of the row.
absl::Status AppendClasses(const Document& row, const std::string& place, InferenceTensor& tensor) {
  for (const std::string& key : tensor.class_keys) {
    const auto value = row.is_object() ? row.find(key) : row.end();
    if (value == row.end() || row.size() != tensor.class_keys.size()) {
      return InvalidFieldError(place,
                               "does not have the keys of the first row, one for each class");
    }
    if (!value->is_number()) {
      return InvalidFieldError(place + Key(key),
                               absl::StrCat("is ", Describe(*value), ", expected a number"));
    }
    tensor.integers &= value->is_number_integer();
    tensor.values.push_back(value->get<double>());
  }
  return absl::OkStatus();
}

// Appends the values of rows of equal length. field: of the rows. values_of: the values in a row.
template <typename ValuesOf>
absl::Status AppendRows(const Document& rows, const std::string& field, const ValuesOf& values_of,
                        InferenceTensor& tensor) {
  if (!rows.is_array()) {
    return InvalidFieldError(field, absl::StrCat("is ", Describe(rows), ", expected an array"));
  }
  tensor.values.reserve(CountValues(rows));
  tensor.integers = true;
  std::size_t width = 0;  // of the first row
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t before = tensor.values.size();
    CALIBD_ASSIGN_OR_RETURN(const Document* const values, values_of(rows[i], i));
    const std::string place = absl::StrCat(field, "[", i, "]", tensor.key);
    if (!tensor.class_keys.empty()) {
      CALIBD_RETURN_IF_ERROR(AppendClasses(*values, place, tensor));
    } else if (const auto wrong = AppendNumbers(*values, tensor)) {
      return InvalidFieldError(place + wrong->field, wrong->description);
    }
    const std::size_t count = tensor.values.size() - before;
    if (i == 0) width = count;
    if (count != width) {
      return InvalidFieldError(
          absl::StrCat(field, "[", i, "]", tensor.key),
          absl::StrCat("has ", count, " values, expected ", width, " as in the first row"));
    }
  }
  return absl::OkStatus();
}

// The names of outputs, for errors.
class NameList {
 public:
  void Add(const std::string& name) {
    constexpr std::size_t kMostNames = 8;
    if (++count_ <= kMostNames) absl::StrAppend(&names_, count_ > 1 ? ", " : "", Quoted(name));
    if (count_ == kMostNames + 1) names_ += ", ...";
  }

  // The error that none of these outputs has the name; or, if it is empty, that one is needed.
  // classes: those that the outputs could have been; without a count, the outputs could not.
  [[nodiscard]] absl::Status Error(const std::string& field, const std::string& wanted,
                                   const AnswerClasses& classes = {}) const {
    const std::string found =
        absl::StrCat(count_, count_ == 1 ? " output" : " outputs", count_ > 0 ? ": " : "", names_);
    return InvalidFieldError(
        field, wanted.empty()
                   ? absl::StrCat("has ", found, "; expected one, or inferenceOutput.name of the ",
                                  "model to name one of them",
                                  classes.count == 0 ? "" : "; or a value for each of ",
                                  classes.count == 0 ? "" : DescribeClassKeys(classes))
                   : absl::StrCat("has no output ", Quoted(wanted),
                                  " as inferenceOutput.name of the model says, but ", found));
  }

 private:
  std::size_t count_ = 0;
  std::string names_;
};

// {"predictions": [row, ...]}: a row is an array, a number, an object with the value of each class,
// or an object of named outputs, each of which is one of the others.
absl::StatusOr<InferenceTensor> ReadVersion1(const Document& predictions, const std::string& name,
                                             const AnswerClasses& classes) {
  InferenceTensor tensor{.values = {}, .field = "predictions"};
  const auto select = [&](const Document& row, std::size_t i) -> absl::StatusOr<const Document*> {
    if (!row.is_object()) return &row;
    const auto found = name.empty() && row.size() == 1 ? row.begin() : row.find(name);
    // Like an array, the only output need not have its name.
    if (found == row.end() && ClassKeys(row, classes).has_value()) return &row;
    if (found != row.end()) {
      if (i == 0) tensor.key = Key(found.key());
      return &*found;
    }
    NameList names;
    for (const auto& output : row.items()) names.Add(output.key());
    return names.Error(absl::StrCat("predictions[", i, "]"), name, classes);
  };
  const auto values_of = [&](const Document& row,
                             std::size_t i) -> absl::StatusOr<const Document*> {
    CALIBD_ASSIGN_OR_RETURN(const Document* const values, select(row, i));
    // The keys of the first row are those of all rows.
    if (i == 0) {
      tensor.class_keys = ClassKeys(*values, classes).value_or(std::vector<std::string>());
    }
    return values;
  };
  CALIBD_RETURN_IF_ERROR(AppendRows(predictions, tensor.field, values_of, tensor));
  tensor.rows = predictions.size();
  return tensor;
}

// The output with this name, or the only one. outputs: an array of them. name_of: of one output.
template <typename Outputs, typename NameOf>
absl::StatusOr<std::size_t> FindOutput(const Outputs& outputs, const std::string& name,
                                       const NameOf& name_of) {
  if (name.empty() && outputs.size() == 1) return 0;
  NameList names;
  std::optional<std::size_t> found;
  std::size_t i = 0;
  for (const auto& output : outputs) {
    if (!name.empty() && name_of(output) == name) {
      if (found.has_value()) {
        return InvalidFieldError("outputs", absl::StrCat("has two outputs ", Quoted(name),
                                                         ", expected different names"));
      }
      found = i;
    }
    names.Add(name_of(output));
    ++i;
  }
  if (!found.has_value()) return names.Error("outputs", name);
  return *found;
}

// The field of an output.
std::string OutputField(const std::string& name, std::size_t index) {
  return absl::StrCat("outputs", name.empty() ? absl::StrCat("[", index, "]") : Key(name));
}

// An output whose values are bytes.
struct RawOutput {
  const std::string& name;
  const std::string& datatype;
  // Empty if it is unknown. One dimension may be -1.
  std::span<const std::int64_t> shape;
  std::string_view bytes;
  // That of the output.
  std::string field;
};

// The size of a value in bytes. Errors: InvalidArgument for other types than FP16, FP32 and FP64.
absl::StatusOr<std::size_t> SizeOfValue(const std::string& name, const std::string& datatype) {
  if (datatype == "FP16") return sizeof(std::uint16_t);
  if (datatype == "FP32") return sizeof(float);
  if (datatype == "FP64") return sizeof(double);
  return InvalidFieldError(
      "outputs.datatype",
      absl::StrCat("is ", Quoted(datatype), " for the output ", Quoted(name),
                   ", expected FP16, FP32 or FP64: probabilities or logits, not classes"));
}

// The bytes of a tensor; nothing if they are more than `limit`, or if a dimension is negative.
std::optional<std::size_t> SizeOfShape(std::span<const std::int64_t> shape, std::size_t value_size,
                                       std::size_t limit) {
  std::size_t size = value_size;
  for (const std::int64_t dimension : shape) {
    const auto count = static_cast<std::size_t>(dimension);
    if (dimension < 0 || (count > 0 && size > limit / count)) return std::nullopt;
    size *= count;
  }
  return size;
}

std::string DescribeShape(std::span<const std::int64_t> shape) {
  const auto dimensions = shape.first(std::min<std::size_t>(shape.size(), kMaxDepth));
  return absl::StrCat("[", absl::StrJoin(dimensions, ", "), "]");
}

// found: the values of the output.
absl::Status ShapeError(const std::string& name, std::span<const std::int64_t> shape,
                        const std::string& found) {
  return InvalidFieldError(
      "outputs.shape",
      absl::StrCat("is ", DescribeShape(shape), " for the output ", Quoted(name), " with ", found,
                   ", expected the shape of the values, in which one dimension may be -1"));
}

// The rows that the shape of an output states; nothing if it is empty. One dimension may be -1: it
// is what the values need. Errors: InvalidArgument unless there are as many values as the shape
// says.
absl::StatusOr<std::optional<std::size_t>> RowsOf(const std::string& name,
                                                  std::span<const std::int64_t> shape,
                                                  std::size_t values) {
  if (shape.empty()) return std::optional<std::size_t>();
  std::vector<std::int64_t> known(shape.begin(), shape.end());
  const std::size_t unknown = std::erase(known, -1);
  const std::optional<std::size_t> size =
      SizeOfShape(known, 1, std::numeric_limits<std::size_t>::max());
  const bool fits =
      size.has_value() &&
      (unknown == 0 ? *size == values : unknown == 1 && *size > 0 && values % *size == 0);
  if (!fits) return ShapeError(name, shape, absl::StrCat(values, " values"));
  return std::optional(shape[0] == -1 ? values / *size : static_cast<std::size_t>(shape[0]));
}

absl::Status CheckRawSize(const RawOutput& output, std::size_t value_size, std::string_view field) {
  const std::size_t size = output.bytes.size();
  std::string expected;
  const auto& shape = output.shape;
  if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; })) {
    if (size % value_size == 0) return absl::OkStatus();
    expected = absl::StrCat("a multiple of ", value_size);
  } else {
    constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();
    const std::optional<std::size_t> stated = SizeOfShape(shape, value_size, kLargest);
    if (stated == size) return absl::OkStatus();
    if (!stated.has_value()) return ShapeError(output.name, shape, absl::StrCat(size, " bytes"));
    expected = absl::StrCat(*stated, " for the shape ", DescribeShape(shape));
  }
  return InvalidFieldError(
      field, absl::StrCat("has ", size, " bytes for the output ", Quoted(output.name), " of ",
                          output.datatype, ", expected ", expected));
}

// The numbers of the protocol are little-endian.
static_assert(std::endian::native == std::endian::little);

// A number of 16 bits of IEEE 754.
struct Half {
  std::uint16_t bits = 0;

  explicit operator double() const {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const double sign = bits >> 15 == 0 ? 1 : -1;
    if (exponent == 31) {
      return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
    }
    return sign *
           (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
  }
};

template <typename Number>
void AppendRaw(std::string_view bytes, std::vector<double>& values) {
  values.reserve(bytes.size() / sizeof(Number));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof(Number));
    values.push_back(static_cast<double>(number));
  }
}

// field: that of the bytes, for errors.
absl::StatusOr<InferenceTensor> ReadRaw(const RawOutput& output, std::string_view field) {
  CALIBD_ASSIGN_OR_RETURN(const std::size_t value_size, SizeOfValue(output.name, output.datatype));
  CALIBD_RETURN_IF_ERROR(CheckRawSize(output, value_size, field));
  InferenceTensor tensor{.values = {}, .field = output.field, .raw_bytes = output.bytes.size()};
  if (value_size == sizeof(double)) {
    AppendRaw<double>(output.bytes, tensor.values);
  } else if (value_size == sizeof(Half)) {
    AppendRaw<Half>(output.bytes, tensor.values);
  } else {
    AppendRaw<float>(output.bytes, tensor.values);
  }
  CALIBD_ASSIGN_OR_RETURN(tensor.rows, RowsOf(output.name, output.shape, tensor.values.size()));
  return tensor;
}

// A text of a JSON object; empty if it has no such text.
std::string TextOf(const Document& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The parameter binary_data_size of an output; null without one.
const Document* BinarySize(const Document& output) {
  const auto parameters = output.find("parameters");
  if (parameters == output.end() || !parameters->is_object()) return nullptr;
  const auto size = parameters->find("binary_data_size");
  return size == parameters->end() ? nullptr : &*size;
}

// The bytes of one output, of those that follow the JSON in the order of the outputs. Checks the
// sizes of all outputs. field: what contains the bytes, for errors. Errors: InvalidArgument.
absl::StatusOr<std::string_view> FindTensor(const Document& outputs, std::size_t index,
                                            std::string_view tensors, const char* field) {
  constexpr const char* kField = "outputs.parameters.binary_data_size";
  std::string_view found;
  std::size_t at = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Document* const size = BinarySize(outputs[i]);
    if (size == nullptr) continue;
    if (!size->is_number_unsigned()) return InvalidFieldError(kField, "is not a number of bytes");
    const auto bytes = size->get<std::uint64_t>();
    if (bytes > tensors.size() - at) {
      return InvalidFieldError(
          kField, absl::StrCat("is ", bytes, " for the output ", Quoted(TextOf(outputs[i], "name")),
                               ", but ", tensors.size() - at, " bytes remain in ", field));
    }
    if (i == index) found = tensors.substr(at, bytes);
    at += bytes;
  }
  if (at < tensors.size()) {
    return InvalidFieldError(field, absl::StrCat("has ", tensors.size(), " bytes after the JSON, ",
                                                 "expected ", at, " as the outputs say"));
  }
  return found;
}

// The shape of an output; empty if it has none. Errors: InvalidArgument unless it is an array of at
// most kMaxDepth dimensions.
absl::StatusOr<std::vector<std::int64_t>> ReadShape(const Document& output) {
  const auto shape = output.find("shape");
  if (shape == output.end()) return std::vector<std::int64_t>();
  const std::string of_output = absl::StrCat(" for the output ", Quoted(TextOf(output, "name")));
  if (!shape->is_array() || shape->size() > kMaxDepth) {
    const std::string found = shape->is_array() ? absl::StrCat("has ", shape->size(), " dimensions")
                                                : absl::StrCat("is ", Describe(*shape));
    return InvalidFieldError("outputs.shape", absl::StrCat(found, of_output, ", expected an array ",
                                                           "of at most ", kMaxDepth, " integers"));
  }
  for (std::size_t i = 0; i < shape->size(); ++i) {
    const Document& dimension = (*shape)[i];
    if (dimension.is_number_integer()) continue;
    return InvalidFieldError(
        absl::StrCat("outputs.shape[", i, "]"),
        absl::StrCat("is ", Describe(dimension), of_output, ", expected an integer"));
  }
  return shape->get<std::vector<std::int64_t>>();
}

// Errors: InvalidArgument unless it is an array of objects. The columnar answer of TensorFlow
// Serving has an array of numbers, or an object.
absl::Status CheckOutputs(const Document& outputs) {
  constexpr const char* kExpected =
      "objects with name and data; TensorFlow Serving answers with predictions when it is asked in "
      "the row format (instances)";
  if (!outputs.is_array()) {
    return InvalidFieldError(
        "outputs", absl::StrCat("is ", Describe(outputs), ", expected an array of ", kExpected));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_object()) continue;
    return InvalidFieldError(absl::StrCat("outputs[", i, "]"),
                             absl::StrCat("is ", Describe(outputs[i]), ", expected ", kExpected));
  }
  return absl::OkStatus();
}

// {"outputs": [{"name", "shape", "data"}, ...]}. tensors: what follows the JSON.
// container: what contains both, for errors.
absl::StatusOr<InferenceTensor> ReadVersion2(const Document& outputs, const std::string& name,
                                             std::string_view tensors, const char* container) {
  CALIBD_RETURN_IF_ERROR(CheckOutputs(outputs));
  CALIBD_ASSIGN_OR_RETURN(
      const std::size_t index,
      FindOutput(outputs, name, [](const Document& output) { return TextOf(output, "name"); }));
  const Document& output = outputs[index];
  CALIBD_ASSIGN_OR_RETURN(const std::string_view bytes,
                          FindTensor(outputs, index, tensors, container));
  const std::string output_name = TextOf(output, "name");
  const bool binary = BinarySize(output) != nullptr;
  const bool text = output.contains("data");
  if (binary == text) {
    return InvalidFieldError(
        "outputs", absl::StrCat("has ", binary ? "both data and" : "neither data nor",
                                " binary_data_size for the output ", Quoted(output_name)));
  }
  const std::string datatype = TextOf(output, "datatype");
  const std::string field = OutputField(output_name, index);
  CALIBD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, ReadShape(output));
  if (binary) {
    return ReadRaw(
        {.name = output_name, .datatype = datatype, .shape = shape, .bytes = bytes, .field = field},
        container);
  }
  if (!datatype.empty()) CALIBD_RETURN_IF_ERROR(SizeOfValue(output_name, datatype).status());
  InferenceTensor tensor{.values = {}, .field = field};
  const Document& data = output["data"];
  CALIBD_RETURN_IF_ERROR(AppendRows(
      data, field + ".data",
      [](const Document& row, std::size_t) { return absl::StatusOr<const Document*>(&row); },
      tensor));
  // A declared type is one of real numbers.
  tensor.integers &= datatype.empty();
  CALIBD_ASSIGN_OR_RETURN(tensor.rows, RowsOf(output_name, shape, tensor.values.size()));
  // Of values without nested arrays, only the shape tells the rows.
  if (data.empty() || !data[0].is_array()) return tensor;
  if (tensor.rows.has_value() && *tensor.rows != data.size()) {
    return InvalidFieldError(field + ".data",
                             absl::StrCat("has ", data.size(), " rows, expected ", *tensor.rows,
                                          " as in the shape ", DescribeShape(shape)));
  }
  tensor.rows = data.size();
  return tensor;
}

absl::StatusOr<InferenceTensor> ReadMessage(const inference::v2::ModelInferResponse& answer,
                                            const std::string& name) {
  CALIBD_ASSIGN_OR_RETURN(
      const std::size_t index,
      FindOutput(answer.outputs(), name, [](const auto& output) { return output.name(); }));
  const auto& output = answer.outputs(static_cast<int>(index));
  if (const int raw = answer.raw_output_contents_size(); raw > 0) {
    if (raw != answer.outputs_size()) {
      return InvalidFieldError("raw_output_contents",
                               absl::StrCat("has ", raw, " elements, expected ",
                                            answer.outputs_size(), ", one for each output"));
    }
    return ReadRaw({.name = output.name(),
                    .datatype = output.datatype(),
                    .shape = {output.shape().data(), static_cast<std::size_t>(output.shape_size())},
                    .bytes = answer.raw_output_contents(static_cast<int>(index)),
                    .field = OutputField(output.name(), index)},
                   "raw_output_contents");
  }
  CALIBD_ASSIGN_OR_RETURN(const std::size_t value_size,
                          SizeOfValue(output.name(), output.datatype()));
  InferenceTensor tensor{.values = {}, .field = OutputField(output.name(), index)};
  const bool is_double = value_size == sizeof(double);
  const auto& contents = output.contents();
  if ((is_double ? contents.fp32_contents_size() : contents.fp64_contents_size()) > 0) {
    return InvalidFieldError(
        is_double ? "outputs.contents.fp32_contents" : "outputs.contents.fp64_contents",
        absl::StrCat("has values for the output ", Quoted(output.name()), " of ", output.datatype(),
                     ", expected them in ", is_double ? "fp64_contents" : "fp32_contents"));
  }
  if (is_double) {
    const auto& values = contents.fp64_contents();
    tensor.values.assign(values.begin(), values.end());
  } else {
    const auto& values = contents.fp32_contents();
    tensor.values.assign(values.begin(), values.end());
  }
  const std::span<const std::int64_t> shape(output.shape().data(),
                                            static_cast<std::size_t>(output.shape_size()));
  CALIBD_ASSIGN_OR_RETURN(tensor.rows, RowsOf(output.name(), shape, tensor.values.size()));
  return tensor;
}

// The length of the JSON object with which the text begins; that of the text if there is no end.
std::size_t ObjectLength(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

// Errors: InvalidArgument unless the text is a number of at most `limit` in decimal digits.
absl::StatusOr<std::size_t> ParseLength(const std::string& text, std::size_t limit) {
  std::uint64_t length = 0;
  const bool digits =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (!digits || !absl::SimpleAtoi(text, &length) || length > limit) {
    return InvalidFieldError(
        "Inference-Header-Content-Length",
        absl::StrCat("is ", Quoted(text), ", expected 0..", limit, ", the length of the JSON"));
  }
  return length;
}

// True if arrays and objects nest deeper than an answer needs, before the first fault of the JSON.
bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// The number of names in all objects of a document.
std::size_t CountNames(const Document& json) {
  std::size_t count = json.is_object() ? json.size() : 0;
  if (!json.is_structured()) return count;
  for (const Document& element : json) count += CountNames(element);
  return count;
}

// Builds a document, and keeps what is wrong with the JSON. Of values with the same name in an
// object, the document has the last one.
class Parser : public nlohmann::detail::json_sax_dom_parser<Document> {
 public:
  explicit Parser(Document& document)
      : json_sax_dom_parser(document, /*allow_exceptions_=*/false) {}

  template <typename Fault>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Fault& fault) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ..."
    const std::string_view text = fault.what();
    fault_ = text.substr(std::min(text.find("] ") + 2, text.size()));
    return false;
  }

  bool key(std::string& name) {
    ++names_;
    return json_sax_dom_parser::key(name);
  }

  [[nodiscard]] const std::string& fault() const { return fault_; }
  // Those of the text, which repeats a name if the document has fewer.
  [[nodiscard]] std::size_t names() const { return names_; }

 private:
  std::string fault_;
  std::size_t names_ = 0;
};

}  // namespace

bool IsJson(std::string_view content_type, std::string_view body) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return (!body.empty() && body.front() == '{') ||
         absl::StrContains(absl::AsciiStrToLower({type.data(), type.size()}), "json");
}

absl::StatusOr<Document> ParseJsonObject(std::string_view text, const char* field,
                                         const char* what) {
  if (NestsTooDeep(text)) {
    return InvalidFieldError(field,
                             absl::StrCat("nests deeper than ", kMaxDepth, ", expected ", what));
  }
  Document document;
  Parser parser(document);
  // With a callback, the parser would read the elements before each object of an array again.
  if (!Document::sax_parse(text, &parser)) {
    const Violation fault{
        .field = field, .description = absl::StrCat("is not JSON: ", Quoted(parser.fault(), 300))};
    return InvalidFieldsError("INVALID_JSON", std::span(&fault, 1));
  }
  if (!document.is_object()) {
    return InvalidFieldError(
        field, absl::StrCat("is a JSON ", document.type_name(), ", expected the object of ", what));
  }
  if (parser.names() > CountNames(document)) {
    return InvalidFieldError(field, "has an object with the same name twice, expected it once");
  }
  return document;
}

absl::StatusOr<InferenceAnswer> InferenceAnswer::FromJson(Document json, const char* field) {
  if (!json.is_object()) {
    return InvalidFieldError(
        field, absl::StrCat("is a JSON ", json.type_name(), ", expected the object of an answer"));
  }
  return InferenceAnswer(std::move(json), field);
}

absl::StatusOr<InferenceAnswer> InferenceAnswer::ParseJson(std::string_view body,
                                                           const std::string& json_length,
                                                           const char* field) {
  std::size_t length = 0;
  if (json_length.empty()) {
    length = ObjectLength(body);
    // White space at the end is part of the JSON.
    if (body.find_first_not_of(" \t\r\n", length) == std::string_view::npos) length = body.size();
  } else {
    CALIBD_ASSIGN_OR_RETURN(length, ParseLength(json_length, body.size()));
  }
  CALIBD_ASSIGN_OR_RETURN(Document document,
                          ParseJsonObject(body.substr(0, length), field, "an answer"));
  InferenceAnswer answer(std::move(document), field);
  answer.tensors_ = body.substr(length);
  return answer;
}

absl::StatusOr<InferenceAnswer> InferenceAnswer::ParseMessage(const std::string& bytes,
                                                              const char* field) {
  inference::v2::ModelInferResponse message;
  if (!message.ParseFromString(bytes)) {
    return InvalidFieldError(field, "is not a ModelInferResponse of the Open Inference Protocol");
  }
  return InferenceAnswer(std::move(message), field);
}

absl::StatusOr<InferenceTensor> InferenceAnswer::Read(const std::string& output,
                                                      const AnswerClasses& classes) const {
  if (const auto* const message = std::get_if<inference::v2::ModelInferResponse>(&answer_)) {
    return ReadMessage(*message, output);
  }
  const auto& document = std::get<Document>(answer_);
  if (document.contains("outputs")) {
    return ReadVersion2(document["outputs"], output, tensors_, field_);
  }
  if (!tensors_.empty()) return InvalidFieldError(field_, "has bytes after JSON without outputs");
  if (document.contains("predictions")) {
    return ReadVersion1(document["predictions"], output, classes);
  }
  return InvalidFieldError(field_,
                           "has neither predictions nor outputs, expected the answer of a model");
}

}  // namespace calibd::server
