#include "server/ingest/decode.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "calibd/text/printable.h"
#include "server/errors.h"
#include "server/xxh3.h"

namespace calibd::server {
namespace {

// Maximum number of rows that a producer may report as dropped in one batch, so that sums stay far
// from overflow.
constexpr std::int64_t kMaxDroppedRows = std::int64_t{1} << 40;

constexpr std::size_t kMaxIdLength = 128;

constexpr char kReason[] = "INVALID_OBSERVATIONS";

// Hashes the lengths of values too, so that different contents are never the same sequence of
// bytes.
class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState(), XXH3_freeState) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  template <typename T>
  void Add(const T* values, std::size_t count) {
    XXH3_64bits_update(state_.get(), &count, sizeof(count));
    if (count > 0) XXH3_64bits_update(state_.get(), values, count * sizeof(T));
  }

  [[nodiscard]] std::uint64_t Digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

bool AreLogits(const v1::Observations& observations) {
  return observations.has_logits() || observations.has_logits_float32();
}

std::uint64_t HashContent(const v1::Observations& observations, const std::vector<double>& values) {
  ContentHash hash;
  const std::array<std::int64_t, 2> header{AreLogits(observations) ? 1 : 0,
                                           observations.dropped_rows()};
  hash.Add(header.data(), header.size());
  hash.Add(values.data(), values.size());
  hash.Add(observations.labels().data(), static_cast<std::size_t>(observations.labels_size()));
  for (const std::string& name : observations.class_names()) hash.Add(name.data(), name.size());
  for (const std::string& id : observations.prediction_ids()) hash.Add(id.data(), id.size());
  if (observations.group_values_size() > 0) {
    // Negative, unlike the lengths with which ids and names begin.
    const std::int64_t count = -observations.group_values_size();
    hash.Add(&count, 1);
    for (const std::string& value : observations.group_values()) {
      hash.Add(value.data(), value.size());
    }
  }
  return hash.Digest();
}

std::uint64_t HashContent(const v1::Labels& labels) {
  ContentHash hash;
  // Observations begin with 0 or 1.
  const std::int64_t kind = 2;
  hash.Add(&kind, 1);
  hash.Add(labels.labels().data(), static_cast<std::size_t>(labels.labels_size()));
  for (const std::string& id : labels.prediction_ids()) hash.Add(id.data(), id.size());
  return hash.Digest();
}

using Ids = google::protobuf::RepeatedPtrField<std::string>;

std::vector<PredictionId> HashIds(const Ids& ids) {
  std::vector<PredictionId> hashes;
  hashes.reserve(static_cast<std::size_t>(ids.size()));
  for (const std::string& id : ids) hashes.push_back(HashId(id));
  return hashes;
}

absl::Status CheckIds(const Ids& ids, const ModelDeclaration& declaration) {
  if (declaration.label_grace.count() == 0) {
    return InvalidFieldError("prediction_ids",
                             "are given, expected none because the model has no label_grace");
  }
  std::vector<Violation> violations;
  for (int i = 0; i < ids.size() && violations.size() < kMaxReportedViolations; ++i) {
    if (ids[i].empty() || ids[i].size() > kMaxIdLength) {
      violations.push_back(
          {.field = absl::StrCat("prediction_ids[", i, "]"),
           .description = absl::StrCat("is ", Quoted(ids[i]), " of ", ids[i].size(),
                                       " bytes, expected 1..", kMaxIdLength)});
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

absl::Status CheckLabels(const v1::Labels& labels, const ModelDeclaration& declaration) {
  const int rows = labels.labels_size();
  if (rows == 0 || rows > kMaxRowsPerBatch) {
    return InvalidFieldError("labels",
                             absl::StrCat("has ", rows, " values, expected 1..", kMaxRowsPerBatch));
  }
  if (labels.prediction_ids_size() != rows) {
    return InvalidFieldError("prediction_ids",
                             absl::StrCat("has ", labels.prediction_ids_size(), " ids with ", rows,
                                          " labels, expected equal numbers"));
  }
  CALIBD_RETURN_IF_ERROR(CheckIds(labels.prediction_ids(), declaration));
  std::vector<Violation> violations;
  for (int i = 0; i < rows && violations.size() < kMaxReportedViolations; ++i) {
    const std::int32_t label = labels.labels(i);
    if (label < 0 || static_cast<std::size_t>(label) >= declaration.class_count) {
      violations.push_back({.field = absl::StrCat("labels[", i, "]"),
                            .description = absl::StrCat("is ", label, ", expected 0..",
                                                        declaration.class_count - 1)});
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

std::vector<double> Values(const v1::Observations& observations) {
  const auto copy = [](const auto& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  switch (observations.predictions_case()) {
    case v1::Observations::kProbabilities:
      return copy(observations.probabilities().values());
    case v1::Observations::kProbabilitiesFloat32:
      return copy(observations.probabilities_float32().values());
    case v1::Observations::kLogits:
      return copy(observations.logits().values());
    case v1::Observations::kLogitsFloat32:
      return copy(observations.logits_float32().values());
    case v1::Observations::PREDICTIONS_NOT_SET:
      break;
  }
  return {};
}

int RowCount(const v1::Observations& observations) {
  return observations.prediction_ids_size() > 0 ? observations.prediction_ids_size()
                                                : observations.labels_size();
}

// Checks everything that does not depend on the values.
absl::Status CheckShape(const v1::Observations& observations, std::size_t value_count,
                        const ModelDeclaration& declaration) {
  if (observations.predictions_case() == v1::Observations::PREDICTIONS_NOT_SET) {
    return InvalidFieldError("predictions",
                             "is not set, expected one of probabilities, "
                             "probabilities_float32, logits, logits_float32");
  }
  const int row_count = RowCount(observations);
  if (row_count > kMaxRowsPerBatch) {
    return InvalidFieldError("labels", absl::StrCat("has ", row_count, " values, expected at most ",
                                                    kMaxRowsPerBatch, " rows in a batch"));
  }
  if (observations.prediction_ids_size() > 0 && observations.labels_size() > 0 &&
      observations.prediction_ids_size() != observations.labels_size()) {
    return InvalidFieldError("prediction_ids",
                             absl::StrCat("has ", observations.prediction_ids_size(), " ids with ",
                                          observations.labels_size(),
                                          " labels, expected equal numbers, or no labels yet"));
  }
  if (observations.dropped_rows() < 0 || observations.dropped_rows() > kMaxDroppedRows) {
    return InvalidFieldError("dropped_rows", absl::StrCat("is ", observations.dropped_rows(),
                                                          ", expected 0..", kMaxDroppedRows));
  }
  const auto rows = static_cast<std::size_t>(row_count);
  std::size_t expected = 0;
  if (__builtin_mul_overflow(rows, declaration.class_count, &expected) || value_count != expected ||
      rows == 0) {
    return InvalidFieldError("probabilities",
                             absl::StrCat("has ", value_count, " values with ", rows,
                                          observations.prediction_ids_size() > 0
                                              ? " ids, expected n >= 1 ids and n x "
                                              : " labels, expected n >= 1 labels and n x ",
                                          declaration.class_count, " values"));
  }
  return absl::OkStatus();
}

absl::Status CheckClassNames(const v1::Observations& observations,
                             const ModelDeclaration& declaration) {
  if (observations.class_names_size() == 0) return absl::OkStatus();
  if (static_cast<std::size_t>(observations.class_names_size()) != declaration.class_names.size()) {
    return InvalidFieldError(
        "class_names",
        absl::StrCat("has ", observations.class_names_size(), " names, expected the model's ",
                     declaration.class_names.size(), " or none"));
  }
  for (int i = 0; i < observations.class_names_size(); ++i) {
    const std::string& expected = declaration.class_names[static_cast<std::size_t>(i)];
    if (observations.class_names(i) != expected) {
      return InvalidFieldError(absl::StrCat("class_names[", i, "]"),
                               absl::StrCat("is ", Quoted(observations.class_names(i)),
                                            ", expected ", Quoted(expected)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroupValues(const v1::Observations& observations,
                              const ModelDeclaration& declaration) {
  const auto& values = observations.group_values();
  if (values.empty()) return absl::OkStatus();
  if (declaration.monitoring.group_tag.empty()) {
    return InvalidFieldError(
        "group_values", "are given, expected none because the model has no monitoring.group_tag");
  }
  if (values.size() != 1 && values.size() != RowCount(observations)) {
    return InvalidFieldError(
        "group_values", absl::StrCat("has ", values.size(), " values with ", RowCount(observations),
                                     " predictions, expected as many, one or none"));
  }
  std::vector<Violation> violations;
  for (int i = 0; i < values.size() && violations.size() < kMaxReportedViolations; ++i) {
    if (values[i].empty() || values[i].size() > kMaxGroupValueLength) {
      violations.push_back(
          {.field = absl::StrCat("group_values[", i, "]"),
           .description = absl::StrCat("is ", Quoted(values[i]), " of ", values[i].size(),
                                       " bytes, expected 1..", kMaxGroupValueLength)});
    } else if (auto unprintable = FindUnprintable(values[i])) {
      violations.push_back(
          {.field = absl::StrCat("group_values[", i, "]"), .description = *std::move(unprintable)});
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

// Converts the values to probabilities and checks them and the labels. Pending predictions have no
// labels.
absl::Status CheckValues(bool are_logits, const ModelDeclaration& declaration, RowValues& values) {
  std::vector<Violation> violations;
  if (are_logits) violations = SoftmaxRows(values.probabilities, values.class_count);
  if (violations.empty()) {
    const std::vector<std::int32_t> valid_labels(
        values.labels.empty() ? values.probabilities.size() / values.class_count : 0);
    const PredictionBatch batch{values.probabilities,
                                values.labels.empty() ? valid_labels : values.labels,
                                values.class_count};
    violations = FindViolations(batch, declaration.row_sum_tolerance);
  }
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError(kReason, violations);
}

absl::Status Check(const v1::Observations& observations, const ModelDeclaration& declaration,
                   RowValues& values) {
  CALIBD_RETURN_IF_ERROR(CheckShape(observations, values.probabilities.size(), declaration));
  CALIBD_RETURN_IF_ERROR(CheckClassNames(observations, declaration));
  if (observations.prediction_ids_size() > 0) {
    CALIBD_RETURN_IF_ERROR(CheckIds(observations.prediction_ids(), declaration));
  }
  CALIBD_RETURN_IF_ERROR(CheckGroupValues(observations, declaration));
  values.labels.assign(observations.labels().begin(), observations.labels().end());
  values.group_values.assign(observations.group_values().begin(),
                             observations.group_values().end());
  return CheckValues(AreLogits(observations), declaration, values);
}

}  // namespace

LogRow Decode(const v1::Observations& observations, const ModelDeclaration& declaration) {
  RowValues values;
  values.class_count = declaration.class_count;
  values.probabilities = Values(observations);
  values.single_precision = observations.has_probabilities_float32();
  LogRow row;
  row.content_hash = HashContent(observations, values.probabilities);
  if (absl::Status status = Check(observations, declaration, values); !status.ok()) {
    row.kind = RejectedRow{.rows = RowCount(observations), .reason = std::move(status)};
  } else if (observations.prediction_ids_size() > 0) {
    auto& predictions = row.kind.emplace<PredictionsRow>();
    predictions.dropped_rows = observations.dropped_rows();
    predictions.ids = HashIds(observations.prediction_ids());
    predictions.predicted_classes = PredictedClasses(values);
    predictions.values = std::move(values);
  } else {
    row.kind =
        ObservationsRow{.values = std::move(values), .dropped_rows = observations.dropped_rows()};
  }
  return row;
}

LogRow Decode(const v1::Labels& labels, const ModelDeclaration& declaration) {
  LogRow row;
  row.content_hash = HashContent(labels);
  if (absl::Status status = CheckLabels(labels, declaration); !status.ok()) {
    row.kind = RejectedRow{.rows = std::max(labels.labels_size(), labels.prediction_ids_size()),
                           .reason = std::move(status)};
  } else {
    row.kind = LabelsRow{.ids = HashIds(labels.prediction_ids()),
                         .labels = {labels.labels().begin(), labels.labels().end()},
                         .counts = {},
                         .classes = {}};
  }
  return row;
}

}  // namespace calibd::server
