#ifndef CALIBD_CORE_LENS_H_
#define CALIBD_CORE_LENS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// The whole vector: m classes, one part.
struct CanonicalLens {
  friend bool operator==(const CanonicalLens&, const CanonicalLens&) = default;
};
// Lenses through which each part is a number in [0, 1].
struct ScalarLens {
  friend bool operator==(const ScalarLens&, const ScalarLens&) = default;
};
// c = max_k g_k (the first on ties), b = [y = argmax]: the two classes "right" and "wrong" with (c,
// 1 - c), weight 1/2, so that h = (b - c)(b' - c') k(c, c'), the term of MMCE^2 (Kumar, Sarawagi &
// Jain, ICML 2018). Looks only at the largest probability.
struct TopLabelLens : ScalarLens {};
// Each class k against the rest: m parts of two classes, (g_k, 1 - g_k), weight 1/2, so that h =
// sum_k ([y = k] - g_k)([y' = k] - g'_k) k(g_k, g'_k). Cannot detect errors in the joint
// distribution of classes.
struct ClassWiseLens : ScalarLens {};
// One class of the class-wise lens: one part. k: 0-based.
struct OneClassLens : ScalarLens {
  std::size_t k = 0;

  friend bool operator==(const OneClassLens&, const OneClassLens&) = default;
};
// The k largest probabilities, descending (the first class on ties), and the rest: k + 1 classes.
// Cannot detect confusion within the rest, or which classes have the largest probabilities. k: at
// least 1, and less than the number of classes.
struct TopKLens {
  std::size_t k = 0;

  friend bool operator==(const TopKLens&, const TopKLens&) = default;
};
// Probabilities summed over groups of classes. group_of_class: for each class its group, 0-based
// without gaps, at least two groups. Cannot detect errors within a group.
struct GroupedLens {
  std::vector<std::int32_t> group_of_class;

  friend bool operator==(const GroupedLens&, const GroupedLens&) = default;
};

// A lens selects the aspect of a prediction that is tested. It maps a labelled prediction to one or
// more labelled predictions over fewer classes, whose terms are summed and weighted:
//   h = weight sum_parts h_part,
// so that every estimator and test applies to every lens. Source: Widmann, Lindsten &
// Zachariah, NeurIPS 2019, Sec. 3.2 and App. I.2; Marx, Zalouk & Ermon, NeurIPS 2023,
// Table 2.
class Lens {
 public:
  // The table in lens.cc has a row with the names of each kind.
  using Kind =
      std::variant<CanonicalLens, TopLabelLens, ClassWiseLens, OneClassLens, TopKLens, GroupedLens>;

  [[nodiscard]] static Lens Canonical() { return Lens(CanonicalLens()); }
  [[nodiscard]] static Lens TopLabel() { return Lens(TopLabelLens()); }
  [[nodiscard]] static Lens ClassWise() { return Lens(ClassWiseLens()); }
  [[nodiscard]] static Lens OneClass(std::size_t k) { return Lens(OneClassLens{{}, k}); }
  [[nodiscard]] static Lens TopK(std::size_t k) { return Lens(TopKLens{k}); }
  [[nodiscard]] static Lens Grouped(std::vector<std::int32_t> group_of_class) {
    return Lens(GroupedLens{std::move(group_of_class)});
  }
  // Reads a lens as Syntax() says, e.g. "top_k:5". Errors: InvalidArgument quoting `text`.
  // Whether the lens fits a model is not known here.
  [[nodiscard]] static absl::StatusOr<Lens> Parse(absl::string_view text);
  // How a lens is written, for help texts and errors.
  [[nodiscard]] static std::string Syntax();

  // Errors: InvalidArgument if the lens does not fit a model of m classes.
  [[nodiscard]] absl::Status Check(std::size_t class_count) const;

  [[nodiscard]] const Kind& kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_canonical() const noexcept {
    return std::holds_alternative<CanonicalLens>(kind_);
  }
  // "canonical", "top_label", "class_wise", "class_wise[3]", "top_k[5]", "grouped".
  [[nodiscard]] std::string name() const;
  // True if the lens reduces a prediction to a number in [0, 1]. The kernel's distance is then
  // |c - c'|, and kScalarBandwidth is the customary bandwidth.
  [[nodiscard]] bool is_scalar() const noexcept;
  [[nodiscard]] std::size_t parts(std::size_t class_count) const noexcept;
  // The number of classes of each part.
  [[nodiscard]] std::size_t reduced_class_count(std::size_t class_count) const noexcept;
  [[nodiscard]] double weight() const noexcept { return is_scalar() ? 0.5 : 1.0; }
  // B: |h| is at most this for a kernel of supremum 1.
  [[nodiscard]] double DistributionFreeBound() const noexcept;

  // Writes parts x reduced_class_count probabilities and `parts` labels. The lens fits.
  // order: scratch of ScratchSize(m) values.
  void Reduce(std::span<const double> g, std::int32_t y, std::span<double> probabilities,
              std::span<std::int32_t> labels, std::span<std::uint32_t> order) const noexcept;
  [[nodiscard]] std::size_t ScratchSize(std::size_t class_count) const noexcept {
    return std::holds_alternative<TopKLens>(kind_) ? class_count : 0;
  }

  friend bool operator==(const Lens&, const Lens&) = default;

 private:
  explicit Lens(Kind kind) : kind_(std::move(kind)) {}

  Kind kind_;
};

// Returns the errors that a lens cannot detect, as the end of a sentence. name: Lens::name().
[[nodiscard]] absl::string_view BlindSpot(absl::string_view name) noexcept;

// Bandwidth of the scalar lenses, in units of |c - c'|, as in Kumar et al. 2018.
inline constexpr double kScalarBandwidth = 0.4;

// A batch after reduction by a lens; see Lens.
struct LensBatch {
  // At least one, all of the same n observations in the same order.
  std::vector<PredictionSet> parts;
  double weight = 1;
  // B of the weighted sum.
  double bound = 2;

  [[nodiscard]] std::size_t size() const noexcept { return parts.front().labels.size(); }
  [[nodiscard]] std::vector<PredictionBatch> views() const;
};

// batch: valid. Errors: InvalidArgument if the lens does not fit. Cost: O(n m), or O(n m log m) for
// top_k; memory 2 n m for the class-wise lens, else n x reduced classes.
[[nodiscard]] absl::StatusOr<LensBatch> ApplyLens(const PredictionBatch& batch, const Lens& lens);

}  // namespace calibd

#endif  // CALIBD_CORE_LENS_H_
