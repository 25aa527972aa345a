#include "server/api/inference_event.h"

#include <google/protobuf/util/time_util.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/inference/v2/inference.pb.h"
#include "nlohmann/json.hpp"
#include "server/api/forecast_proto.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

using Document = nlohmann::json;

constexpr std::string_view kResponseSuffix = ".response";
constexpr std::size_t kMaxEventId = 100;
// Of arrays in arrays; a tensor has two.
constexpr int kMaxDepth = 16;

absl::Status AnswerError(absl::string_view field, absl::string_view what) {
  return InvalidFieldError(std::string(field), std::string(what));
}

// The values of an output, row by row.
struct Tensor {
  std::vector<double> values;
  // Set if the answer declares it.
  std::optional<std::size_t> rows;
};

// Builds the document only as deep as a tensor needs, and no deeper.
absl::StatusOr<Document> ParseDocument(const std::string& body) {
  bool too_deep = false;
  const Document::parser_callback_t callback =
      [&too_deep](int depth, Document::parse_event_t /*event*/, Document& /*parsed*/) {
        too_deep = too_deep || depth > kMaxDepth;
        return !too_deep;
      };
  Document document = Document::parse(body, callback, /*allow_exceptions=*/false);
  if (too_deep || document.is_discarded() || !document.is_object()) {
    return AnswerError("body", "is not the JSON of an answer, expected an object");
  }
  return document;
}

// Appends the numbers of nested arrays.
absl::Status AppendNumbers(const Document& json, absl::string_view field,
                           std::vector<double>& values) {
  if (json.is_number()) {
    values.push_back(json.get<double>());
    return absl::OkStatus();
  }
  if (!json.is_array()) {
    return AnswerError(field, absl::StrCat("contains a ", json.type_name(), ", expected numbers"));
  }
  for (const Document& element : json) {
    CALIBD_RETURN_IF_ERROR(AppendNumbers(element, field, values));
  }
  return absl::OkStatus();
}

// {"predictions": [row, ...]}: a row is an array, a number, or an object of named outputs.
absl::StatusOr<Tensor> ReadVersion1(const Document& predictions, const std::string& name) {
  if (!predictions.is_array()) return AnswerError("predictions", "is not an array");
  Tensor tensor;
  for (const Document& row : predictions) {
    const Document* values = &row;
    if (row.is_object()) {
      const auto found = name.empty() && row.size() == 1 ? row.begin() : row.find(name);
      if (found == row.end()) {
        return AnswerError("predictions", absl::StrCat("has no output ", Quoted(name),
                                                       ", see the model's inference_output"));
      }
      values = &*found;
    }
    CALIBD_RETURN_IF_ERROR(AppendNumbers(*values, "predictions", tensor.values));
  }
  tensor.rows = predictions.size();
  return tensor;
}

// The output with this name, or the only one. outputs: an array of them. name_of: of one output.
template <typename Outputs, typename NameOf>
absl::StatusOr<std::size_t> FindOutput(const Outputs& outputs, const std::string& name,
                                       const NameOf& name_of) {
  const auto count = static_cast<std::size_t>(outputs.size());
  if (name.empty() && count == 1) return 0;
  std::size_t i = 0;
  for (const auto& output : outputs) {
    if (!name.empty() && name_of(output) == name) return i;
    ++i;
  }
  return AnswerError("outputs", name.empty()
                                    ? absl::StrCat("has ", count,
                                                   " outputs, expected one, or a name in the "
                                                   "model's inference_output")
                                    : absl::StrCat("has no output ", Quoted(name)));
}

// {"outputs": [{"name", "shape", "data"}, ...]}
absl::StatusOr<Tensor> ReadVersion2(const Document& outputs, const std::string& name) {
  if (!outputs.is_array()) return AnswerError("outputs", "is not an array");
  CALIBD_ASSIGN_OR_RETURN(
      const std::size_t index, FindOutput(outputs, name, [](const Document& output) {
        return output.is_object() && output.contains("name") && output["name"].is_string()
                   ? output["name"].get<std::string>()
                   : std::string();
      }));
  const Document& output = outputs[index];
  if (!output.is_object() || !output.contains("data")) {
    return AnswerError("outputs", "has an output without data, expected JSON without binary data");
  }
  Tensor tensor;
  CALIBD_RETURN_IF_ERROR(AppendNumbers(output["data"], "outputs.data", tensor.values));
  if (output.contains("shape") && output["shape"].is_array() && !output["shape"].empty() &&
      output["shape"][0].is_number_unsigned()) {
    tensor.rows = output["shape"][0].get<std::size_t>();
  }
  return tensor;
}

template <typename Number>
void AppendRaw(const std::string& bytes, std::vector<double>& values) {
  for (std::size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof(Number));
    values.push_back(static_cast<double>(number));
  }
}

absl::StatusOr<Tensor> ReadBinary(const std::string& body, const std::string& name) {
  inference::v2::ModelInferResponse answer;
  if (!answer.ParseFromString(body)) {
    return AnswerError("body", "is not a ModelInferResponse of the Open Inference Protocol");
  }
  CALIBD_ASSIGN_OR_RETURN(
      const std::size_t index,
      FindOutput(answer.outputs(), name, [](const auto& output) { return output.name(); }));
  const auto& output = answer.outputs(static_cast<int>(index));
  Tensor tensor;
  const bool doubles = output.datatype() == "FP64";
  if (!doubles && output.datatype() != "FP32") {
    return AnswerError("outputs.datatype",
                       absl::StrCat("is ", Quoted(output.datatype()), ", expected FP32 or FP64"));
  }
  if (static_cast<int>(index) < answer.raw_output_contents_size()) {
    const std::string& bytes = answer.raw_output_contents(static_cast<int>(index));
    if (doubles) {
      AppendRaw<double>(bytes, tensor.values);
    } else {
      AppendRaw<float>(bytes, tensor.values);
    }
  } else if (doubles) {
    const auto& values = output.contents().fp64_contents();
    tensor.values.assign(values.begin(), values.end());
  } else {
    const auto& values = output.contents().fp32_contents();
    tensor.values.assign(values.begin(), values.end());
  }
  if (output.shape_size() > 0 && output.shape(0) >= 0) {
    tensor.rows = static_cast<std::size_t>(output.shape(0));
  }
  return tensor;
}

absl::StatusOr<Tensor> ReadAnswer(const InferenceEvent& event, const std::string& name) {
  if (!absl::StrContains(event.content_type, "json")) return ReadBinary(event.body, name);
  CALIBD_ASSIGN_OR_RETURN(const Document document, ParseDocument(event.body));
  if (document.contains("predictions")) return ReadVersion1(document["predictions"], name);
  if (document.contains("outputs")) return ReadVersion2(document["outputs"], name);
  return AnswerError("body", "has neither predictions nor outputs, expected the answer of a model");
}

// The number of values per row: m, or 1 for two classes. Errors: InvalidArgument.
absl::StatusOr<std::size_t> FindWidth(const Tensor& tensor, const ModelDeclaration& declaration) {
  const std::size_t m = declaration.class_count;
  const std::size_t count = tensor.values.size();
  const auto transform = declaration.inference_output.transform;
  const bool one = transform == v1::InferenceOutput::TRANSFORM_SIGMOID;
  const bool either = m == 2 && transform != v1::InferenceOutput::TRANSFORM_SOFTMAX && !one;
  for (const std::size_t width : {m, std::size_t{1}}) {
    const bool allowed = width == 1 ? one || either : !one;
    const bool fits = tensor.rows.has_value() ? *tensor.rows > 0 && count % *tensor.rows == 0 &&
                                                    count / *tensor.rows == width
                                              : count > 0 && count % width == 0;
    if (allowed && fits) return width;
  }
  return AnswerError(
      "outputs",
      absl::StrCat("has ", count, " values",
                   tensor.rows.has_value() ? absl::StrCat(" in ", *tensor.rows, " rows") : "",
                   ", expected ", one ? "1" : absl::StrCat(m), " per row"));
}

// Sets the predictions of the rows, with their columns in the order of the classes.
void SetValues(const Tensor& tensor, std::size_t width, const std::vector<std::size_t>& columns,
               v1::DoubleValues& values) {
  values.mutable_values()->Reserve(static_cast<int>(tensor.values.size()));
  for (std::size_t first = 0; first < tensor.values.size(); first += width) {
    for (std::size_t k = 0; k < width; ++k) {
      values.add_values(tensor.values[first + (width > 1 && !columns.empty() ? columns[k] : k)]);
    }
  }
}

}  // namespace

absl::StatusOr<std::optional<v1::Observations>> ReadInferenceEvent(
    const InferenceEvent& event, const ModelDeclaration& declaration) {
  CALIBD_RETURN_IF_ERROR(CheckPredictsClasses(declaration, "an answer of a model server"));
  if (event.id.empty() || event.id.size() > kMaxEventId) {
    return AnswerError("ce-id",
                       absl::StrCat("has ", event.id.size(), " bytes, expected 1..", kMaxEventId));
  }
  if (!absl::EndsWith(event.type,
                      absl::string_view(kResponseSuffix.data(), kResponseSuffix.size()))) {
    return std::optional<v1::Observations>();
  }
  const auto& [name, transform, columns, baseline_name] = declaration.inference_output;
  CALIBD_ASSIGN_OR_RETURN(const Tensor tensor, ReadAnswer(event, name));
  CALIBD_ASSIGN_OR_RETURN(const std::size_t width, FindWidth(tensor, declaration));
  const std::size_t rows = tensor.values.size() / width;
  v1::Observations observations;
  const bool logits = transform == v1::InferenceOutput::TRANSFORM_SOFTMAX ||
                      transform == v1::InferenceOutput::TRANSFORM_SIGMOID;
  SetValues(tensor, width, columns,
            logits ? *observations.mutable_logits() : *observations.mutable_probabilities());
  if (!baseline_name.empty()) {
    CALIBD_ASSIGN_OR_RETURN(const Tensor baseline, ReadAnswer(event, baseline_name));
    CALIBD_ASSIGN_OR_RETURN(const std::size_t baseline_width, FindWidth(baseline, declaration));
    if (baseline_width != width || baseline.values.size() != tensor.values.size()) {
      return AnswerError(
          "outputs",
          absl::StrCat("has ", baseline.values.size() / baseline_width, " rows of ", baseline_width,
                       " values in ", Quoted(baseline_name), " and ", rows, " of ", width, " in ",
                       Quoted(name), ", expected the same"));
    }
    SetValues(baseline, width, columns,
              logits ? *observations.mutable_baseline_logits()
                     : *observations.mutable_baseline_probabilities());
  }
  for (std::size_t i = 0; i < rows; ++i) {
    observations.add_prediction_ids(rows == 1 ? event.id : absl::StrCat(event.id, "/", i));
  }
  if (width == 1) {
    // The only column is that of the second name of column_classes.
    observations.set_positive_class(columns.empty() || columns[1] == 1 ? 1 : 0);
  }
  if (!event.time.empty() && !google::protobuf::util::TimeUtil::FromString(
                                 event.time, observations.add_prediction_times())) {
    return AnswerError("ce-time", absl::StrCat("is ", Quoted(event.time), ", expected RFC 3339"));
  }
  return std::optional(std::move(observations));
}

}  // namespace calibd::server
