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

// Where the pairs of a batch are, and what is computed.
struct Neighbours {
  static constexpr std::size_t kStep = 1;
  static constexpr bool kNullTraces = true;
};
struct Separate {
  static constexpr std::size_t kStep = 2;
  static constexpr bool kNullTraces = false;
};

// Predictions, one per lane: every kStep-th row.
template <std::size_t kStep>
struct PairSide {
  const double* rows;
  std::size_t class_count;
  const std::int32_t* labels;
  RowVector y;

  // first: the row of the first lane.
  PairSide(const PredictionBatch& batch, std::size_t first)
      : rows(batch.probabilities.data() + first * batch.class_count),
        class_count(batch.class_count),
        labels(batch.labels.data() + first) {
    y = OfEachLane([this](std::size_t lane) { return static_cast<double>(label(lane)); });
  }

  const double* row(std::size_t lane) const { return rows + lane * kStep * class_count; }
  std::int32_t label(std::size_t lane) const { return labels[lane * kStep]; }

  HWY_INLINE RowVector Class(std::size_t k) const {
    return OfEachLane([this, k](std::size_t lane) { return row(lane)[k]; });
  }

  // Classes k .. k + kRowLanes - 1.
  HWY_INLINE void Classes(std::size_t k, RowVector* HWY_RESTRICT out) const {
    LoadClasses([this](std::size_t lane) { return row(lane); }, k, out);
  }
};

// Sums class by class in the order of the scalar functions.
template <bool kSquares, bool kNullTraces>
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
    distance[sum] = hn::Add(distance[sum], Difference(p, q));
    const RowVector product = hn::Mul(p, q);
    const RowVector this_class = hn::Set(d, static_cast<double>(k));
    const auto is_label = hn::Or(hn::Eq(this_class, y_x), hn::Eq(this_class, y_z));
    const auto is_even = hn::Not(hn::Or(is_label, odd));
    others[0] = hn::Add(others[0], hn::IfThenElseZero(is_even, product));
    others[1] = hn::Add(others[1], hn::IfThenElseZero(hn::AndNot(is_label, odd), product));
    odd = is_even;
    if constexpr (kNullTraces) {
      products = hn::Add(products, product);
      cubes = hn::Add(cubes, hn::Mul(product, hn::Add(p, q)));
    }
  }

#if HWY_TARGET != HWY_SCALAR
  // Adds classes k .. end - 1, a multiple of four, to all sums but those of the null traces. Four
  // lanes; none of these classes is a label. A vector has four classes of one prediction, which
  // need not be exchanged between the lanes.
  template <typename Side>
  HWY_INLINE void AddWithoutLabels(const Side& x, const Side& z, std::size_t k, std::size_t end) {
    const RowTag d;
    // The four sums of the distance of each pair.
    TransposeFour(distance);
    // The sum to which the next class is added, and the other one, of pairs 0 and 2, and 1 and 3.
    const RowVector first = hn::IfThenElse(odd, others[1], others[0]);
    const RowVector second = hn::IfThenElse(odd, others[0], others[1]);
    RowVector even_pairs = hn::InterleaveLower(d, first, second);
    RowVector odd_pairs = hn::InterleaveUpper(d, first, second);
    for (; k < end; k += 4) {
      RowVector product[4];
      for (std::size_t pair = 0; pair < 4; ++pair) {
        const RowVector p = hn::LoadU(d, x.row(pair) + k);
        const RowVector q = hn::LoadU(d, z.row(pair) + k);
        distance[pair] = hn::Add(distance[pair], Difference(p, q));
        product[pair] = hn::Mul(p, q);
      }
      even_pairs = hn::Add(even_pairs, hn::ConcatLowerLower(d, product[2], product[0]));
      odd_pairs = hn::Add(odd_pairs, hn::ConcatLowerLower(d, product[3], product[1]));
      even_pairs = hn::Add(even_pairs, hn::ConcatUpperUpper(d, product[2], product[0]));
      odd_pairs = hn::Add(odd_pairs, hn::ConcatUpperUpper(d, product[3], product[1]));
    }
    TransposeFour(distance);
    const RowVector next = hn::InterleaveLower(d, even_pairs, odd_pairs);
    const RowVector other = hn::InterleaveUpper(d, even_pairs, odd_pairs);
    others[0] = hn::IfThenElse(odd, other, next);
    others[1] = hn::IfThenElse(odd, next, other);
  }
#endif

  static HWY_INLINE RowVector Difference(RowVector p, RowVector q) {
    const RowVector difference = hn::Sub(p, q);
    return kSquares ? hn::Mul(difference, difference) : hn::Abs(difference);
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
template <typename Side>
HWY_INLINE RowVector LabelProduct(const Side& x, const Side& z) {
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

// With fewer classes, most groups of four have a label.
constexpr std::size_t kMinClassesBetweenLabels = 32;

// The first multiple of four from k on whose four classes contain a label, or else the last one up
// to m.
template <typename Side>
HWY_INLINE std::size_t NextLabelGroup(const Side& x, const Side& z, std::size_t k) {
  std::size_t next = x.class_count;
  for (std::size_t lane = 0; lane < kRowLanes; ++lane) {
    for (const std::int32_t label : {x.label(lane), z.label(lane)}) {
      const auto at = static_cast<std::size_t>(label);
      next = at >= k ? std::min(next, at) : next;
    }
  }
  return next / 4 * 4;
}

template <bool kSquares, typename Pairs>
HWY_INLINE void GroupTerms(const PredictionBatch& batch, std::size_t first, PairTerms& terms) {
  const RowTag d;
  const PairSide<Pairs::kStep> x(batch, first * Pairs::kStep);
  const PairSide<Pairs::kStep> z(batch, first * Pairs::kStep + 1);
  const std::size_t m = x.class_count;
  PairSums<kSquares, Pairs::kNullTraces> sums(x.y, z.y);
  std::size_t k = 0;
  while (k + 4 <= m) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kRowLanes == 4 && !Pairs::kNullTraces) {
      if (m >= kMinClassesBetweenLabels) {
        const std::size_t end = NextLabelGroup(x, z, k);
        if (k < end) sums.AddWithoutLabels(x, z, k, end);
        k = end;
        if (k + 4 > m) break;
      }
    }
#endif
    for (std::size_t i = 0; i < 4; i += kRowLanes) {
      RowVector p[kRowLanes];
      RowVector q[kRowLanes];
      x.Classes(k + i, p);
      z.Classes(k + i, q);
      for (std::size_t j = 0; j < kRowLanes; ++j) sums.Add(k + i + j, p[j], q[j], i + j);
    }
    k += 4;
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
  if constexpr (Pairs::kNullTraces) hn::StoreU(sums.NullTrace(), d, &terms.null_traces[first]);
}

// Returns the number of processed pairs: all, or none if there are fewer pairs than lanes.
template <bool kSquares, typename Pairs>
HWY_INLINE std::size_t AllTerms(const PredictionBatch& batch, std::size_t pairs, PairTerms& terms) {
  if (pairs < kRowLanes) return 0;
  for (std::size_t group = 0; group < pairs; group += kRowLanes) {
    // The last group recomputes some pairs.
    GroupTerms<kSquares, Pairs>(batch, std::min(group, pairs - kRowLanes), terms);
  }
  return pairs;
}

std::size_t NeighbourTerms(const PredictionBatch& batch, std::size_t pairs, bool squares,
                           PairTerms& terms) {
  return squares ? AllTerms<true, Neighbours>(batch, pairs, terms)
                 : AllTerms<false, Neighbours>(batch, pairs, terms);
}

std::size_t SeparateTerms(const PredictionBatch& batch, std::size_t pairs, bool squares,
                          PairTerms& terms) {
  return squares ? AllTerms<true, Separate>(batch, pairs, terms)
                 : AllTerms<false, Separate>(batch, pairs, terms);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(NeighbourTerms);
HWY_EXPORT(SeparateTerms);

namespace {

// done: the number of pairs whose sums of differences and products are known. step: the rows from
// one pair to the next.
void CompleteTerms(const PredictionBatch& batch, Distance distance, std::size_t done,
                   std::size_t pairs, std::size_t step, PairTerms& terms) noexcept {
  for (std::size_t p = 0; p < done; ++p) {
    terms.distances[p] = DistanceOfSum(distance, terms.distances[p]);
  }
  for (std::size_t p = done; p < pairs; ++p) {
    const std::size_t i = p * step;
    terms.distances[p] = DistanceOf(distance, batch.row(i), batch.row(i + 1));
    terms.residual_products[p] =
        ResidualProduct(batch.row(i), batch.labels[i], batch.row(i + 1), batch.labels[i + 1]);
    if (step == 1) terms.null_traces[p] = NullTrace(batch.row(i), batch.row(i + 1));
  }
}

}  // namespace

void ComputeNeighbourTerms(const PredictionBatch& batch, Distance distance,
                           PairTerms& terms) noexcept {
  const std::size_t pairs = batch.size() - 1;
  const std::size_t done =
      HWY_DYNAMIC_DISPATCH(NeighbourTerms)(batch, pairs, SumsSquares(distance), terms);
  CompleteTerms(batch, distance, done, pairs, 1, terms);
}

void ComputeSeparateTerms(const PredictionBatch& batch, Distance distance,
                          PairTerms& terms) noexcept {
  const std::size_t pairs = batch.size() / 2;
  const std::size_t done =
      HWY_DYNAMIC_DISPATCH(SeparateTerms)(batch, pairs, SumsSquares(distance), terms);
  CompleteTerms(batch, distance, done, pairs, 2, terms);
}

}  // namespace calibd
#endif  // HWY_ONCE
