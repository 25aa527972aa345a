#include "calibd/core/lens.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd {

Lens Lens::OneClass(std::size_t k) {
  Lens lens(Kind::kClassWise);
  lens.one_class_ = true;
  lens.k_ = k;
  return lens;
}

Lens Lens::TopK(std::size_t k) {
  Lens lens(Kind::kTopK);
  lens.k_ = k;
  return lens;
}

Lens Lens::Grouped(std::vector<std::int32_t> group_of_class) {
  Lens lens(Kind::kGrouped);
  lens.group_of_class_ = std::move(group_of_class);
  const auto largest = std::max_element(lens.group_of_class_.begin(), lens.group_of_class_.end());
  lens.k_ = largest == lens.group_of_class_.end() || *largest < 0
                ? 0
                : static_cast<std::size_t>(*largest) + 1;
  return lens;
}

absl::Status Lens::Check(std::size_t class_count) const {
  switch (kind_) {
    case Kind::kCanonical:
    case Kind::kTopLabel:
      return absl::OkStatus();
    case Kind::kClassWise:
      if (!one_class_ || k_ < class_count) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("class is ", k_, ", expected [0, ", class_count, ")"));
    case Kind::kTopK:
      if (k_ >= 1 && k_ < class_count) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("top_k is ", k_, ", expected 1..", class_count - 1));
    case Kind::kGrouped:
      break;
  }
  if (group_of_class_.size() != class_count) {
    return absl::InvalidArgumentError(absl::StrCat("groups has ", group_of_class_.size(),
                                                   " entries, expected ", class_count,
                                                   ", one for each class"));
  }
  std::vector<bool> seen(std::min(k_, class_count));
  for (std::size_t k = 0; k < class_count; ++k) {
    const std::int32_t group = group_of_class_[k];
    if (group < 0 || static_cast<std::size_t>(group) >= seen.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups[", k, "] is ", group, ", expected [0, ", class_count, ")"));
    }
    seen[static_cast<std::size_t>(group)] = true;
  }
  const auto gap = std::find(seen.begin(), seen.end(), false);
  if (gap != seen.end() || k_ < 2) {
    return absl::InvalidArgumentError(
        gap == seen.end() ? std::string("groups holds 1 group, expected at least 2")
                          : absl::StrCat("groups has no class in group ", gap - seen.begin(),
                                         ", expected groups without gaps"));
  }
  return absl::OkStatus();
}

std::string Lens::name() const {
  switch (kind_) {
    case Kind::kCanonical:
      return "canonical";
    case Kind::kTopLabel:
      return "top_label";
    case Kind::kClassWise:
      return one_class_ ? absl::StrCat("class_wise[", k_, "]") : "class_wise";
    case Kind::kTopK:
      return absl::StrCat("top_k[", k_, "]");
    case Kind::kGrouped:
      return "grouped";
  }
  return "";
}

bool Lens::is_scalar() const noexcept {
  return kind_ == Kind::kTopLabel || kind_ == Kind::kClassWise;
}

std::size_t Lens::parts(std::size_t class_count) const noexcept {
  return kind_ == Kind::kClassWise && !one_class_ ? class_count : 1;
}

std::size_t Lens::reduced_class_count(std::size_t class_count) const noexcept {
  switch (kind_) {
    case Kind::kCanonical:
      return class_count;
    case Kind::kTopLabel:
    case Kind::kClassWise:
      return 2;
    case Kind::kTopK:
      return k_ + 1;
    case Kind::kGrouped:
      return k_;
  }
  return class_count;
}

double Lens::DistributionFreeBound() const noexcept {
  // A scalar residual is at most 1; a sum over all classes is at most |d| |d'| <= 2.
  const bool one_number = kind_ == Kind::kTopLabel || one_class_;
  return one_number ? 1.0 : 2.0;
}

void Lens::Reduce(std::span<const double> g, std::int32_t y, std::span<double> probabilities,
                  std::span<std::int32_t> labels, std::span<std::uint32_t> order) const noexcept {
  const auto label = static_cast<std::size_t>(y);
  const auto set_scalar = [&](std::size_t part, std::size_t k) {
    probabilities[2 * part] = g[k];
    probabilities[2 * part + 1] = 1 - g[k];
    labels[part] = k == label ? 0 : 1;
  };
  switch (kind_) {
    case Kind::kCanonical:
      std::copy(g.begin(), g.end(), probabilities.begin());
      labels[0] = y;
      return;
    case Kind::kTopLabel:
      set_scalar(0, static_cast<std::size_t>(std::max_element(g.begin(), g.end()) - g.begin()));
      return;
    case Kind::kClassWise:
      if (one_class_) {
        set_scalar(0, k_);
      } else {
        for (std::size_t k = 0; k < g.size(); ++k) set_scalar(k, k);
      }
      return;
    case Kind::kTopK: {
      std::iota(order.begin(), order.end(), 0U);
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(k_);
      std::partial_sort(order.begin(), end, order.end(), [g](std::uint32_t a, std::uint32_t b) {
        return g[a] != g[b] ? g[a] > g[b] : a < b;
      });
      const auto found = std::find(order.begin(), end, label);
      labels[0] = static_cast<std::int32_t>(found - order.begin());
      for (std::size_t rank = 0; rank < k_; ++rank) probabilities[rank] = g[order[rank]];
      double rest = 0;
      for (auto at = end; at != order.end(); ++at) rest += g[*at];
      probabilities[k_] = rest;
      return;
    }
    case Kind::kGrouped:
      std::fill(probabilities.begin(), probabilities.end(), 0.0);
      for (std::size_t k = 0; k < g.size(); ++k) {
        probabilities[static_cast<std::size_t>(group_of_class_[k])] += g[k];
      }
      labels[0] = group_of_class_[label];
      return;
  }
}

std::vector<PredictionBatch> LensBatch::views() const {
  std::vector<PredictionBatch> views;
  views.reserve(parts.size());
  for (const PredictionSet& part : parts) views.push_back(part.view());
  return views;
}

absl::StatusOr<LensBatch> ApplyLens(const PredictionBatch& batch, const Lens& lens) {
  if (const absl::Status status = lens.Check(batch.class_count); !status.ok()) return status;
  const std::size_t n = batch.size();
  const std::size_t parts = lens.parts(batch.class_count);
  const std::size_t m = lens.reduced_class_count(batch.class_count);
  LensBatch reduced;
  reduced.weight = lens.weight();
  reduced.bound = lens.DistributionFreeBound();
  reduced.parts.resize(parts);
  for (PredictionSet& part : reduced.parts) {
    part.class_count = m;
    part.probabilities.resize(n * m);
    part.labels.resize(n);
  }
  std::vector<double> probabilities(parts * m);
  std::vector<std::int32_t> labels(parts);
  std::vector<std::uint32_t> order(lens.ScratchSize(batch.class_count));
  for (std::size_t i = 0; i < n; ++i) {
    lens.Reduce(batch.row(i), batch.labels[i], probabilities, labels, order);
    for (std::size_t part = 0; part < parts; ++part) {
      std::copy_n(&probabilities[part * m], m, &reduced.parts[part].probabilities[i * m]);
      reduced.parts[part].labels[i] = labels[part];
    }
  }
  return reduced;
}

}  // namespace calibd
