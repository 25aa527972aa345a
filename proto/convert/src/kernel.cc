#include "calibd/convert/kernel.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "prefixed_error.h"

namespace calibd::convert {
namespace {

constexpr int kMaxMatrixTerms = 16;
// The eigenvalues are computed on the calling thread, which takes some milliseconds.
constexpr std::size_t kMaxMatrixEntries = 16384;

constexpr std::pair<v1::ExponentialKernel::Distance, Distance> kDistances[] = {
    {v1::ExponentialKernel::TOTAL_VARIATION, Distance::kTotalVariation},
    {v1::ExponentialKernel::CITYBLOCK, Distance::kCityblock},
    {v1::ExponentialKernel::EUCLIDEAN, Distance::kEuclidean},
    {v1::ExponentialKernel::SQUARED_EUCLIDEAN, Distance::kSquaredEuclidean}};

// Sets the family in a v1.Kernel or a v1.MatrixKernel.Term.
template <typename Proto>
void SetFamily(Distance distance, Proto& proto) {
  if (distance == Distance::kSquaredEuclidean) {
    proto.mutable_gaussian();
  } else {
    proto.mutable_exponential()->set_distance(convert::ToProto(distance));
  }
}

// The distance of an exponential kernel, which must not be the squared Euclidean distance.
absl::StatusOr<Distance> ExponentialDistance(const std::string& field,
                                             const v1::ExponentialKernel& exponential) {
  absl::StatusOr<Distance> distance = convert::FromProto(exponential.distance());
  if (distance.ok() && *distance == Distance::kSquaredEuclidean) {
    distance =
        absl::InvalidArgumentError("is SQUARED_EUCLIDEAN, expected the gaussian kernel for it");
  }
  if (!distance.ok()) return PrefixedError(field + ".exponential.distance ", distance.status());
  return *distance;
}

absl::StatusOr<MatrixKernel::Term> FromProto(const std::string& field,
                                             const v1::MatrixKernel::Term& proto) {
  Distance distance = Distance::kSquaredEuclidean;
  if (!proto.has_gaussian()) {
    CALIBD_ASSIGN_OR_RETURN(distance, ExponentialDistance(field, proto.exponential()));
  }
  const absl::StatusOr<Kernel> kernel = Kernel::Over(distance, proto.bandwidth());
  if (!kernel.ok()) return PrefixedError(field + ".", kernel.status());
  return MatrixKernel::Term{*kernel, {proto.matrix().begin(), proto.matrix().end()}};
}

absl::StatusOr<std::shared_ptr<const MatrixKernel>> FromProto(const v1::MatrixKernel& proto,
                                                              std::size_t class_count) {
  if (proto.terms_size() > kMaxMatrixTerms) {
    return absl::InvalidArgumentError(absl::StrCat("kernel.matrix.terms has ", proto.terms_size(),
                                                   " terms, expected 1..", kMaxMatrixTerms));
  }
  std::vector<MatrixKernel::Term> terms;
  std::size_t entries = 0;
  for (int l = 0; l < proto.terms_size(); ++l) {
    CALIBD_ASSIGN_OR_RETURN(
        MatrixKernel::Term term,
        FromProto(absl::StrCat("kernel.matrix.terms[", l, "]"), proto.terms(l)));
    entries += term.matrix.size();
    terms.push_back(std::move(term));
  }
  if (entries > kMaxMatrixEntries) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernel.matrix has ", entries, " entries, expected at most ", kMaxMatrixEntries));
  }
  absl::StatusOr<MatrixKernel> kernel = MatrixKernel::Create(std::move(terms), class_count);
  if (!kernel.ok()) return PrefixedError("kernel.matrix.", kernel.status());
  return std::make_shared<const MatrixKernel>(*std::move(kernel));
}

BandwidthRule FromProto(const v1::BandwidthRule& proto) {
  BandwidthRule rule;
  switch (proto.rule_case()) {
    case v1::BandwidthRule::kFixed:
      rule.kind = BandwidthRule::Kind::kFixed;
      rule.fixed = proto.fixed();
      break;
    case v1::BandwidthRule::RULE_NOT_SET:
    case v1::BandwidthRule::kMedian:
      break;
    case v1::BandwidthRule::kMedianOffDiagonal:
      rule.kind = BandwidthRule::Kind::kMedianOffDiagonal;
      break;
    case v1::BandwidthRule::kMeanTotalVariation:
      rule.kind = BandwidthRule::Kind::kMeanTotalVariation;
      rule.alpha.assign(proto.mean_total_variation().alpha().begin(),
                        proto.mean_total_variation().alpha().end());
      break;
  }
  return rule;
}

void Put(const CanonicalLens& /*lens*/, v1::Lens& out) { out.mutable_canonical(); }
void Put(const TopLabelLens& /*lens*/, v1::Lens& out) { out.mutable_top_label(); }
void Put(const ClassWiseLens& /*lens*/, v1::Lens& out) { out.mutable_class_wise(); }
void Put(const OneClassLens& lens, v1::Lens& out) {
  out.mutable_one_class()->set_class_index(static_cast<std::int32_t>(lens.k));
}
void Put(const TopKLens& lens, v1::Lens& out) {
  out.mutable_top_k()->set_k(static_cast<std::int32_t>(lens.k));
}
void Put(const GroupedLens& lens, v1::Lens& out) {
  out.mutable_grouped()->mutable_group_of_class()->Add(lens.group_of_class.begin(),
                                                       lens.group_of_class.end());
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
    case v1::Lens::kOneClass:
      if (proto.one_class().class_index() < 0) {
        return absl::InvalidArgumentError(absl::StrCat("class is ", proto.one_class().class_index(),
                                                       ", expected [0, ", class_count, ")"));
      }
      lens = Lens::OneClass(static_cast<std::size_t>(proto.one_class().class_index()));
      break;
  }
  CALIBD_RETURN_IF_ERROR(lens.Check(class_count));
  return lens;
}

v1::Lens ToProto(const Lens& lens) {
  v1::Lens proto;
  std::visit([&proto](const auto& kind) { Put(kind, proto); }, lens.kind());
  return proto;
}

absl::StatusOr<KernelSpec> FromProto(const v1::Kernel& kernel, const v1::BandwidthRule& bandwidth,
                                     std::size_t class_count) {
  KernelSpec spec;
  if (kernel.has_matrix()) {
    if (bandwidth.rule_case() != v1::BandwidthRule::RULE_NOT_SET) {
      return absl::InvalidArgumentError(
          "bandwidth is given, expected none: the terms of a matrix-valued kernel bring theirs");
    }
    CALIBD_ASSIGN_OR_RETURN(spec.matrix, FromProto(kernel.matrix(), class_count));
    return spec;
  }
  if (kernel.has_gaussian()) {
    spec.rule.distance = Distance::kSquaredEuclidean;
  } else {
    CALIBD_ASSIGN_OR_RETURN(spec.rule.distance,
                            ExponentialDistance("kernel", kernel.exponential()));
  }
  spec.rule.bandwidth = FromProto(bandwidth);
  if (const absl::Status status = CheckKernelRule(spec.rule, class_count); !status.ok()) {
    if (bandwidth.has_fixed()) {
      return absl::InvalidArgumentError(
          absl::StrCat("bandwidth.fixed is ", bandwidth.fixed(), ", expected a finite number > 0"));
    }
    return PrefixedError("bandwidth.mean_total_variation.", status);
  }
  return spec;
}

v1::Kernel KernelToProto(const KernelSpec& spec) {
  v1::Kernel proto;
  if (spec.matrix == nullptr) {
    SetFamily(spec.rule.distance, proto);
    return proto;
  }
  for (const MatrixKernel::Term& term : spec.matrix->terms()) {
    v1::MatrixKernel::Term& out = *proto.mutable_matrix()->add_terms();
    SetFamily(term.kernel.distance(), out);
    out.set_bandwidth(term.kernel.bandwidth());
    out.mutable_matrix()->Add(term.matrix.begin(), term.matrix.end());
  }
  return proto;
}

v1::BandwidthRule BandwidthToProto(const BandwidthRule& rule, std::size_t observations) {
  v1::BandwidthRule proto;
  switch (rule.kind) {
    case BandwidthRule::Kind::kFixed:
      proto.set_fixed(rule.fixed);
      break;
    case BandwidthRule::Kind::kMedian:
      proto.mutable_median()->set_warmup(static_cast<std::int32_t>(observations));
      break;
    case BandwidthRule::Kind::kMedianOffDiagonal:
      proto.mutable_median_off_diagonal()->set_warmup(static_cast<std::int32_t>(observations));
      break;
    case BandwidthRule::Kind::kMeanTotalVariation:
      proto.mutable_mean_total_variation()->mutable_alpha()->Add(rule.alpha.begin(),
                                                                 rule.alpha.end());
      break;
  }
  return proto;
}

absl::StatusOr<Distance> FromProto(v1::ExponentialKernel::Distance proto) {
  if (proto == v1::ExponentialKernel::UNSPECIFIED) return Distance::kTotalVariation;
  for (const auto& [wire, distance] : kDistances) {
    if (wire == proto) return distance;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is ", static_cast<int>(proto),
                   ", expected a value of calibd.v1.ExponentialKernel.Distance"));
}

v1::ExponentialKernel::Distance ToProto(Distance distance) {
  return std::find_if(std::begin(kDistances), std::end(kDistances),
                      [distance](const auto& pair) { return pair.second == distance; })
      ->first;
}

}  // namespace calibd::convert
