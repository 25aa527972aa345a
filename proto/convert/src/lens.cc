#include "calibd/convert/lens.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "calibd/core/hypothesis_test.h"

namespace calibd::convert {
namespace {

constexpr double kConfidenceLevel = 0.95;

void ToProto(const NoiseFloor& floor, v1::NoiseFloor& proto) {
  proto.set_mean(floor.mean);
  proto.set_standard_deviation(floor.standard_deviation);
  proto.set_upper_quantile(floor.upper_quantile);
}

}  // namespace

absl::StatusOr<Lens> FromProto(const v1::Lens& proto, std::size_t class_count) {
  Lens lens = Lens::Canonical();
  switch (proto.kind_case()) {
    case v1::Lens::KIND_NOT_SET:
    case v1::Lens::kCanonical:
      break;
    case v1::Lens::kTopLabel:
      lens = Lens::TopLabel();
      break;
    case v1::Lens::kClassWise:
      lens = Lens::ClassWise();
      break;
    case v1::Lens::kTopK:
      lens = Lens::TopK(static_cast<std::size_t>(std::max(proto.top_k().k(), 0)));
      break;
    case v1::Lens::kGrouped:
      lens = Lens::Grouped(
          {proto.grouped().group_of_class().begin(), proto.grouped().group_of_class().end()});
      break;
  }
  if (const absl::Status status = lens.Check(class_count); !status.ok()) return status;
  return lens;
}

void ToProto(const Lens& lens, const LensTestResult& result, v1::QuadraticTestResult& proto) {
  const BootstrapTestResult& test = result.test;
  v1::Provenance& provenance = *proto.mutable_provenance();
  provenance.set_lens(lens.name());
  provenance.set_bandwidth(result.bandwidth);
  if (result.bandwidth_is_median) {
    provenance.mutable_bandwidth_rule()->mutable_median()->set_warmup(
        static_cast<std::int32_t>(test.skce.n));
  } else if (lens.is_scalar() || !provenance.has_bandwidth_rule()) {
    provenance.mutable_bandwidth_rule()->set_fixed(result.bandwidth);
  }
  proto.set_skce_biased(test.skce.biased);
  proto.set_skce_unbiased(test.skce.unbiased);
  proto.set_statistic(test.statistic);
  proto.set_p_value(test.p_value);
  proto.set_replicates(test.replicates);
  proto.set_exceedances(test.exceedances);
  proto.set_seed(test.seed);
  proto.set_p_value_upper_bound_biased(
      BiasedPValueUpperBound(test.skce.biased, test.skce.n, result.bound));
  proto.set_p_value_upper_bound_unbiased(
      UnbiasedPValueUpperBound(test.skce.unbiased, test.skce.n, result.bound));
  proto.set_replicate_mean(test.replicate_mean);
  proto.set_replicate_standard_deviation(test.replicate_standard_deviation);
  if (result.null_moments.has_value()) {
    ToProto(result.null_moments->Biased(), *proto.mutable_noise_floor_biased());
    ToProto(result.null_moments->Unbiased(), *proto.mutable_noise_floor_unbiased());
  }
  const double kce = std::sqrt(test.skce.biased);
  const double deviation = KceDeviation(test.skce.n, result.bound, kConfidenceLevel);
  proto.set_kce_lower_bound(std::max(0.0, kce - deviation));
  proto.set_kce_upper_bound(kce + deviation);
}

}  // namespace calibd::convert
