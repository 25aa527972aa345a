#include "server/ingest/logged_batch.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/store/v1/store.pb.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

using Kind = LoggedBatch::Kind;

using google::protobuf::io::CodedOutputStream;

// What is appended to an encoded row until it is stored.
constexpr std::size_t kRoomToAppend = 32;

// The header of a packed field.
void AppendHeader(int field, std::size_t bytes, std::string& out) {
  constexpr std::uint32_t kLengthDelimited = 2;
  std::array<std::uint8_t, 10> header;
  std::uint8_t* end = CodedOutputStream::WriteTagToArray(
      static_cast<std::uint32_t>(field) << 3U | kLengthDelimited, header.data());
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(bytes), end);
  out.append(header.data(), end);
}

template <typename T>
void AppendRaw(std::span<const T> values, std::string& out) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void AppendAsFloats(std::span<const double> values, std::string& out) {
  std::array<float, 1024> floats;
  for (; !values.empty(); values = values.subspan(std::min(values.size(), floats.size()))) {
    const std::size_t count = std::min(values.size(), floats.size());
    for (std::size_t i = 0; i < count; ++i) {
      floats[i] = static_cast<float>(values[i]);
    }
    AppendRaw<float>(std::span(floats).first(count), out);
  }
}

// The fields 1 to 3 of a row as protobuf writes them, which would copy them more than once.
void AppendValues(const DecodedBatch& batch, std::string& out) {
  using Message = store::v1::LoggedBatch;
  const std::vector<double>& values = batch.probabilities;
  const bool single =
      batch.single_precision || std::all_of(values.begin(), values.end(), [](double value) {
        return static_cast<double>(static_cast<float>(value)) == value;
      });
  if (values.empty()) {
    // No field.
  } else if (single) {
    AppendHeader(Message::kFloatProbabilitiesFieldNumber, values.size() * sizeof(float), out);
    AppendAsFloats(values, out);
  } else {
    AppendHeader(Message::kProbabilitiesFieldNumber, values.size() * sizeof(double), out);
    AppendRaw<double>(values, out);
  }
  if (batch.labels.empty()) {
    return;
  }
  std::size_t label_bytes = 0;
  for (const std::int32_t label : batch.labels) {
    label_bytes += CodedOutputStream::VarintSize32(static_cast<std::uint32_t>(label));
  }
  AppendHeader(Message::kLabelsFieldNumber, label_bytes, out);
  const std::size_t begin = out.size();
  out.resize(begin + label_bytes);
  auto* end = reinterpret_cast<std::uint8_t*>(&out[begin]);
  for (const std::int32_t label : batch.labels) {
    end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(label), end);
  }
}

// At least.
std::size_t ValueBytes(const DecodedBatch& batch) {
  constexpr std::size_t kHeaders = 20;
  constexpr std::size_t kMostOfALabel = 3;
  return kHeaders + kMostOfALabel * batch.labels.size() +
         batch.probabilities.size() * (batch.single_precision ? sizeof(float) : sizeof(double));
}

bool AreClasses(const google::protobuf::RepeatedField<std::int32_t>& values,
                std::size_t class_count) {
  return std::all_of(values.begin(), values.end(), [class_count](auto y) {
    return y >= 0 && static_cast<std::size_t>(y) < class_count;
  });
}

Kind KindOf(const store::v1::LoggedBatch& stored) {
  if (stored.opened()) {
    return Kind::kOpened;
  }
  if (stored.rejected()) {
    return Kind::kRejected;
  }
  if (stored.has_resolved_labels()) {
    return Kind::kLabels;
  }
  if (stored.has_maturity()) {
    return Kind::kMatured;
  }
  if (stored.has_acknowledgement()) {
    return Kind::kAcknowledgement;
  }
  return stored.prediction_ids().empty() && stored.duplicate_predictions() == 0
             ? Kind::kObservations
             : Kind::kPredictions;
}

std::vector<std::int32_t> PredictedClasses(const DecodedBatch& batch) {
  const std::size_t m = batch.class_count;
  std::vector<std::int32_t> classes;
  classes.reserve(batch.ids.size());
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const std::span<const double> row(batch.probabilities.data() + i * m, m);
    classes.push_back(static_cast<std::int32_t>(PredictedClass(row)));
  }
  return classes;
}

// Whether there is one of each label, or none at all.
bool AreOf(const std::vector<std::int32_t>& classes, std::int64_t labels) {
  return classes.empty() || static_cast<std::int64_t>(classes.size()) == labels;
}

// Whether the numbers of values, labels and ids fit one another.
bool HasShape(const LoggedBatch& logged) {
  const DecodedBatch& batch = logged.batch;
  const std::size_t rows =
      logged.kind == Kind::kPredictions ? batch.ids.size() : batch.labels.size();
  const std::size_t values = batch.probabilities.size();
  if (batch.group_values.size() > 1 && batch.group_values.size() != rows) {
    return false;
  }
  switch (logged.kind) {
    case Kind::kOpened:
    case Kind::kRejected:
      return rows == 0 && values == 0;
    case Kind::kObservations:
      return rows > 0 && values == rows * batch.class_count;
    case Kind::kPredictions:
      return values == rows * batch.class_count &&
             (batch.labels.empty() || batch.labels.size() == rows);
    case Kind::kLabels:
      return values == 0 && batch.ids.size() == rows &&
             AreOf(logged.label_classes.conflicting, logged.label_counts.conflicting) &&
             AreOf(logged.label_classes.late, logged.label_counts.late);
    case Kind::kMatured:
      return values == rows * batch.class_count && batch.ids.empty();
    case Kind::kAcknowledgement:
      return rows == 0 && values == 0 && batch.ids.empty() && logged.alarm_id > 0;
  }
  return false;
}

// Whether the numbers of the row are such as calibd writes, so that sums of them do not overflow
// and no answer is a NaN.
bool HasValidNumbers(const LoggedBatch& logged, const store::v1::LoggedBatch& stored) {
  constexpr std::int64_t kGreatestCount = std::int64_t{1} << 53;
  const LabelCounts& labels = logged.label_counts;
  const bool counts = std::ranges::all_of(
      std::array{stored.rejected_rows(), stored.duplicate_predictions(), stored.elapsed_us(),
                 stored.maturity().through_log_id(), labels.repeated, labels.conflicting,
                 labels.late, labels.unknown},
      [](std::int64_t count) { return count >= 0 && count <= kGreatestCount; });
  // Clients may claim any number of dropped rows, and choose their epochs.
  return counts && stored.dropped_rows() >= 0 && stored.epoch() >= 0 && stored.sequence() >= 0 &&
         std::ranges::all_of(logged.batch.probabilities,
                             [](double value) { return value >= 0 && value <= 1; });
}

}  // namespace

LoggedBatch MakeLoggedBatch(DecodedBatch batch) {
  LoggedBatch logged;
  if (batch.validity.ok()) {
    logged.kind = batch.kind == DecodedBatch::Kind::kObservations  ? Kind::kObservations
                  : batch.kind == DecodedBatch::Kind::kPredictions ? Kind::kPredictions
                                                                   : Kind::kLabels;
  }
  logged.batch = std::move(batch);
  if (logged.kind == Kind::kPredictions) {
    logged.predicted_classes = PredictedClasses(logged.batch);
  }
  return logged;
}

std::string EncodeLogged(const LoggedBatch& logged,
                         const std::optional<ProducerPosition>& position) {
  // All but the values.
  store::v1::LoggedBatch out;
  const bool has_values = logged.kind == Kind::kObservations || logged.kind == Kind::kPredictions ||
                          logged.kind == Kind::kMatured;
  if (has_values) {
    out.set_prediction_ids(EncodeIds(logged.batch.ids));
    out.set_dropped_rows(logged.batch.dropped_rows);
    out.mutable_group_values()->Add(logged.batch.group_values.begin(),
                                    logged.batch.group_values.end());
  }
  if (position.has_value()) {
    out.set_producer_id(position->producer_id);
    out.set_epoch(position->epoch);
    out.set_sequence(position->sequence);
    out.set_content_hash(logged.batch.content_hash);
  }
  switch (logged.kind) {
    case Kind::kOpened:
      out.set_opened(true);
      break;
    case Kind::kRejected:
      out.set_rejected(true);
      out.set_rejected_rows(logged.batch.rows);
      break;
    case Kind::kObservations:
      break;
    case Kind::kPredictions:
      out.set_duplicate_predictions(logged.duplicate_predictions);
      break;
    case Kind::kLabels: {
      store::v1::ResolvedLabels& resolved = *out.mutable_resolved_labels();
      resolved.set_prediction_ids(EncodeIds(logged.batch.ids));
      resolved.mutable_labels()->Add(logged.batch.labels.begin(), logged.batch.labels.end());
      resolved.set_repeated_labels(logged.label_counts.repeated);
      resolved.set_conflicting_labels(logged.label_counts.conflicting);
      resolved.set_late_labels(logged.label_counts.late);
      resolved.set_unknown_labels(logged.label_counts.unknown);
      resolved.mutable_conflicting_predicted_classes()->Add(
          logged.label_classes.conflicting.begin(), logged.label_classes.conflicting.end());
      resolved.mutable_late_predicted_classes()->Add(logged.label_classes.late.begin(),
                                                     logged.label_classes.late.end());
      break;
    }
    case Kind::kMatured: {
      store::v1::Maturity& maturity = *out.mutable_maturity();
      maturity.set_through_log_id(logged.through_log_id);
      maturity.mutable_missing_predicted_classes()->Add(logged.missing_predicted_classes.begin(),
                                                        logged.missing_predicted_classes.end());
      break;
    }
    case Kind::kAcknowledgement:
      out.mutable_acknowledgement()->set_alarm_id(logged.alarm_id);
      out.mutable_acknowledgement()->set_note(logged.note);
      break;
  }
  std::string encoded;
  encoded.reserve((has_values ? ValueBytes(logged.batch) : 0) + out.ByteSizeLong() + kRoomToAppend);
  if (has_values) {
    AppendValues(logged.batch, encoded);
  }
  out.AppendToString(&encoded);
  return encoded;
}

void AppendElapsed(std::chrono::microseconds elapsed, std::string& encoded) {
  // Messages put one after the other are one message with the fields of all.
  store::v1::LoggedBatch rest;
  rest.set_elapsed_us(elapsed.count());
  rest.AppendToString(&encoded);
}

absl::StatusOr<LoggedBatch> DecodeLogged(std::string_view data, std::size_t class_count) {
  store::v1::LoggedBatch stored;
  const bool parsed = stored.ParseFromArray(data.data(), static_cast<int>(data.size()));
  LoggedBatch logged;
  logged.kind = KindOf(stored);
  logged.elapsed = std::chrono::microseconds(stored.elapsed_us());
  logged.duplicate_predictions = stored.duplicate_predictions();
  if (!stored.producer_id().empty()) {
    logged.position = ProducerPosition{.producer_id = stored.producer_id(),
                                       .epoch = stored.epoch(),
                                       .sequence = stored.sequence()};
  }
  logged.alarm_id = stored.acknowledgement().alarm_id();
  logged.note = stored.acknowledgement().note();
  const store::v1::ResolvedLabels& resolved = stored.resolved_labels();
  const auto& labels = logged.kind == Kind::kLabels ? resolved.labels() : stored.labels();
  const auto& missing = stored.maturity().missing_predicted_classes();
  DecodedBatch& batch = logged.batch;
  batch.class_count = class_count;
  batch.content_hash = stored.content_hash();
  batch.dropped_rows = stored.dropped_rows();
  batch.labels.assign(labels.begin(), labels.end());
  batch.ids =
      DecodeIds(logged.kind == Kind::kLabels ? resolved.prediction_ids() : stored.prediction_ids());
  batch.group_values.assign(stored.group_values().begin(), stored.group_values().end());
  batch.probabilities.reserve(static_cast<std::size_t>(stored.probabilities_size()) +
                              static_cast<std::size_t>(stored.float_probabilities_size()));
  batch.probabilities.assign(stored.probabilities().begin(), stored.probabilities().end());
  batch.probabilities.insert(batch.probabilities.end(), stored.float_probabilities().begin(),
                             stored.float_probabilities().end());
  logged.label_counts = {.matched = static_cast<std::int64_t>(resolved.labels_size()),
                         .repeated = resolved.repeated_labels(),
                         .conflicting = resolved.conflicting_labels(),
                         .late = resolved.late_labels(),
                         .unknown = resolved.unknown_labels()};
  const auto& conflicting = resolved.conflicting_predicted_classes();
  const auto& late = resolved.late_predicted_classes();
  logged.label_classes.conflicting.assign(conflicting.begin(), conflicting.end());
  logged.label_classes.late.assign(late.begin(), late.end());
  if (!parsed || !HasShape(logged) || !HasValidNumbers(logged, stored) ||
      !AreClasses(labels, class_count) || !AreClasses(missing, class_count) ||
      !AreClasses(conflicting, class_count) || !AreClasses(late, class_count)) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     absl::StrCat("a batch of the log is not one of ", class_count, " classes"));
  }
  batch.rows = static_cast<std::int64_t>(logged.kind == Kind::kPredictions ? batch.ids.size()
                                                                           : batch.labels.size());
  if (logged.kind == Kind::kRejected) {
    batch.validity = absl::InvalidArgumentError("was rejected");
    batch.rows = stored.rejected_rows();
  }
  if (logged.kind == Kind::kPredictions) {
    logged.predicted_classes = PredictedClasses(batch);
  }
  logged.through_log_id = stored.maturity().through_log_id();
  logged.missing_predicted_classes.assign(missing.begin(), missing.end());
  return logged;
}

void Apply(const LoggedBatch& logged, ModelSnapshot::Time time, Model& model) {
  const DecodedBatch& batch = logged.batch;
  model.BeginRow(time);
  switch (logged.kind) {
    case Kind::kOpened:
      break;
    case Kind::kRejected:
      model.CountRejected(batch.rows);
      break;
    case Kind::kObservations:
      model.Apply(batch.view(), batch.groups());
      model.Decide(time);
      model.CountAccepted(batch.dropped_rows, time);
      break;
    case Kind::kPredictions:
      model.CountPredictions(logged.predicted_classes, !batch.labels.empty(),
                             logged.duplicate_predictions);
      model.CountAccepted(batch.dropped_rows, time);
      break;
    case Kind::kLabels:
      model.CountLabels(logged.label_counts, logged.label_classes);
      break;
    case Kind::kMatured:
      model.ApplyMatured(batch.view(), batch.groups(), logged.missing_predicted_classes);
      if (!batch.labels.empty()) {
        model.Decide(time);
      }
      break;
    case Kind::kAcknowledgement:
      model.Acknowledge(logged.alarm_id, logged.note, time);
      break;
  }
}

}  // namespace calibd::server
