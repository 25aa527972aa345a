#include "kernels/pair_terms.h"

#include <algorithm>
#include <cstddef>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pair_terms.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/row_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Predictions, one per lane: row-major.
struct PairSide {
  const double* rows;
  std::size_t class_count;
  const std::int32_t* labels;
  RowVector y;

  PairSide(const double* first, std::size_t m, const std::int32_t* first_label)
      : rows(first), class_count(m), labels(first_label) {
    y = OfEachLane([this](std::size_t lane) { return static_cast<double>(label(lane)); });
  }

  const double* row(std::size_t lane) const { return rows + lane * class_count; }
  std::int32_t label(std::size_t lane) const { return labels[lane]; }

  HWY_INLINE RowVector Class(std::size_t k) const {
    return OfEachLane([this, k](std::size_t lane) { return row(lane)[k]; });
  }

  // Classes k .. k + kRowLanes - 1.
  HWY_INLINE void Classes(std::size_t k, RowVector* HWY_RESTRICT out) const {
    LoadClasses([this](std::size_t lane) { return row(lane); }, k, out);
  }
};

// Sums class by class in the order of the scalar functions.
template <bool kSquares>
struct PairSums {
  RowVector y_x;
  RowVector y_z;
  RowVector distance[4];
  RowVector others[2];
  // True in lanes where the number of classes since the last label, or since the first class, is
  // odd.
  hn::Mask<RowTag> odd;
  RowVector products;
  RowVector cubes;

  PairSums(RowVector labels_x, RowVector labels_z) : y_x(labels_x), y_z(labels_z) {
    const RowTag d;
    for (RowVector& sum : distance) sum = hn::Zero(d);
    for (RowVector& sum : others) sum = hn::Zero(d);
    odd = hn::MaskFromVec(hn::Zero(d));
    products = hn::Zero(d);
    cubes = hn::Zero(d);
  }

  // p, q: class k of both sides. sum: the sum among the distance's four to which it is added.
  HWY_INLINE void Add(std::size_t k, RowVector p, RowVector q, std::size_t sum) {
    const RowTag d;
    const RowVector difference = hn::Sub(p, q);
    distance[sum] =
        hn::Add(distance[sum], kSquares ? hn::Mul(difference, difference) : hn::Abs(difference));
    const RowVector product = hn::Mul(p, q);
    const RowVector this_class = hn::Set(d, static_cast<double>(k));
    const auto is_label = hn::Or(hn::Eq(this_class, y_x), hn::Eq(this_class, y_z));
    const auto is_even = hn::Not(hn::Or(is_label, odd));
    others[0] = hn::Add(others[0], hn::IfThenElseZero(is_even, product));
    others[1] = hn::Add(others[1], hn::IfThenElseZero(hn::AndNot(is_label, odd), product));
    odd = is_even;
    products = hn::Add(products, product);
    cubes = hn::Add(cubes, hn::Mul(product, hn::Add(p, q)));
  }

  HWY_INLINE RowVector Distance() const {
    return hn::Add(hn::Add(distance[0], distance[1]), hn::Add(distance[2], distance[3]));
  }

  HWY_INLINE RowVector NullTrace() const {
    const RowVector trace = hn::Add(hn::Sub(products, cubes), hn::Mul(products, products));
    return hn::IfThenElseZero(hn::Gt(trace, hn::Zero(RowTag())), trace);
  }
};

// The contribution of the label classes to the product of the residuals.
HWY_INLINE RowVector LabelProduct(const PairSide& x, const PairSide& z) {
  const auto side = [&](const auto& of, const auto& at) {
    return OfEachLane([&](std::size_t lane) { return of.row(lane)[at.label(lane)]; });
  };
  const RowVector one = hn::Set(RowTag(), 1);
  const RowVector own_x = hn::Sub(one, side(x, x));
  const RowVector own_z = hn::Sub(one, side(z, z));
  const RowVector different =
      hn::Neg(hn::Add(hn::Mul(own_x, side(z, x)), hn::Mul(own_z, side(x, z))));
  return hn::IfThenElse(hn::Eq(x.y, z.y), hn::Mul(own_x, own_z), different);
}

template <bool kSquares>
HWY_INLINE void GroupTerms(const PairSide& x, const PairSide& z, std::size_t first,
                           PairTerms& terms) {
  const RowTag d;
  const std::size_t m = x.class_count;
  PairSums<kSquares> sums(x.y, z.y);
  std::size_t k = 0;
  for (; k + 4 <= m; k += 4) {
    for (std::size_t i = 0; i < 4; i += kRowLanes) {
      RowVector p[kRowLanes];
      RowVector q[kRowLanes];
      x.Classes(k + i, p);
      z.Classes(k + i, q);
      for (std::size_t j = 0; j < kRowLanes; ++j) sums.Add(k + i + j, p[j], q[j], i + j);
    }
  }
  if (kRowLanes == 4 && k > 0 && k < m) {
    // The last four classes; some of them were added before.
    RowVector p[kRowLanes];
    RowVector q[kRowLanes];
    x.Classes(m - kRowLanes, p);
    z.Classes(m - kRowLanes, q);
    for (std::size_t j = 0; j < kRowLanes; ++j) {
      if (m - kRowLanes + j == k) sums.Add(k++, p[j], q[j], 0);
    }
  }
  for (; k < m; ++k) sums.Add(k, x.Class(k), z.Class(k), 0);
  hn::StoreU(sums.Distance(), d, &terms.distances[first]);
  hn::StoreU(hn::Add(LabelProduct(x, z), hn::Add(sums.others[0], sums.others[1])), d,
             &terms.residual_products[first]);
  hn::StoreU(sums.NullTrace(), d, &terms.null_traces[first]);
}

// z: one prediction per row of the batch. Returns the number of processed pairs: all, or none if
// there are fewer pairs than lanes.
template <bool kSquares>
HWY_INLINE std::size_t AllTerms(const PredictionBatch& batch, const double* z,
                                const std::int32_t* y_z, PairTerms& terms) {
  const std::size_t m = batch.class_count;
  if (batch.size() < kRowLanes) return 0;
  for (std::size_t group = 0; group < batch.size(); group += kRowLanes) {
    // The last group recomputes some pairs.
    const std::size_t first = std::min(group, batch.size() - kRowLanes);
    GroupTerms<kSquares>(PairSide(&batch.probabilities[first * m], m, &batch.labels[first]),
                         PairSide(z + first * m, m, y_z + first), first, terms);
  }
  return batch.size();
}

std::size_t NeighbourTerms(const PredictionBatch& batch, const double* z, const std::int32_t* y_z,
                           bool squares, PairTerms& terms) {
  return squares ? AllTerms<true>(batch, z, y_z, terms) : AllTerms<false>(batch, z, y_z, terms);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(NeighbourTerms);

void ComputeNeighbourTerms(const PredictionBatch& batch, Distance distance,
                           PairTerms& terms) noexcept {
  const std::size_t pairs = batch.size() - 1;
  const PredictionBatch next = batch.rows(1, pairs);
  const std::size_t done =
      HWY_DYNAMIC_DISPATCH(NeighbourTerms)(batch.rows(0, pairs), next.probabilities.data(),
                                           next.labels.data(), SumsSquares(distance), terms);
  for (std::size_t p = 0; p < done; ++p) {
    terms.distances[p] = DistanceOfSum(distance, terms.distances[p]);
  }
  for (std::size_t p = done; p < pairs; ++p) {
    terms.distances[p] = DistanceOf(distance, batch.row(p), next.row(p));
    terms.residual_products[p] =
        ResidualProduct(batch.row(p), batch.labels[p], next.row(p), next.labels[p]);
    terms.null_traces[p] = NullTrace(batch.row(p), next.row(p));
  }
}

}  // namespace calibd
#endif  // HWY_ONCE
