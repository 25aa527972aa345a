#include "server/intake/inference_event.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/text/printable.h"
#include "server/api/quota_use.h"
#include "server/base/errors.h"
#include "server/ingest/content_hash.h"
#include "server/ingest/decode.h"
#include "server/intake/inference_answer.h"
#include "server/intake/structured_event.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

// Whether an id ends with '/' and digits, as the id of a row of an event with several rows.
bool EndsLikeARow(std::string_view id) {
  const std::size_t slash = id.rfind('/');
  if (slash == std::string_view::npos || slash + 1 == id.size()) return false;
  return std::ranges::all_of(id.substr(slash + 1), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

constexpr std::string_view kResponseSuffix = ".response";

absl::Status AnswerError(absl::string_view field, absl::string_view what) {
  return InvalidFieldError(std::string(field), std::string(what));
}

bool IsAnswer(const InferenceEvent& event) {
  return absl::EndsWith(event.type,
                        absl::string_view(kResponseSuffix.data(), kResponseSuffix.size()));
}

// True if the first character of a text in JSON begins an object.
bool HasObject(std::string_view json) {
  const std::size_t begin = json.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && json[begin] == '{';
}

// json: the answer, if it is not in the body.
absl::StatusOr<InferenceAnswer> ParseAnswer(const InferenceEvent& event,
                                            std::optional<nlohmann::json> json) {
  if (json.has_value()) return InferenceAnswer::FromJson(*std::move(json), event.body_field);
  return IsJson(event.content_type, event.body)
             ? InferenceAnswer::ParseJson(event.body, event.json_length, event.body_field)
             : InferenceAnswer::ParseMessage(event.body, event.body_field);
}

bool HasLogits(const ModelDeclaration& declaration) {
  const auto transform = declaration.inference_output.transform;
  return transform == v1::InferenceOutput::SOFTMAX || transform == v1::InferenceOutput::SIGMOID;
}

// The number of values per row: that of a prediction, or 1 for two classes. Errors:
// InvalidArgument.
absl::StatusOr<std::size_t> FindWidth(const InferenceTensor& tensor,
                                      const ModelDeclaration& declaration) {
  const std::size_t m = declaration.row_width();
  const std::size_t count = tensor.values.size();
  const auto transform = declaration.inference_output.transform;
  const bool one = transform == v1::InferenceOutput::SIGMOID;
  const bool either =
      declaration.class_count() == 2 && transform != v1::InferenceOutput::SOFTMAX && !one;
  for (const std::size_t width : {m, std::size_t{1}}) {
    const bool allowed = width == m ? !one : one || either;
    const bool fits = tensor.rows.has_value() ? *tensor.rows > 0 && count % *tensor.rows == 0 &&
                                                    count / *tensor.rows == width
                                              : count > 0 && count % width == 0;
    if (allowed && fits) return width;
  }
  const std::size_t width = one ? 1 : m;
  const auto values = [](std::size_t n) { return absl::StrCat(n, n == 1 ? " value" : " values"); };
  std::string found = absl::StrCat("has ", values(count));
  std::string expected = absl::StrCat("rows of ", values(width));
  if (tensor.rows.value_or(0) > 0) {
    found = absl::StrCat("has ", *tensor.rows, *tensor.rows == 1 ? " row" : " rows", " of ",
                         values(count / *tensor.rows));
  }
  if (tensor.raw_bytes > 0) {
    absl::StrAppend(&found, " in ", tensor.raw_bytes, " bytes");
    absl::StrAppend(&expected, " (", width * (tensor.raw_bytes / count), " bytes)");
  }
  return AnswerError(tensor.field, absl::StrCat(found, ", expected ", expected));
}

// Sets the predictions of the rows. columns: see InferenceOutput.
void SetValues(const InferenceTensor& tensor, std::size_t width,
               const std::vector<std::size_t>& columns, v1::DoubleValues& values) {
  values.mutable_values()->Reserve(static_cast<int>(tensor.values.size()));
  // Values with the keys of their classes are in the order of the classes.
  const bool permuted = width > 1 && !columns.empty() && tensor.class_keys.empty();
  for (std::size_t first = 0; first < tensor.values.size(); first += width) {
    for (std::size_t k = 0; k < width; ++k) {
      values.add_values(tensor.values[first + (permuted ? columns[k] : k)]);
    }
  }
}

bool HasOnlyZeroAndOne(const InferenceTensor& tensor) {
  return std::ranges::all_of(tensor.values, [](double value) { return value == 0 || value == 1; });
}

// Errors: InvalidArgument if the values seem to be predicted classes, which are 0 and 1 too and
// would be counted as certain predictions. A row of one value must not be written as an integer.
// Over many rows, such a value must not always be 0 or 1, and a probability of each class must not
// always be an integer, also not over many events of few rows: rows_before are those of the events
// before that had only such integers. Decision trees, which are always certain, answer with real
// numbers, one for each class.
absl::Status RefuseClasses(const InferenceTensor& tensor, std::size_t width,
                           std::int64_t rows_before) {
  constexpr std::size_t kManyRows = 20;
  const std::size_t in_event = tensor.values.size() / width;
  // A value that is rounded to 0 or 1 is a real number, so that only integers add up over events.
  const std::size_t rows = in_event + (tensor.integers ? static_cast<std::size_t>(rows_before) : 0);
  const bool many = rows >= kManyRows;
  const bool suspicious = width == 1 ? tensor.integers || many : tensor.integers && many;
  if (!suspicious || !HasOnlyZeroAndOne(tensor)) return absl::OkStatus();
  return AnswerError(
      tensor.field,
      absl::StrCat(
          "has only the ", tensor.integers ? "integers" : "values", " 0 and 1 in ", rows,
          rows == 1          ? " row"
          : rows == in_event ? " rows"
                             : " rows in succession",
          ", which seem to be classes, expected probabilities such as 0.98: give KServe's "
          "scikit-learn server PREDICT_PROBA=true, ask MLServer for predict_proba; a model "
          "that is certain of every row has to answer with real numbers (1.0), one for "
          "each class"));
}

struct Predictions {
  InferenceTensor model;
  std::optional<InferenceTensor> baseline{};
  std::size_t width = 0;

  [[nodiscard]] std::size_t rows() const { return model.values.size() / width; }
};

// json: as in ParseAnswer. Does not keep the answer.
absl::StatusOr<Predictions> ReadPredictions(const InferenceEvent& event,
                                            std::optional<nlohmann::json> json,
                                            const ModelDeclaration& declaration,
                                            std::int64_t rows_like_classes) {
  const std::string& name = declaration.inference_output.name;
  const std::string& baseline_name = declaration.inference_output.baseline_name;
  CALIBD_ASSIGN_OR_RETURN(const InferenceAnswer answer, ParseAnswer(event, std::move(json)));
  AnswerClasses classes{.count = declaration.class_count()};
  if (classes.count > 0) classes.names = declaration.value_names();
  CALIBD_ASSIGN_OR_RETURN(InferenceTensor tensor, answer.Read(name, classes));
  CALIBD_ASSIGN_OR_RETURN(const std::size_t width, FindWidth(tensor, declaration));
  if (classes.count > 0 && !HasLogits(declaration)) {
    CALIBD_RETURN_IF_ERROR(RefuseClasses(tensor, width, rows_like_classes));
  }
  Predictions predictions{.model = std::move(tensor), .width = width};
  if (predictions.rows() > kMaxRowsPerBatch) {
    return AnswerError(
        predictions.model.field,
        absl::StrCat("has ", predictions.rows(), " rows, expected at most ", kMaxRowsPerBatch));
  }
  if (baseline_name.empty()) return predictions;
  CALIBD_ASSIGN_OR_RETURN(predictions.baseline, answer.Read(baseline_name, classes));
  const std::vector<double>& values = predictions.baseline->values;
  CALIBD_ASSIGN_OR_RETURN(const std::size_t baseline_width,
                          FindWidth(*predictions.baseline, declaration));
  if (baseline_width != width || values.size() != predictions.model.values.size()) {
    return AnswerError(
        predictions.baseline->field,
        absl::StrCat("has ", values.size() / baseline_width, " rows of ", baseline_width,
                     " values in ", Quoted(baseline_name), " and ", predictions.rows(), " of ",
                     width, " in ", Quoted(name), ", expected the same"));
  }
  return predictions;
}

// Reads an event in binary mode, or what a structured one contains. json: as in ParseAnswer.
// prefix: of the names of the attributes.
absl::StatusOr<std::optional<EventPredictions>> ReadEvent(const InferenceEvent& event,
                                                          std::optional<nlohmann::json> json,
                                                          const char* prefix,
                                                          const ModelDeclaration& declaration,
                                                          std::int64_t rows_like_classes) {
  if (event.id.empty() || event.id.size() > kMaxEventId) {
    return AnswerError(
        absl::StrCat(prefix, "id"),
        event.id.empty()
            ? absl::StrCat("is missing, expected 1..", kMaxEventId, " bytes")
            : absl::StrCat("has ", event.id.size(), " bytes, expected 1..", kMaxEventId));
  }
  if (!IsUtf8(event.id)) {
    return AnswerError(absl::StrCat(prefix, "id"),
                       absl::StrCat("is ", Quoted(event.id), ", expected UTF-8"));
  }
  if (event.type.empty()) {
    return AnswerError(absl::StrCat(prefix, "type"),
                       "is missing, expected the type of the event, such as "
                       "org.kubeflow.serving.inference.response");
  }
  if (!IsAnswer(event)) return std::optional<EventPredictions>();
  CALIBD_ASSIGN_OR_RETURN(const Predictions predictions,
                          ReadPredictions(event, std::move(json), declaration, rows_like_classes));
  const std::vector<std::size_t>& columns = declaration.inference_output.columns;
  const std::size_t width = predictions.width;
  EventPredictions read{.id = event.id, .prefix = prefix};
  read.like_classes = predictions.model.integers && HasOnlyZeroAndOne(predictions.model);
  read.model = {.field = predictions.model.field,
                .key = predictions.model.key,
                .class_keys = predictions.model.class_keys};
  v1::Observations& observations = read.observations;
  const bool logits = HasLogits(declaration);
  SetValues(predictions.model, width, columns,
            declaration.numbers() != nullptr ? *observations.mutable_forecasts()
            : logits                         ? *observations.mutable_logits()
                                             : *observations.mutable_probabilities());
  if (predictions.baseline.has_value()) {
    read.baseline = {.field = predictions.baseline->field,
                     .key = predictions.baseline->key,
                     .class_keys = predictions.baseline->class_keys};
    SetValues(*predictions.baseline, width, columns,
              logits ? *observations.mutable_baseline_logits()
                     : *observations.mutable_baseline_probabilities());
  }
  const std::size_t rows = predictions.rows();
  const bool is_whole = rows == 1 && !EndsLikeARow(event.id);
  observations.mutable_prediction_ids()->Reserve(static_cast<int>(rows));
  for (std::size_t i = 0; i < rows; ++i) {
    observations.add_prediction_ids(is_whole ? event.id : absl::StrCat(event.id, "/", i));
  }
  if (width == 1 && declaration.class_count() == 2) {
    // The only column is that of the second name of column_classes.
    observations.set_positive_class(columns.empty() || columns[1] == 1 ? 1 : 0);
  }
  if (!event.time.empty() && !google::protobuf::util::TimeUtil::FromString(
                                 event.time, observations.add_prediction_times())) {
    return AnswerError(absl::StrCat(prefix, "time"),
                       absl::StrCat("is ", Quoted(event.time), ", expected RFC 3339"));
  }
  return std::optional(std::move(read));
}

absl::Status CheckTakesEvents(const ModelDeclaration& declaration) {
  CALIBD_RETURN_IF_ERROR(CheckCall(declaration, WindowCall::kInferenceEvent));
  if (declaration.max_pending > 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "NO_LABEL_GRACE",
                   "the model has no label_grace, which predictions need whose labels come later");
}

// The path in an event of a violation of its observations, such as rows[3].baseline_logits[1] or
// rows[3].standard_deviation.
std::string EventPath(const Violation& violation, const EventPredictions& event,
                      const std::vector<std::size_t>& columns) {
  const std::string& field = violation.field;
  if (field == "prediction_times") return absl::StrCat(event.prefix, "time");
  std::string path = PathOf(violation);
  if (!path.starts_with("rows[")) return path;
  const auto& part = field.starts_with("baseline_") ? event.baseline : event.model;
  std::string place = absl::StrCat(part.field, "[", *violation.row, "]", part.key);
  if (field == "mean") return place + "[0]";
  if (field == "standard_deviation") return place + "[1]";
  // A row of one value has no columns, although two classes are checked.
  if (event.observations.has_positive_class() || !violation.column.has_value()) return place;
  const std::size_t column = *violation.column;
  if (column < part.class_keys.size()) return absl::StrCat(place, ".", part.class_keys[column]);
  return absl::StrCat(place, "[", column < columns.size() ? columns[column] : column, "]");
}

std::vector<Violation> FieldViolations(const absl::Status& status) {
  std::vector<Violation> violations;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  rpc::BadRequest bad_request;
  if (!payload.has_value() || !bad_request.ParseFromString(std::string(*payload))) return {};
  for (const auto& one : bad_request.field_violations()) {
    violations.push_back(ParsePath(one.field(), one.description()));
  }
  return violations;
}

// The error of rejected rows, with the names of the event.
absl::Status EventError(const absl::Status& status, const EventPredictions& event,
                        const std::vector<std::size_t>& columns) {
  constexpr char kReason[] = "INVALID_OBSERVATIONS";
  const auto info = GetErrorInfo(status);
  if (!info.has_value() || info->reason() != kReason) return status;
  std::vector<Violation> violations = FieldViolations(status);
  for (Violation& violation : violations) {
    violation = {.field = EventPath(violation, event, columns),
                 .description = std::move(violation.description)};
  }
  return InvalidFieldsError(kReason, violations);
}

LogRow DecodeEvent(const EventPredictions& event, const ModelDeclaration& declaration) {
  LogRow batch = Decode(event.observations, declaration);
  if (auto* const rejected = batch.As<RejectedRow>()) {
    rejected->reason = EventError(rejected->reason, event, declaration.inference_output.columns);
  }
  return batch;
}

template <typename Values>
std::vector<double> Copy(const Values& values) {
  return {values.values().begin(), values.values().end()};
}

// The hash of predictions without their time, which it removes: a model server that gets a request
// twice answers at two times.
std::uint64_t HashUntimed(v1::Observations& observations) {
  observations.clear_prediction_times();
  if (observations.has_forecasts()) {
    return HashContent(observations, Copy(observations.forecasts()), {});
  }
  return observations.has_logits() ? HashContent(observations, Copy(observations.logits()),
                                                 Copy(observations.baseline_logits()))
                                   : HashContent(observations, Copy(observations.probabilities()),
                                                 Copy(observations.baseline_probabilities()));
}

absl::Status ReusedIdError(const EventPredictions& event) {
  return MakeError(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                   absl::StrCat(event.prefix, "id is ", Quoted(event.id),
                                ", which an event with other predictions had before: expected an "
                                "id of its own for each event"));
}

absl::Status QueueFullError() {
  constexpr std::chrono::milliseconds kDelay{200};
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, "INGEST_QUEUE_FULL",
                "the batches of this model that are not counted yet fill its share of the ingest "
                "queue (ingest-queue-bytes); this event was not counted: send it again later"),
      kDelay);
}

}  // namespace

absl::StatusOr<std::optional<EventPredictions>> ReadInferenceEvent(
    const InferenceEvent& event, const ModelDeclaration& declaration,
    std::int64_t rows_like_classes) {
  if (MediaType(event.content_type) != kStructuredEventType) {
    return ReadEvent(event, std::nullopt, "ce-", declaration, rows_like_classes);
  }
  CALIBD_ASSIGN_OR_RETURN(StructuredEvent structured, ParseStructuredEvent(event.body));
  if (IsAnswer(structured.event) && !structured.has_data) {
    return AnswerError("data", "is missing, expected the answer in data or data_base64");
  }
  if (structured.event.content_type.empty()) {
    if (IsAnswer(structured.event) && structured.has_bytes && !HasObject(structured.event.body)) {
      return AnswerError(
          "datacontenttype",
          "is missing, which means JSON, but data_base64 has no JSON object: expected "
          "application/octet-stream for the bytes of a ModelInferResponse");
    }
    structured.event.content_type = "application/json";
  }
  return ReadEvent(structured.event, std::move(structured.json), "", declaration,
                   rows_like_classes);
}

absl::Status ObserveEvent(const ApiParts& parts, const std::shared_ptr<Model>& model,
                          const InferenceEvent& event, const Reply<v1::ObserveResponse>& reply) {
  const auto declaration = model->declaration();
  const absl::Status taken = CheckTakesEvents(*declaration);
  absl::StatusOr<std::optional<EventPredictions>> read =
      taken.ok() ? ReadInferenceEvent(event, *declaration, model->rows_like_classes()) : taken;
  if (read.ok() && !read->has_value()) {
    reply->SendLast(v1::ObserveResponse());
    return absl::OkStatus();
  }
  LogRow batch;
  std::optional<ProducerPosition> position;
  // An event that cannot be read is counted only if there is room for its row of the log.
  const std::size_t bytes = QueuedBytes(read.ok() ? (*read)->observations.ByteSizeLong() : 0);
  IngestQueue::RoomPtr room = parts.ingestor.queue().TryTake(model->id(), bytes);
  if (room == nullptr) return read.ok() ? QueueFullError() : read.status();
  CALIBD_RETURN_IF_ERROR(TakeBatchQuota(
      parts.access, reply->context(), declaration->name.ToString(),
      read.ok() ? ClaimedRows((*read)->observations, declaration->row_shape()) : 1, bytes, room));
  if (read.ok()) {
    batch = DecodeEvent(**read, *declaration);
    // A rejected event does not keep its id, as it may be valid after an update of the declaration.
    if (batch.As<RejectedRow>() == nullptr) {
      batch.content_hash = HashUntimed((*read)->observations);
      // The request ids of Observe have no slash.
      position = ProducerPosition{
          .producer_id = reply->context().identity->Scoped(absl::StrCat("inference/", (*read)->id)),
          .sequence = 1,
          .request = true};
    }
  } else {
    batch.kind = RejectedRow{.rows = 1, .reason = read.status()};
  }
  // Only for a batch with a position.
  const absl::Status reused = read.ok() ? ReusedIdError(**read) : absl::OkStatus();
  const bool like_classes = read.ok() && (*read)->like_classes;
  parts.ingestor.Submit(
      model, position, std::move(batch),
      [reply, reused, model, like_classes](const Settlement& settlement) {
        // A repeated event says nothing new.
        if (settlement.accepted_rows > 0) {
          model->CountRowsLikeClasses(like_classes ? settlement.accepted_rows : 0);
        }
        reply->Answer([&](v1::ObserveResponse& response) {
          response.set_accepted_rows(settlement.accepted_rows);
          response.set_duplicate_rows(settlement.duplicate_rows);
          return absl::IsAlreadyExists(settlement.status) ? reused : settlement.status;
        });
      },
      std::move(room));
  return absl::OkStatus();
}

}  // namespace calibd::server
