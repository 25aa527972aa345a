#ifndef CALIBD_SERVER_INTAKE_INFERENCE_ANSWER_H_
#define CALIBD_SERVER_INTAKE_INFERENCE_ANSWER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/inference/v2/inference.pb.h"
#include "nlohmann/json.hpp"
#include "server/intake/class_values.h"

namespace calibd::server {

// The values of one output of a model server, row by row.
struct InferenceTensor {
  std::vector<double> values;
  // Set if the answer declares it.
  std::optional<std::size_t> rows{};
  // The part of the answer, for errors. Row 3 is field[3]key, such as predictions[3].probability.
  std::string field{};
  std::string key{};
  // If the rows name their classes: the key of each value of a row, which is in the order of the
  // classes. Row 3 is then field[3]key and a dot before the key of the class.
  std::vector<std::string> class_keys{};
  // Every value is written without a decimal point and has no declared type, as classes are.
  bool integers = false;
  // Size of the output, if its values are raw bytes; otherwise 0.
  std::size_t raw_bytes = 0;
};

// True for a content type of JSON, in any case and with any parameters, and for a body that begins
// as a JSON object, which no ModelInferResponse does: KServe's logger states the content type of
// the request to the model, not of its answer.
[[nodiscard]] bool IsJson(std::string_view content_type, std::string_view body);

// The JSON object in a text, which nests no deeper than an answer needs. field: of the text, and
// what: "an answer" or other, for errors. Errors: InvalidArgument.
[[nodiscard]] absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text,
                                                             const char* field, const char* what);

// The answer of a model server: JSON of version 1 or 2 of the Open Inference Protocol, or a
// ModelInferResponse of version 2.
class InferenceAnswer {
 public:
  // field: what contains the answer, for errors: "body", or "data" of an event. Errors:
  // InvalidArgument unless the JSON is an object.
  [[nodiscard]] static absl::StatusOr<InferenceAnswer> FromJson(nlohmann::json json,
                                                                const char* field);
  // JSON that tensors may follow, in version 2 (binary tensor data extension). json_length: the
  // length of the JSON in decimal digits; if it is empty, the JSON ends with its object. body: must
  // outlive the answer. Errors: InvalidArgument.
  [[nodiscard]] static absl::StatusOr<InferenceAnswer> ParseJson(std::string_view body,
                                                                 const std::string& json_length,
                                                                 const char* field);
  // Errors: InvalidArgument.
  [[nodiscard]] static absl::StatusOr<InferenceAnswer> ParseMessage(const std::string& bytes,
                                                                    const char* field);

  // Reads the output with this name, or the only one if the name is empty. Values must be
  // as many as shape and type say. A row of version 1 may be an object that has a value for each of
  // the classes. Errors: InvalidArgument naming the part of the answer.
  [[nodiscard]] absl::StatusOr<InferenceTensor> Read(const std::string& output,
                                                     const AnswerClasses& classes) const;

 private:
  InferenceAnswer(nlohmann::json json, const char* field)
      : answer_(std::move(json)), field_(field) {}
  InferenceAnswer(inference::v2::ModelInferResponse message, const char* field)
      : answer_(std::move(message)), field_(field) {}

  std::variant<nlohmann::json, inference::v2::ModelInferResponse> answer_;
  const char* field_;
  // What follows the JSON.
  std::string_view tensors_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INTAKE_INFERENCE_ANSWER_H_
