#include "calibd/convert/recalibration.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/dated_change.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/reading.h"
#include "calibd/core/status_macros.h"

namespace calibd::convert {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kTemperature = "temperature";
constexpr std::string_view kVector = "vector";
constexpr std::string_view kBeta = "beta";
constexpr std::string_view kIsotonic = "isotonic";

std::string_view NameOf(RecalibrationKind kind, std::size_t class_count) {
  switch (kind) {
    case RecalibrationKind::kNone:
      return kNone;
    case RecalibrationKind::kTemperature:
      return kTemperature;
    case RecalibrationKind::kVector:
      return class_count == 2 ? kBeta : kVector;
    case RecalibrationKind::kIsotonic:
      return kIsotonic;
  }
  return kNone;
}

v1::RecalibrationMap ToProto(const RecalibrationMap& map, std::size_t class_count) {
  v1::RecalibrationMap proto;
  proto.set_version(kRecalibrationMapVersion);
  proto.set_kind(std::string(NameOf(static_cast<RecalibrationKind>(map.index()), class_count)));
  proto.set_class_count(static_cast<std::int32_t>(class_count));
  if (const auto* const scaling = std::get_if<TemperatureMap>(&map)) {
    proto.set_temperature(scaling->temperature);
  } else if (const auto* const vector = std::get_if<VectorMap>(&map)) {
    proto.mutable_scales()->Add(vector->scales.begin(), vector->scales.end());
    proto.mutable_offsets()->Add(vector->offsets.begin(), vector->offsets.end());
  } else if (const auto* const isotonic = std::get_if<IsotonicMap>(&map)) {
    for (const IsotonicMap::Curve& curve : isotonic->curves) {
      v1::RecalibrationMap::Curve& out = *proto.add_curves();
      out.mutable_starts()->Add(curve.starts.begin(), curve.starts.end());
      out.mutable_values()->Add(curve.values.begin(), curve.values.end());
    }
  }
  return proto;
}

absl::StatusOr<RecalibrationMap> Parse(const v1::RecalibrationMap& proto) {
  if (proto.kind() == kNone) return IdentityMap{};
  if (proto.kind() == kTemperature) return TemperatureMap{proto.temperature()};
  if (proto.kind() == kVector || proto.kind() == kBeta) {
    return VectorMap{.scales = {proto.scales().begin(), proto.scales().end()},
                     .offsets = {proto.offsets().begin(), proto.offsets().end()}};
  }
  if (proto.kind() == kIsotonic) {
    IsotonicMap map;
    for (const v1::RecalibrationMap::Curve& curve : proto.curves()) {
      map.curves.push_back({.starts = {curve.starts().begin(), curve.starts().end()},
                            .values = {curve.values().begin(), curve.values().end()}});
    }
    return map;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "kind is \"", proto.kind(), "\", expected none, temperature, vector, beta or isotonic"));
}

absl::Status CheckVersion(const v1::RecalibrationMap& proto) {
  if (proto.version() == kRecalibrationMapVersion) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("version is ", proto.version(), ", expected ", kRecalibrationMapVersion));
}

}  // namespace

absl::StatusOr<RecalibrationMap> FromProto(const v1::RecalibrationMap& proto) {
  CALIBD_RETURN_IF_ERROR(CheckVersion(proto));
  if (proto.class_count() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("class_count is ", proto.class_count(), ", expected >= 2",
                     proto.has_level_curve() ? ": the map is for forecasts of a number" : ""));
  }
  CALIBD_ASSIGN_OR_RETURN(RecalibrationMap map, Parse(proto));
  CALIBD_RETURN_IF_ERROR(CheckRecalibrationMap(map, static_cast<std::size_t>(proto.class_count())));
  return map;
}

absl::StatusOr<std::optional<LevelCurve>> LevelCurveFromProto(const v1::RecalibrationMap& proto) {
  CALIBD_RETURN_IF_ERROR(CheckVersion(proto));
  if (proto.class_count() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("class_count is ", proto.class_count(),
                     ", expected 0: the map is for probabilities of classes"));
  }
  if (proto.kind() == kNone) return std::nullopt;
  if (proto.kind() != kIsotonic) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is \"", proto.kind(), "\", expected none or isotonic"));
  }
  const v1::RecalibrationMap::LevelCurve& curve = proto.level_curve();
  LevelCurve map{.levels = {curve.levels().begin(), curve.levels().end()},
                 .shares = {curve.shares().begin(), curve.shares().end()}};
  CALIBD_RETURN_IF_ERROR(CheckLevelCurve(map));
  return map;
}

v1::DatedChange ToProto(const EventChange& change, std::int64_t first_observation,
                        std::int64_t rows) {
  v1::DatedChange proto = ToProto(change.change, first_observation, rows);
  proto.set_event(change.event == 0 ? v1::DatedChange::TOP_LABEL : v1::DatedChange::CLASS_1);
  return proto;
}

namespace {

// What has to be done before a map may help.
std::string ObstacleText(MapObstacle obstacle) {
  switch (obstacle) {
    case MapObstacle::kCertainRows:
      return "no map for probabilities that are all exactly 0 or 1: first send the result of "
             "predict_proba, not that of predict";
    case MapObstacle::kWorseThanChance:
      return absl::StrCat("no map: the model is right less often than by chance; first check ",
                          std::string(kSwappedColumns));
    default:
      return "no map: outcomes of neighbouring rows go together more than the predictions say; "
             "first put sorted rows in random order, and keep one of repeats and one row of each "
             "user";
  }
}

// The coverage error; its gap is that of the widest central interval.
void SetError(const ForecastCoverage& coverage, v1::ErrorInterval& error) {
  error.set_estimate(coverage.error.estimate);
  error.set_lower(coverage.error.lower);
  error.set_upper(coverage.error.upper);
  const CentralCoverage* const widest = coverage.widest();
  if (widest == nullptr) return;
  error.set_gap(widest->promised - widest->coverage);
  error.set_gap_lower(widest->promised - widest->upper);
  error.set_gap_upper(widest->promised - widest->lower);
}

}  // namespace

v1::Recalibration ToProto(const RecalibrationAdvice& advice, std::size_t class_count,
                          const std::string& class_1_name, std::int64_t first_observation,
                          const std::optional<v1::DatedChange>& change) {
  v1::Recalibration proto;
  proto.set_class_1_name(class_1_name);
  proto.set_first_observation(first_observation);
  if (change.has_value()) *proto.mutable_change() = *change;
  *proto.mutable_map() = ToProto(advice.map, class_count);
  proto.set_helps(advice.helps());
  proto.set_fit_observations(static_cast<std::int64_t>(advice.fit_observations));
  proto.set_test_observations(static_cast<std::int64_t>(advice.test_observations));
  for (std::size_t kind = 0; kind < kRecalibrationKinds; ++kind) {
    v1::Recalibration::Candidate& candidate = *proto.add_candidates();
    candidate.set_kind(std::string(NameOf(static_cast<RecalibrationKind>(kind), class_count)));
    candidate.set_cross_validated_log_loss(advice.cross_validated_log_loss.at(kind));
  }
  proto.set_log_loss_before(advice.log_loss_before);
  proto.set_log_loss_after(advice.log_loss_after);
  proto.set_improvement(advice.improvement);
  proto.set_improvement_lower(advice.improvement_lower);
  proto.set_improvement_upper(advice.improvement_upper);
  *proto.mutable_error_before() = ToProto(advice.error_before.top_label);
  *proto.mutable_error_after() = ToProto(advice.error_after.top_label);
  if (advice.error_before.class_1.has_value() && advice.error_after.class_1.has_value()) {
    *proto.mutable_class_1_error_before() = ToProto(*advice.error_before.class_1);
    *proto.mutable_class_1_error_after() = ToProto(*advice.error_after.class_1);
  }
  for (const ReliabilityBlock& block : advice.reliability_before) {
    *proto.add_corp_before() = ToProto(block);
  }
  for (const ReliabilityBlock& block : advice.reliability_after) {
    *proto.add_corp_after() = ToProto(block);
  }
  proto.set_text(advice.obstacle == MapObstacle::kNone ? RecalibrationText(proto)
                                                       : ObstacleText(advice.obstacle));
  return proto;
}

v1::Recalibration ToProto(const ForecastRecalibrationAdvice& advice, std::int64_t first_observation,
                          const std::optional<v1::DatedChange>& change) {
  v1::Recalibration proto;
  proto.set_first_observation(first_observation);
  if (change.has_value()) *proto.mutable_change() = *change;
  v1::RecalibrationMap& map = *proto.mutable_map();
  map.set_version(kRecalibrationMapVersion);
  map.set_kind(std::string(advice.curve.has_value() ? kIsotonic : kNone));
  if (advice.curve.has_value()) {
    v1::RecalibrationMap::LevelCurve& curve = *map.mutable_level_curve();
    curve.mutable_levels()->Add(advice.curve->levels.begin(), advice.curve->levels.end());
    curve.mutable_shares()->Add(advice.curve->shares.begin(), advice.curve->shares.end());
  }
  proto.set_helps(advice.helps());
  proto.set_fit_observations(static_cast<std::int64_t>(advice.fit_observations));
  proto.set_test_observations(static_cast<std::int64_t>(advice.test_observations));
  proto.set_pinball_loss_before(advice.pinball_loss_before);
  proto.set_pinball_loss_after(advice.pinball_loss_after);
  proto.set_improvement(advice.improvement);
  proto.set_improvement_lower(advice.improvement_lower);
  proto.set_improvement_upper(advice.improvement_upper);
  SetError(advice.coverage_before, *proto.mutable_error_before());
  SetError(advice.coverage_after, *proto.mutable_error_after());
  proto.set_text(advice.obstacle == MapObstacle::kNone ? RecalibrationText(proto)
                                                       : ObstacleText(advice.obstacle));
  return proto;
}

}  // namespace calibd::convert
