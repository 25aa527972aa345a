#include "server/ingest/decode.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/probability.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"
#include "server/base/rules.h"
#include "server/ingest/content_hash.h"
#include "server/ingest/decode_features.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxIdLength = 128;

// The limits of prediction times. The days of a history are kept for as long.
constexpr std::chrono::minutes kMaxAhead{5};
constexpr std::chrono::days kMaxAge{1000};

constexpr char kReason[] = "INVALID_OBSERVATIONS";

using Time = std::chrono::system_clock::time_point;
using Ids = google::protobuf::RepeatedPtrField<std::string>;

std::vector<PredictionId> HashIds(const Ids& ids) {
  std::vector<PredictionId> hashes;
  hashes.reserve(static_cast<std::size_t>(ids.size()));
  for (const std::string& id : ids) hashes.push_back(HashId(id));
  return hashes;
}

// find(i) returns the violation of row i, if any. Returns an error that names the first ones.
template <typename Find>
absl::Status CheckRows(int rows, const Find& find) {
  std::vector<Violation> violations;
  for (int i = 0; i < rows && violations.size() < kMaxReportedViolations; ++i) {
    if (std::optional<Violation> violation = find(i)) violations.push_back(*std::move(violation));
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

std::optional<Violation> FindIdViolation(const Ids& ids, int i) {
  if (!ids[i].empty() && ids[i].size() <= kMaxIdLength) return std::nullopt;
  return Violation{.field = "prediction_ids",
                   .description = absl::StrCat("is ", Quoted(ids[i]), " of ", ids[i].size(),
                                               " bytes, expected 1..", kMaxIdLength),
                   .row = static_cast<std::size_t>(i)};
}

absl::Status CheckTakesIds(const ModelDeclaration& declaration) {
  if (declaration.label_grace.count() != 0) return absl::OkStatus();
  return InvalidFieldError("prediction_ids",
                           "are given, expected none because the model has no label_grace");
}

absl::Status CheckLabelsMayComeLater(const char* field, const ModelDeclaration& declaration) {
  if (!declaration.labels_come_with_predictions) return absl::OkStatus();
  return InvalidFieldError(
      field,
      "come without predictions or labels, expected both in one message because "
      "the model declares labels_come_with_predictions");
}

// The names of the fields with the truths and the predictions of a model.
const char* TruthField(const RowShape& shape) {
  return shape.truths.labels == 0 ? "outcomes" : "labels";
}
const char* PredictionField(const RowShape& shape) {
  return shape.has_probabilities() ? "probabilities" : "forecasts";
}

// The number of labels or outcomes for each row.
int TruthsPerRow(const RowShape& shape) {
  return std::max(1, static_cast<int>(shape.truths.labels));
}

// For the errors of a model with several truths of a row: " x 7" and such.
std::string TimesEach(const RowShape& shape) {
  return shape.truths.labels > 1 ? absl::StrCat(" x ", shape.truths.labels) : std::string();
}
std::string EqualNumbers(const RowShape& shape) {
  return shape.truths.labels > 1 ? absl::StrCat(shape.truths.labels, " for each id")
                                 : std::string("equal numbers");
}

// Refuses labels of a model with outcomes, and outcomes of a model with labels.
template <typename Message>
absl::Status CheckTruthKind(const Message& message, const ModelDeclaration& declaration) {
  const RowShape shape = declaration.row_shape();
  const bool wrong =
      shape.truths.labels == 0 ? !message.labels().empty() : !message.outcomes().empty();
  if (!wrong) return absl::OkStatus();
  return InvalidFieldError(shape.truths.labels == 0 ? "labels" : "outcomes",
                           absl::StrCat("are given, expected ", TruthField(shape),
                                        " because the model ", KindOf(declaration).does()));
}

// Refuses predictions and truths of a model of another kind.
absl::Status CheckKind(const v1::Observations& observations, const ModelDeclaration& declaration) {
  const bool probabilities = declaration.row_shape().has_probabilities();
  const char* const does = KindOf(declaration).does();
  if (observations.predictions_case() == v1::Observations::PREDICTIONS_NOT_SET) {
    return InvalidFieldError("predictions", probabilities
                                                ? "is not set, expected one of probabilities, "
                                                  "probabilities_float32, logits, logits_float32"
                                                : "is not set, expected forecasts");
  }
  if (observations.has_forecasts() && probabilities) {
    return InvalidFieldError(
        "forecasts", absl::StrCat("are given, expected probabilities or logits because the model ",
                                  does, "; a model that forecasts a number declares `forecast`"));
  }
  if (!observations.has_forecasts() && !probabilities) {
    return InvalidFieldError(
        "predictions",
        absl::StrCat("are probabilities or logits, expected forecasts because the model ", does));
  }
  return CheckTruthKind(observations, declaration);
}

// Returns the violation of a truth of row i, if any. values: of the field of the truths.
std::optional<Violation> FindTruthViolation(const v1::Labels& labels, const TruthShape& shape,
                                            int i) {
  if (shape.labels == 0) {
    if (std::isfinite(labels.outcomes(i))) return std::nullopt;
    return Violation{
        .field = "outcomes",
        .description = absl::StrCat("is ", labels.outcomes(i), ", expected a finite number"),
        .row = static_cast<std::size_t>(i)};
  }
  const int each = static_cast<int>(shape.labels);
  for (int k = i * each; k < (i + 1) * each; ++k) {
    const std::int32_t label = labels.labels(k);
    if (label >= shape.least_label && label < shape.end_label) continue;
    const auto column = static_cast<std::size_t>(k - i * each);
    return Violation{.field = "labels",
                     .description = absl::StrCat("is ", label, ", expected ", shape.least_label,
                                                 "..", shape.end_label - 1),
                     .row = static_cast<std::size_t>(i),
                     .column = each > 1 ? std::optional(column) : std::nullopt};
  }
  return std::nullopt;
}

absl::Status CheckLabels(const v1::Labels& labels, const ModelDeclaration& declaration) {
  const RowShape shape = declaration.row_shape();
  const char* const field = TruthField(shape);
  CALIBD_RETURN_IF_ERROR(CheckLabelsMayComeLater(field, declaration));
  CALIBD_RETURN_IF_ERROR(CheckTruthKind(labels, declaration));
  const int values = labels.labels_size() + labels.outcomes_size();
  const int rows = values / TruthsPerRow(shape);
  if (rows == 0 || rows > kMaxRowsPerBatch || values % TruthsPerRow(shape) != 0) {
    return InvalidFieldError(field, absl::StrCat("has ", values, " values, expected 1..",
                                                 kMaxRowsPerBatch, TimesEach(shape)));
  }
  if (labels.prediction_ids_size() != rows) {
    return InvalidFieldError(
        "prediction_ids", absl::StrCat("has ", labels.prediction_ids_size(), " ids with ", values,
                                       " ", field, ", expected ", EqualNumbers(shape)));
  }
  CALIBD_RETURN_IF_ERROR(CheckTakesIds(declaration));
  CALIBD_RETURN_IF_ERROR(
      CheckRows(rows, [&](int i) { return FindIdViolation(labels.prediction_ids(), i); }));
  return CheckRows(rows, [&](int i) { return FindTruthViolation(labels, shape.truths, i); });
}

template <typename T>
std::vector<double> Copy(const google::protobuf::RepeatedField<T>& values) {
  return {values.begin(), values.end()};
}

// Returns visit(values) for the predictions of a message; a default result if it has none.
template <typename Visit>
auto VisitValues(const v1::Observations& observations, const Visit& visit)
    -> decltype(visit(observations.probabilities().values())) {
  switch (observations.predictions_case()) {
    case v1::Observations::kProbabilities:
      return visit(observations.probabilities().values());
    case v1::Observations::kProbabilitiesFloat32:
      return visit(observations.probabilities_float32().values());
    case v1::Observations::kLogits:
      return visit(observations.logits().values());
    case v1::Observations::kLogitsFloat32:
      return visit(observations.logits_float32().values());
    case v1::Observations::kForecasts:
      return visit(observations.forecasts().values());
    case v1::Observations::PREDICTIONS_NOT_SET:
      break;
  }
  return {};
}

std::vector<double> Values(const v1::Observations& observations) {
  return VisitValues(observations, [](const auto& values) { return Copy(values); });
}

std::vector<double> BaselineValues(const v1::Observations& observations) {
  switch (observations.baseline_case()) {
    case v1::Observations::kBaselineProbabilities:
      return Copy(observations.baseline_probabilities().values());
    case v1::Observations::kBaselineProbabilitiesFloat32:
      return Copy(observations.baseline_probabilities_float32().values());
    case v1::Observations::kBaselineLogits:
      return Copy(observations.baseline_logits().values());
    case v1::Observations::kBaselineLogitsFloat32:
      return Copy(observations.baseline_logits_float32().values());
    case v1::Observations::BASELINE_NOT_SET:
      break;
  }
  return {};
}

// The labels or outcomes of a message, which are those of the model.
template <typename Message>
Truths TruthsOf(const Message& message, const TruthShape& shape) {
  if (shape.labels == 0) {
    return std::vector<double>(message.outcomes().begin(), message.outcomes().end());
  }
  return {{message.labels().begin(), message.labels().end()}, shape.labels};
}

// Number of labels or outcomes.
int TruthCount(const v1::Observations& observations) {
  return observations.labels_size() + observations.outcomes_size();
}

// Number of rows of a message with ids or with the truths of each row.
int RowCount(const v1::Observations& observations, const RowShape& shape) {
  return observations.prediction_ids_size() > 0 ? observations.prediction_ids_size()
                                                : TruthCount(observations) / TruthsPerRow(shape);
}

// Only a model of two classes takes the probability of one of them.
absl::Status CheckPositiveClass(const v1::Observations& observations,
                                const ModelDeclaration& declaration) {
  if (!observations.has_positive_class()) return absl::OkStatus();
  const std::int32_t positive = observations.positive_class();
  const std::size_t classes = declaration.row_shape().classes;
  if (classes == 2 && (positive == 0 || positive == 1)) return absl::OkStatus();
  const std::string expected =
      classes == 2   ? std::string("0 or 1")
      : classes == 1 ? absl::StrCat("none because the model ", KindOf(declaration).does())
                     : absl::StrCat("none because the model has ", classes, " classes");
  return InvalidFieldError("positive_class",
                           absl::StrCat("is ", positive, ", expected ", expected));
}

// Returns two values for each value of the positive class. The softmax of the logits 0 and x is the
// logistic function of x. An invalid probability stays as it is, so that the error shows it.
std::vector<double> BothClasses(const std::vector<double>& values, std::int32_t positive_class,
                                bool are_logits) {
  std::vector<double> both;
  both.reserve(2 * values.size());
  for (const double given : values) {
    const double value = are_logits ? given : RoundToProbability(given);
    const double other = are_logits || !(value >= 0 && value <= 1) ? 0 : 1 - value;
    if (positive_class == 0) {
      both.insert(both.end(), {value, other});
    } else {
      both.insert(both.end(), {other, value});
    }
  }
  return both;
}

// Checks everything that does not depend on the values.
absl::Status CheckShape(const v1::Observations& observations, std::size_t value_count,
                        const ModelDeclaration& declaration) {
  CALIBD_RETURN_IF_ERROR(CheckKind(observations, declaration));
  const RowShape shape = declaration.row_shape();
  const char* const truths = TruthField(shape);
  const int row_count = RowCount(observations, shape);
  if (row_count > kMaxRowsPerBatch) {
    return InvalidFieldError(truths, absl::StrCat("has ", row_count, " values, expected at most ",
                                                  kMaxRowsPerBatch, " rows in a batch"));
  }
  if (observations.prediction_ids_size() > 0 && TruthCount(observations) > 0 &&
      observations.prediction_ids_size() * std::int64_t{TruthsPerRow(shape)} !=
          TruthCount(observations)) {
    return InvalidFieldError("prediction_ids",
                             absl::StrCat("has ", observations.prediction_ids_size(), " ids with ",
                                          TruthCount(observations), " ", truths, ", expected ",
                                          EqualNumbers(shape), ", or no ", truths, " yet"));
  }
  if (observations.prediction_ids().empty() &&
      TruthCount(observations) % TruthsPerRow(shape) != 0) {
    return InvalidFieldError(truths,
                             absl::StrCat("has ", TruthCount(observations), " values, expected ",
                                          TruthsPerRow(shape), " for each row"));
  }
  CALIBD_RETURN_IF_ERROR(CheckRules(observations));
  CALIBD_RETURN_IF_ERROR(CheckPositiveClass(observations, declaration));
  const auto rows = static_cast<std::size_t>(row_count);
  const std::size_t width = observations.has_positive_class() ? 1 : shape.width;
  std::size_t expected = 0;
  if (!__builtin_mul_overflow(rows, width, &expected) && value_count == expected && rows > 0) {
    return absl::OkStatus();
  }
  const bool one_per_row = shape.classes == 2 && value_count == rows && rows > 0;
  const bool one_per_value = shape.classes > 2 && observations.labels_size() > 0 &&
                             value_count == static_cast<std::size_t>(observations.labels_size());
  const char* const counted = observations.prediction_ids_size() > 0 ? "ids" : truths;
  return InvalidFieldError(
      PredictionField(shape),
      absl::StrCat(
          "has ", value_count, " values with ", rows, " ", counted, ", expected n >= 1 ", counted,
          " and n x ", width, " values",
          one_per_row ? "; for the probability of one class per row set positive_class" : "",
          one_per_value ? "; a model whose labels do not exclude each other declares `labels`"
                        : ""));
}

// value_count: the number of values of the model, which is valid.
absl::Status CheckBaseline(const v1::Observations& observations, std::size_t value_count,
                           std::size_t baseline_count, const ModelDeclaration& declaration) {
  constexpr char kField[] = "baseline_probabilities";
  const bool is_set = observations.baseline_case() != v1::Observations::BASELINE_NOT_SET;
  if (!declaration.has_baseline()) {
    return !is_set ? absl::OkStatus()
                   : InvalidFieldError(
                         kField, "are given, expected none because the model has no baseline");
  }
  if (!is_set) {
    return InvalidFieldError(kField,
                             absl::StrCat("are not set, expected the predictions of the model's "
                                          "baseline ",
                                          Quoted(declaration.baseline()), " for the same rows"));
  }
  if (baseline_count == value_count) return absl::OkStatus();
  return InvalidFieldError(kField, absl::StrCat("has ", baseline_count, " values, expected ",
                                                value_count, " as in probabilities"));
}

absl::Status CheckClassNames(const v1::Observations& observations,
                             const ModelDeclaration& declaration) {
  if (observations.class_names_size() == 0) return absl::OkStatus();
  const std::span<const std::string> names = declaration.value_names();
  if (!declaration.row_shape().has_probabilities()) {
    return InvalidFieldError(
        "class_names",
        absl::StrCat("are given, expected none because the model ", KindOf(declaration).does()));
  }
  if (static_cast<std::size_t>(observations.class_names_size()) != names.size()) {
    return InvalidFieldError(
        "class_names", absl::StrCat("has ", observations.class_names_size(),
                                    " names, expected the model's ", names.size(), " or none"));
  }
  for (int i = 0; i < observations.class_names_size(); ++i) {
    const std::string& expected = names[static_cast<std::size_t>(i)];
    if (observations.class_names(i) != expected) {
      return InvalidFieldError(absl::StrCat("class_names[", i, "]"),
                               absl::StrCat("is ", Quoted(observations.class_names(i)),
                                            ", expected ", Quoted(expected)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTakesGroups(const v1::Observations& observations,
                              const ModelDeclaration& declaration) {
  const auto& values = observations.group_values();
  if (values.empty()) return absl::OkStatus();
  if (declaration.monitoring.group_tag.empty()) {
    return InvalidFieldError(
        "group_values", "are given, expected none because the model has no monitoring.group_tag");
  }
  const int rows = RowCount(observations, declaration.row_shape());
  if (values.size() != 1 && values.size() != rows) {
    return InvalidFieldError("group_values",
                             absl::StrCat("has ", values.size(), " values with ", rows,
                                          " predictions, expected as many, one or none"));
  }
  return absl::OkStatus();
}

std::optional<Violation> FindGroupViolation(const Ids& values, int i) {
  const char* const field = "group_values";
  const auto row = static_cast<std::size_t>(i);
  if (values[i].empty() || values[i].size() > kMaxGroupValueLength) {
    return Violation{.field = field,
                     .description = absl::StrCat("is ", Quoted(values[i]), " of ", values[i].size(),
                                                 " bytes, expected 1..", kMaxGroupValueLength),
                     .row = row};
  }
  auto unprintable = FindUnprintable(values[i]);
  if (!unprintable.has_value()) return std::nullopt;
  return Violation{.field = field, .description = *std::move(unprintable), .row = row};
}

std::optional<Violation> FindTimeViolation(
    const google::protobuf::RepeatedPtrField<google::protobuf::Timestamp>& times, int i, Time now) {
  using google::protobuf::util::TimeUtil;
  const auto seconds = [](Time time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  const google::protobuf::Timestamp& time = times[i];
  const std::int64_t oldest = seconds(now - kMaxAge);
  const std::int64_t newest = seconds(now + kMaxAhead);
  const bool has_nanos = time.nanos() >= 0 && time.nanos() <= 999999999;
  if (time.seconds() >= oldest && time.seconds() <= newest && has_nanos) return std::nullopt;
  const bool is_time = time.seconds() >= TimeUtil::kTimestampMinSeconds &&
                       time.seconds() <= TimeUtil::kTimestampMaxSeconds && has_nanos;
  return Violation{.field = "prediction_times",
                   .description = absl::StrCat(
                       "is ", is_time ? TimeUtil::ToString(time) : "not a time", ", expected ",
                       TimeUtil::ToString(TimeUtil::SecondsToTimestamp(oldest)), " to ",
                       TimeUtil::ToString(TimeUtil::SecondsToTimestamp(newest)),
                       ": at most 1000 days before and 5 minutes after the server's time"),
                   .row = static_cast<std::size_t>(i)};
}

absl::Status CheckTimeCount(const v1::Observations& observations, int rows) {
  const auto& times = observations.prediction_times();
  if (times.size() <= 1 || times.size() == rows) return absl::OkStatus();
  return InvalidFieldError("prediction_times",
                           absl::StrCat("has ", times.size(), " times with ", rows,
                                        " predictions, expected as many, one or none"));
}

// Checks everything that does not belong to one row.
absl::Status CheckBatch(const v1::Observations& observations, const ModelDeclaration& declaration,
                        const RowValues& values) {
  const std::size_t value_count = values.values.size();
  const int rows = RowCount(observations, declaration.row_shape());
  CALIBD_RETURN_IF_ERROR(CheckShape(observations, value_count, declaration));
  CALIBD_RETURN_IF_ERROR(
      CheckBaseline(observations, value_count, values.baseline_values.size(), declaration));
  CALIBD_RETURN_IF_ERROR(CheckFeatureCount(observations, rows, declaration));
  CALIBD_RETURN_IF_ERROR(CheckClassNames(observations, declaration));
  if (observations.prediction_ids_size() > 0) {
    CALIBD_RETURN_IF_ERROR(CheckTakesIds(declaration));
    if (TruthCount(observations) == 0) {
      CALIBD_RETURN_IF_ERROR(CheckLabelsMayComeLater("prediction_ids", declaration));
    }
  }
  CALIBD_RETURN_IF_ERROR(CheckTimeCount(observations, rows));
  return CheckTakesGroups(observations, declaration);
}

// At most these many names of classes are in an error.
constexpr std::size_t kMostShownNames = 20;

std::string ShownNames(std::span<const std::string> names) {
  const std::span<const std::string> shown = names.first(std::min(names.size(), kMostShownNames));
  return absl::StrCat(absl::StrJoin(shown, ", ",
                                    [](std::string* text, const std::string& name) {
                                      absl::StrAppend(text, Quoted(name));
                                    }),
                      names.size() > shown.size()
                          ? absl::StrCat(" or one of ", names.size() - shown.size(), " others")
                          : "");
}

// Returns the message with the numbers of the classes in place of their names. A text is always a
// name, also if it has only digits. Errors: InvalidArgument for unknown names.
template <typename Message>
absl::StatusOr<Message> WithLabels(const Message& named, const ModelDeclaration& declaration) {
  const std::span<const std::string> names =
      declaration.classes() == nullptr ? std::span<const std::string>() : declaration.value_names();
  if (names.empty()) {
    const std::string why = declaration.classes() == nullptr
                                ? absl::StrCat("the model ", KindOf(declaration).does())
                                : std::string("the model declares no classes.names");
    return InvalidFieldError("labels", absl::StrCat("are names, expected numbers because ", why));
  }
  if (!named.labels().empty()) {
    return InvalidFieldError("labels", "are numbers and names, expected only one of them");
  }
  absl::flat_hash_map<std::string_view, std::int32_t> numbers;
  for (std::size_t k = 0; k < names.size(); ++k) {
    numbers.emplace(names[k], static_cast<std::int32_t>(k));
  }
  Message labelled = named;
  labelled.clear_label_names();
  CALIBD_RETURN_IF_ERROR(
      CheckRows(named.label_names_size(), [&](int i) -> std::optional<Violation> {
        const auto found = numbers.find(named.label_names(i));
        if (found == numbers.end()) {
          return Violation{.field = "labels",
                           .description = absl::StrCat("is ", Quoted(named.label_names(i)),
                                                       ", expected ", ShownNames(names)),
                           .row = static_cast<std::size_t>(i)};
        }
        labelled.add_labels(found->second);
        return std::nullopt;
      }));
  return labelled;
}

ValueForm FormOf(const v1::Observations& observations) {
  return {.logits = AreLogits(observations), .baseline_logits = AreBaselineLogits(observations)};
}

absl::Status CheckAllRows(const v1::Observations& observations, const ModelDeclaration& declaration,
                          Time now, RowValues& values) {
  CALIBD_RETURN_IF_ERROR(CheckRows(observations.prediction_times_size(), [&](int i) {
    return FindTimeViolation(observations.prediction_times(), i, now);
  }));
  CALIBD_RETURN_IF_ERROR(CheckRows(observations.prediction_ids_size(), [&](int i) {
    return FindIdViolation(observations.prediction_ids(), i);
  }));
  CALIBD_RETURN_IF_ERROR(CheckRows(observations.group_values_size(), [&](int i) {
    return FindGroupViolation(observations.group_values(), i);
  }));
  const int rows = RowCount(observations, declaration.row_shape());
  const int rows_with_features = observations.has_features() ? rows : 0;
  CALIBD_RETURN_IF_ERROR(CheckRows(rows_with_features, [&](int i) {
    return FindFeatureViolation(observations, declaration, i);
  }));
  const std::vector<Violation> violations =
      KindOf(declaration)
          .ConvertRows(FormOf(observations), declaration, 0, static_cast<std::size_t>(rows),
                       values);
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

// Converts row i to probabilities and returns its violation, if any.
std::optional<Violation> FindRowViolation(const v1::Observations& observations,
                                          const ModelDeclaration& declaration, Time now, int i,
                                          RowValues& values) {
  if (const int times = observations.prediction_times_size(); times > 0) {
    auto violation = FindTimeViolation(observations.prediction_times(), times == 1 ? 0 : i, now);
    if (violation.has_value()) return violation;
  }
  if (observations.prediction_ids_size() > 0) {
    if (auto violation = FindIdViolation(observations.prediction_ids(), i)) return violation;
  }
  if (observations.group_values_size() > 0) {
    const int group = observations.group_values_size() == 1 ? 0 : i;
    if (auto violation = FindGroupViolation(observations.group_values(), group)) return violation;
  }
  if (auto violation = FindFeatureViolation(observations, declaration, i)) return violation;
  std::vector<Violation> violations =
      KindOf(declaration)
          .ConvertRows(FormOf(observations), declaration, static_cast<std::size_t>(i), 1, values);
  if (violations.empty()) return std::nullopt;
  return std::move(violations.front());
}

// Removes the invalid rows. Returns the numbers of the others.
std::vector<std::uint32_t> SkipInvalidRows(const v1::Observations& observations,
                                           const ModelDeclaration& declaration, Time now,
                                           RowValues& values, SkippedRows& skipped) {
  std::vector<std::uint32_t> valid;
  for (int i = 0; i < RowCount(observations, declaration.row_shape()); ++i) {
    auto violation = FindRowViolation(observations, declaration, now, i, values);
    if (!violation.has_value()) {
      valid.push_back(static_cast<std::uint32_t>(i));
    } else if (skipped.rows++ < static_cast<std::int64_t>(kMaxReportedViolations)) {
      skipped.violations.push_back(*std::move(violation));
    }
  }
  KeepRows(valid, values);
  return valid;
}

Dropped DroppedOf(const v1::Observations& observations) {
  return {.rows = observations.dropped_rows(), .labels = observations.dropped_labels()};
}

// A valid batch without rows, which need not have the kind of the model either.
bool StatesOnlyDropped(const v1::Observations& observations) {
  return observations.prediction_ids().empty() && TruthCount(observations) == 0 &&
         DroppedOf(observations).any() && CheckRules(observations).ok() &&
         Values(observations).empty() && BaselineValues(observations).empty();
}

}  // namespace

LogRow Decode(const v1::Observations& observations, const ModelDeclaration& declaration, Time now) {
  if (!observations.label_names().empty()) {
    const absl::StatusOr<v1::Observations> labelled = WithLabels(observations, declaration);
    if (labelled.ok()) return Decode(*labelled, declaration, now);
    LogRow row;
    row.content_hash = HashContent(observations, Values(observations), {});
    row.kind = RejectedRow{.rows = observations.label_names_size(), .reason = labelled.status()};
    return row;
  }
  RowValues values;
  values.width = declaration.row_width();
  values.values = Values(observations);
  values.baseline_values = BaselineValues(observations);
  LogRow row;
  row.content_hash = HashContent(observations, values.values, values.baseline_values);
  const bool only_dropped = StatesOnlyDropped(observations);
  absl::Status status =
      only_dropped ? absl::OkStatus() : CheckBatch(observations, declaration, values);
  std::vector<PredictionId> ids;
  if (status.ok() && !only_dropped) {
    if (observations.has_positive_class()) {
      const std::int32_t positive = observations.positive_class();
      values.values = BothClasses(values.values, positive, AreLogits(observations));
      values.baseline_values =
          BothClasses(values.baseline_values, positive, AreBaselineLogits(observations));
    } else {
      values.single_precision = observations.has_probabilities_float32();
    }
    values.truths = TruthsOf(observations, declaration.truth_shape());
    values.group_values.assign(observations.group_values().begin(),
                               observations.group_values().end());
    values.feature_count = declaration.feature_names.size();
    values.features = Copy(observations.features().values());
    for (const google::protobuf::Timestamp& time : observations.prediction_times()) {
      values.times_s.push_back(time.seconds());
    }
    ids = HashIds(observations.prediction_ids());
    if (observations.skip_invalid_rows()) {
      KeepOnly(SkipInvalidRows(observations, declaration, now, values, row.skipped), ids);
    } else {
      status = CheckAllRows(observations, declaration, now, values);
    }
  }
  if (!status.ok()) {
    row.kind = RejectedRow{.rows = RowCount(observations, declaration.row_shape()),
                           .reason = std::move(status)};
  } else if (values.values.empty()) {
    row.kind =
        RejectedRow{.rows = 0, .dropped = DroppedOf(observations), .reason = absl::OkStatus()};
  } else if (!ids.empty()) {
    auto& predictions = row.kind.emplace<PredictionsRow>();
    predictions.dropped = DroppedOf(observations);
    predictions.ids = std::move(ids);
    predictions.predicted_classes = CountedClasses(values, declaration.counted_classes());
    predictions.values = std::move(values);
  } else {
    row.kind = ObservationsRow{.values = std::move(values), .dropped = DroppedOf(observations)};
  }
  return row;
}

LogRow Decode(const v1::Labels& labels, const ModelDeclaration& declaration) {
  LogRow row;
  if (!labels.label_names().empty()) {
    const absl::StatusOr<v1::Labels> labelled = WithLabels(labels, declaration);
    if (labelled.ok()) return Decode(*labelled, declaration);
    row.content_hash = HashContent(labels);
    row.kind =
        RejectedRow{.rows = labels.label_names_size(), .labels = true, .reason = labelled.status()};
    return row;
  }
  row.content_hash = HashContent(labels);
  if (absl::Status status = CheckLabels(labels, declaration); !status.ok()) {
    const int truths = std::max(labels.labels_size(), labels.outcomes_size()) /
                       TruthsPerRow(declaration.row_shape());
    row.kind = RejectedRow{.rows = std::max(truths, labels.prediction_ids_size()),
                           .labels = true,
                           .reason = std::move(status)};
  } else {
    row.kind = LabelsRow{.ids = HashIds(labels.prediction_ids()),
                         .truths = TruthsOf(labels, declaration.truth_shape()),
                         .counts = {},
                         .classes = {}};
  }
  return row;
}

std::uint64_t ClaimedRows(const v1::Observations& observations, const RowShape& shape) {
  // A row of two classes may have one value.
  const int width = observations.has_positive_class() ? 1 : static_cast<int>(shape.width);
  const int values =
      VisitValues(observations, [](const auto& sent) { return sent.size(); }) / std::max(width, 1);
  return static_cast<std::uint64_t>(
      std::max({1, values, RowCount(observations, shape), observations.label_names_size(),
                observations.outcomes_size()}));
}

std::uint64_t ClaimedRows(const v1::Labels& labels, const RowShape& shape) {
  return static_cast<std::uint64_t>(
      std::max({1, labels.prediction_ids_size(), labels.labels_size() / TruthsPerRow(shape),
                labels.label_names_size(), labels.outcomes_size()}));
}

}  // namespace calibd::server
