#include "server/rows/row_codec.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/model/declaration_update.h"

namespace calibd::server {
namespace {

using google::protobuf::io::CodedOutputStream;

// Space in an encoded row for the fields that are appended later.
constexpr std::size_t kRoomToAppend = 32;
// Larger counts cannot come from calibd, and their sums might overflow.
constexpr std::int64_t kGreatestCount = std::int64_t{1} << 53;

// The last second of the year 9999.
constexpr std::int64_t kGreatestTime = 253402300799;

// ---- Encoding

constexpr std::uint32_t Tag(int field) {
  constexpr std::uint32_t kLengthDelimited = 2;
  return static_cast<std::uint32_t>(field) << 3U | kLengthDelimited;
}

// Size of a length-delimited field with its header; 0 for an empty field, which is left out.
std::size_t FieldBytes(int field, std::size_t bytes) {
  return bytes == 0
             ? 0
             : CodedOutputStream::VarintSize32(Tag(field)) +
                   CodedOutputStream::VarintSize32(static_cast<std::uint32_t>(bytes)) + bytes;
}

void AppendHeader(int field, std::size_t bytes, std::string& out) {
  std::array<std::uint8_t, 10> header;
  std::uint8_t* end = CodedOutputStream::WriteTagToArray(Tag(field), header.data());
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
    for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(values[i]);
    AppendRaw<float>(std::span(floats).first(count), out);
  }
}

bool AreFloats(std::span<const double> values) {
  return std::ranges::all_of(
      values, [](double value) { return static_cast<double>(static_cast<float>(value)) == value; });
}

// How probabilities are encoded.
struct MatrixSize {
  MatrixSize(std::span<const double> values, bool known_single)
      : single(known_single || AreFloats(values)),
        bytes(values.size() * (single ? sizeof(float) : sizeof(double))) {}

  bool single;
  std::size_t bytes;
};

void AppendMatrix(std::span<const double> values, const MatrixSize& size, int float_field,
                  int double_field, std::string& out) {
  if (values.empty()) return;
  AppendHeader(size.single ? float_field : double_field, size.bytes, out);
  if (size.single) {
    AppendAsFloats(values, out);
  } else {
    AppendRaw<double>(values, out);
  }
}

// The values of a row, and the sizes of their fields.
struct ValueSizes {
  explicit ValueSizes(const RowValues& rows)
      : values(rows.values, rows.single_precision),
        baseline(rows.baseline_values, false),
        features(rows.features, false),
        outcomes(rows.truths.outcomes.size() * sizeof(double)) {
    for (const std::int32_t label : rows.truths.labels) {
      labels += CodedOutputStream::VarintSize32(static_cast<std::uint32_t>(label));
    }
    for (const std::string& value : rows.group_values) {
      // An element may be empty.
      groups += 1 + CodedOutputStream::VarintSize32(static_cast<std::uint32_t>(value.size())) +
                value.size();
    }
    for (const std::int64_t time : rows.times_s) {
      times += CodedOutputStream::VarintSize64(static_cast<std::uint64_t>(time));
    }
  }

  [[nodiscard]] std::size_t all() const {
    using Message = store::v1::RowValues;
    return FieldBytes(Message::kValuesFieldNumber, values.bytes) +
           FieldBytes(Message::kBaselineValuesFieldNumber, baseline.bytes) +
           FieldBytes(Message::kFeaturesFieldNumber, features.bytes) +
           FieldBytes(Message::kLabelsFieldNumber, labels) + groups +
           FieldBytes(Message::kPredictionTimesSFieldNumber, times) +
           FieldBytes(Message::kOutcomesFieldNumber, outcomes);
  }

  MatrixSize values;
  MatrixSize baseline;
  MatrixSize features;
  std::size_t outcomes = 0;
  std::size_t labels = 0;
  std::size_t groups = 0;
  std::size_t times = 0;
};

// Writes the field `values` in the wire format of protobuf. Protobuf itself would copy the values
// more than once.
void AppendValues(const RowValues& values, const ValueSizes& sizes, std::string& out) {
  using Message = store::v1::RowValues;
  if (sizes.all() == 0) return;
  AppendHeader(store::v1::LogRow::kValuesFieldNumber, sizes.all(), out);
  AppendMatrix(values.values, sizes.values, Message::kFloatValuesFieldNumber,
               Message::kValuesFieldNumber, out);
  if (sizes.labels > 0) {
    AppendHeader(Message::kLabelsFieldNumber, sizes.labels, out);
    const std::size_t begin = out.size();
    out.resize(begin + sizes.labels);
    auto* end = reinterpret_cast<std::uint8_t*>(&out[begin]);
    for (const std::int32_t label : values.truths.labels) {
      end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(label), end);
    }
  }
  for (const std::string& value : values.group_values) {
    AppendHeader(Message::kGroupValuesFieldNumber, value.size(), out);
    out.append(value);
  }
  if (sizes.times > 0) {
    AppendHeader(Message::kPredictionTimesSFieldNumber, sizes.times, out);
    const std::size_t begin = out.size();
    out.resize(begin + sizes.times);
    auto* end = reinterpret_cast<std::uint8_t*>(&out[begin]);
    for (const std::int64_t time : values.times_s) {
      end = CodedOutputStream::WriteVarint64ToArray(static_cast<std::uint64_t>(time), end);
    }
  }
  AppendMatrix(values.baseline_values, sizes.baseline, Message::kBaselineFloatValuesFieldNumber,
               Message::kBaselineValuesFieldNumber, out);
  AppendMatrix(values.features, sizes.features, Message::kFloatFeaturesFieldNumber,
               Message::kFeaturesFieldNumber, out);
  if (sizes.outcomes > 0) {
    AppendHeader(Message::kOutcomesFieldNumber, sizes.outcomes, out);
    AppendRaw<double>(values.truths.outcomes, out);
  }
}

template <typename Message>
void Put(const Dropped& dropped, Message& out) {
  out.set_dropped_rows(dropped.rows);
  out.set_dropped_labels(dropped.labels);
}

// Returns whether the counts are valid: not negative. Producers may report any such number.
template <typename Message>
bool ReadDropped(const Message& stored, Dropped& out) {
  out = {.rows = stored.dropped_rows(), .labels = stored.dropped_labels()};
  return out.rows >= 0 && out.labels >= 0;
}

struct KindWriter {
  store::v1::LogRow& out;

  void operator()(const OpenedRow& /*row*/) const { out.mutable_opened(); }
  void operator()(const EndedRow& /*row*/) const { out.mutable_ended(); }
  void operator()(const RejectedRow& row) const {
    out.mutable_rejected()->set_rows(row.labels ? 0 : row.rows);
    Put(row.dropped, *out.mutable_rejected());
  }
  void operator()(const ObservationsRow& row) const {
    Put(row.dropped, *out.mutable_observations());
  }
  void operator()(const PredictionsRow& row) const {
    store::v1::Predictions& predictions = *out.mutable_predictions();
    Put(row.dropped, predictions);
    predictions.set_prediction_ids(EncodeIds(row.ids));
    predictions.set_duplicate_predictions(row.duplicates);
  }
  void operator()(const LabelsRow& row) const {
    store::v1::ResolvedLabels& resolved = *out.mutable_resolved_labels();
    resolved.set_prediction_ids(EncodeIds(row.ids));
    resolved.mutable_labels()->Add(row.truths.labels.begin(), row.truths.labels.end());
    resolved.mutable_outcomes()->Add(row.truths.outcomes.begin(), row.truths.outcomes.end());
    resolved.set_repeated_labels(row.counts.repeated);
    resolved.set_conflicting_labels(row.counts.conflicting);
    resolved.set_late_labels(row.counts.late);
    resolved.set_unknown_labels(row.counts.unknown);
    resolved.mutable_conflicting_predicted_classes()->Add(row.classes.conflicting.begin(),
                                                          row.classes.conflicting.end());
    resolved.mutable_late_predicted_classes()->Add(row.classes.late.begin(),
                                                   row.classes.late.end());
    resolved.set_waiting_prediction_ids(EncodeIds(row.waiting_ids));
    resolved.mutable_waiting_labels()->Add(row.waiting_truths.labels.begin(),
                                           row.waiting_truths.labels.end());
    resolved.mutable_waiting_outcomes()->Add(row.waiting_truths.outcomes.begin(),
                                             row.waiting_truths.outcomes.end());
    resolved.set_ended_waiting_labels(static_cast<std::int64_t>(row.waiting_ids.size()) -
                                      row.counts.waiting);
    resolved.set_ended_waiting_log_id(row.ended_waiting_log_id);
  }
  void operator()(const MaturedRow& row) const {
    store::v1::Maturity& matured = *out.mutable_matured();
    matured.set_through_log_id(row.through_log_id);
    matured.mutable_missing_predicted_classes()->Add(row.missing_predicted_classes.begin(),
                                                     row.missing_predicted_classes.end());
    matured.mutable_id_hashes()->Add(row.values.id_hashes.begin(), row.values.id_hashes.end());
  }
  void operator()(const AcknowledgedRow& row) const {
    out.mutable_acknowledged()->set_alarm_id(row.alarm_id);
    out.mutable_acknowledged()->set_note(row.note);
  }
  void operator()(const UpdatedRow& row) const {
    *out.mutable_updated()->mutable_model() = row.update.model;
    *out.mutable_updated()->mutable_mask() = row.update.mask;
  }
};

// ---- Decoding. The functions return false for a row that calibd would not write.

bool AreCounts(std::initializer_list<std::int64_t> counts) {
  return std::ranges::all_of(
      counts, [](std::int64_t count) { return count >= 0 && count <= kGreatestCount; });
}

bool ReadClasses(const google::protobuf::RepeatedField<std::int32_t>& stored,
                 std::size_t class_count, std::vector<std::int32_t>& out) {
  out.assign(stored.begin(), stored.end());
  return std::ranges::all_of(out, [class_count](std::int32_t y) {
    return y >= 0 && static_cast<std::size_t>(y) < class_count;
  });
}

bool AreFinite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

// Reads probabilities, or numbers without a range, from the one of two fields that holds them.
bool ReadMatrix(const google::protobuf::RepeatedField<double>& doubles,
                const google::protobuf::RepeatedField<float>& floats, bool any_number,
                std::vector<double>& out) {
  out.reserve(static_cast<std::size_t>(doubles.size()) + static_cast<std::size_t>(floats.size()));
  out.assign(doubles.begin(), doubles.end());
  out.insert(out.end(), floats.begin(), floats.end());
  if (any_number) return AreFinite(out);
  return std::ranges::all_of(out, [](double value) { return value >= 0 && value <= 1; });
}

// Reads at most one class for each label.
bool ReadClassesOf(std::int64_t labels, const google::protobuf::RepeatedField<std::int32_t>& stored,
                   std::size_t class_count, std::vector<std::int32_t>& out) {
  return ReadClasses(stored, class_count, out) && stored.size() <= labels;
}

struct RowReader {
  const store::v1::LogRow& stored;
  RowShape shape;

  // Reads labels or outcomes, whichever the model has.
  template <typename Message>
  bool ReadTruths(const Message& message, Truths& out) const {
    return ReadTruths(message.labels(), message.outcomes(), out);
  }
  bool ReadTruths(const google::protobuf::RepeatedField<std::int32_t>& labels,
                  const google::protobuf::RepeatedField<double>& outcomes, Truths& out) const {
    const TruthShape& expected = shape.truths;
    if (expected.labels == 0) {
      out = std::vector<double>(outcomes.begin(), outcomes.end());
      return labels.empty() && AreFinite(out.outcomes);
    }
    out = {{labels.begin(), labels.end()}, expected.labels};
    return outcomes.empty() && out.labels.size() % expected.labels == 0 &&
           std::ranges::all_of(out.labels, [&expected](std::int32_t label) {
             return label >= expected.least_label && label < expected.end_label;
           });
  }

  // rows: the expected number of rows; the truths may be missing.
  bool ReadValues(std::size_t rows, RowValues& out) const {
    const store::v1::RowValues& values = stored.values();
    out.width = shape.width;
    out.feature_count = shape.features;
    out.single_precision = values.values().empty();
    out.group_values.assign(values.group_values().begin(), values.group_values().end());
    out.times_s.assign(values.prediction_times_s().begin(), values.prediction_times_s().end());
    return ReadTruths(values, out.truths) &&
           (out.times_s.size() <= 1 || out.times_s.size() == rows) &&
           std::ranges::all_of(
               out.times_s, [](std::int64_t time) { return time >= 0 && time <= kGreatestTime; }) &&
           (out.labelled() == 0 || out.labelled() == rows) &&
           (out.group_values.size() <= 1 || out.group_values.size() == rows) &&
           ReadMatrix(values.values(), values.float_values(), !shape.has_probabilities(),
                      out.values) &&
           out.values.size() == rows * shape.width &&
           ReadMatrix(values.baseline_values(), values.baseline_float_values(),
                      !shape.has_probabilities(), out.baseline_values) &&
           (out.baseline_values.empty() || out.baseline_values.size() == rows * shape.width) &&
           ReadMatrix(values.features(), values.float_features(), /*any_number=*/true,
                      out.features) &&
           out.features.size() == rows * shape.features;
  }

  // The number of truths.
  [[nodiscard]] std::size_t labelled() const {
    const int values =
        shape.truths.labels == 0 ? stored.values().outcomes_size() : stored.values().labels_size();
    return static_cast<std::size_t>(values) / std::max<std::size_t>(1, shape.truths.labels);
  }

  bool Read(ObservationsRow& row) const {
    return ReadDropped(stored.observations(), row.dropped) && labelled() > 0 &&
           ReadValues(labelled(), row.values);
  }
  bool Read(PredictionsRow& row) const {
    const store::v1::Predictions& predictions = stored.predictions();
    row.ids = DecodeIds(predictions.prediction_ids());
    row.duplicates = predictions.duplicate_predictions();
    if (!ReadDropped(predictions, row.dropped) || !AreCounts({row.duplicates}) ||
        !ReadValues(row.ids.size(), row.values)) {
      return false;
    }
    row.predicted_classes = CountedClasses(row.values, shape.classes);
    return true;
  }
  bool Read(LabelsRow& row) const {
    const store::v1::ResolvedLabels& resolved = stored.resolved_labels();
    row.ids = DecodeIds(resolved.prediction_ids());
    row.counts = {.matched = static_cast<std::int64_t>(row.ids.size()),
                  .repeated = resolved.repeated_labels(),
                  .conflicting = resolved.conflicting_labels(),
                  .late = resolved.late_labels(),
                  .unknown = resolved.unknown_labels()};
    row.waiting_ids = DecodeIds(resolved.waiting_prediction_ids());
    row.counts.waiting =
        static_cast<std::int64_t>(row.waiting_ids.size()) - resolved.ended_waiting_labels();
    row.ended_waiting_log_id = resolved.ended_waiting_log_id();
    const LabelCounts& counts = row.counts;
    return ReadTruths(resolved, row.truths) && row.ids.size() == row.truths.size() &&
           ReadTruths(resolved.waiting_labels(), resolved.waiting_outcomes(), row.waiting_truths) &&
           row.waiting_ids.size() == row.waiting_truths.size() &&
           AreCounts({counts.repeated, counts.conflicting, counts.late, counts.unknown,
                      resolved.ended_waiting_labels(), row.ended_waiting_log_id}) &&
           ReadClassesOf(counts.conflicting, resolved.conflicting_predicted_classes(),
                         shape.classes, row.classes.conflicting) &&
           ReadClassesOf(counts.late, resolved.late_predicted_classes(), shape.classes,
                         row.classes.late);
  }
  bool Read(MaturedRow& row) const {
    row.through_log_id = stored.matured().through_log_id();
    const auto& id_hashes = stored.matured().id_hashes();
    row.values.id_hashes.assign(id_hashes.begin(), id_hashes.end());
    return AreCounts({row.through_log_id}) &&
           ReadClasses(stored.matured().missing_predicted_classes(), shape.classes,
                       row.missing_predicted_classes) &&
           ReadValues(labelled(), row.values) &&
           (id_hashes.empty() || row.values.id_hashes.size() == labelled());
  }
  bool Read(RejectedRow& row) const {
    row.rows = stored.rejected().rows();
    return AreCounts({row.rows}) && ReadDropped(stored.rejected(), row.dropped) &&
           !stored.has_values();
  }
  bool Read(AcknowledgedRow& row) const {
    row.alarm_id = stored.acknowledged().alarm_id();
    row.note = stored.acknowledged().note();
    return row.alarm_id > 0 && !stored.has_values();
  }
  bool Read(UpdatedRow& row) const {
    row.update = {.model = stored.updated().model(), .mask = stored.updated().mask()};
    return CheckUpdateMask(row.update.mask).ok() && !stored.has_values();
  }
  bool Read(OpenedRow& /*row*/) const { return !stored.has_values(); }
  bool Read(EndedRow& /*row*/) const { return !stored.has_values(); }

  bool ReadKind(LogRow& row) const {
    switch (stored.kind_case()) {
      case store::v1::LogRow::kOpened:
        return Read(row.kind.emplace<OpenedRow>());
      case store::v1::LogRow::kRejected:
        return Read(row.kind.emplace<RejectedRow>());
      case store::v1::LogRow::kObservations:
        return Read(row.kind.emplace<ObservationsRow>());
      case store::v1::LogRow::kPredictions:
        return Read(row.kind.emplace<PredictionsRow>());
      case store::v1::LogRow::kResolvedLabels:
        return !stored.has_values() && Read(row.kind.emplace<LabelsRow>());
      case store::v1::LogRow::kMatured:
        return Read(row.kind.emplace<MaturedRow>());
      case store::v1::LogRow::kAcknowledged:
        return Read(row.kind.emplace<AcknowledgedRow>());
      case store::v1::LogRow::kEnded:
        return Read(row.kind.emplace<EndedRow>());
      case store::v1::LogRow::kUpdated:
        return Read(row.kind.emplace<UpdatedRow>());
      case store::v1::LogRow::KIND_NOT_SET:
        break;
    }
    return false;
  }

  bool ReadRow(LogRow& row) const {
    row.elapsed = std::chrono::microseconds(stored.elapsed_us());
    row.skipped.rows = stored.skipped_rows();
    if (stored.has_producer()) {
      const store::v1::ProducerPosition& producer = stored.producer();
      row.position = ProducerPosition{.producer_id = producer.producer_id(),
                                      .epoch = producer.epoch(),
                                      .sequence = producer.sequence(),
                                      .request = producer.is_request()};
      row.content_hash = producer.content_hash();
      const std::optional<CursorKey> key = ParseCursorKey(producer.producer_id());
      if (!key.has_value() || key->kind != CursorKey::Kind::kProducer) return false;
    }
    return AreCounts({stored.elapsed_us(), row.skipped.rows}) && stored.producer().epoch() >= 0 &&
           stored.producer().sequence() >= 0 && ReadKind(row);
  }
};

}  // namespace

std::string EncodeRow(const LogRow& row) {
  // Encodes everything except the values.
  store::v1::LogRow out;
  if (row.position.has_value()) {
    store::v1::ProducerPosition& producer = *out.mutable_producer();
    producer.set_producer_id(row.position->producer_id);
    producer.set_epoch(row.position->epoch);
    producer.set_sequence(row.position->sequence);
    producer.set_content_hash(row.content_hash);
    producer.set_is_request(row.position->request);
  }
  out.set_skipped_rows(row.skipped.rows);
  std::visit(KindWriter{out}, row.kind);
  std::string encoded;
  if (const RowValues* const values = row.values()) {
    const ValueSizes sizes(*values);
    encoded.reserve(out.ByteSizeLong() + kRoomToAppend +
                    FieldBytes(store::v1::LogRow::kValuesFieldNumber, sizes.all()));
    out.AppendToString(&encoded);
    AppendValues(*values, sizes, encoded);
  } else {
    encoded.reserve(out.ByteSizeLong() + kRoomToAppend);
    out.AppendToString(&encoded);
  }
  return encoded;
}

void AppendElapsed(std::chrono::microseconds elapsed, std::string& encoded) {
  // In the wire format of protobuf, the concatenation of two messages is one message with the
  // fields of both.
  store::v1::LogRow rest;
  rest.set_elapsed_us(elapsed.count());
  rest.AppendToString(&encoded);
}

bool ParseRow(std::string_view data, store::v1::LogRow& row) {
  return row.ParsePartialFromArray(data.data(), static_cast<int>(data.size()));
}

absl::StatusOr<LogRow> DecodeRow(std::string_view data, const RowShape& shape) {
  store::v1::LogRow stored;
  LogRow row;
  if (!ParseRow(data, stored) || !RowReader{stored, shape}.ReadRow(row)) {
    return MakeError(
        absl::StatusCode::kDataLoss, "STORE_DAMAGED",
        absl::StrCat("a batch of the log is not one of ", shape.width,
                     shape.has_probabilities() ? " classes" : " values for each forecast"));
  }
  return row;
}

}  // namespace calibd::server
