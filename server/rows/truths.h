#ifndef CALIBD_SERVER_ROWS_TRUTHS_H_
#define CALIBD_SERVER_ROWS_TRUTHS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/model/row_shape.h"

namespace calibd::server {

// The truths of n predictions: the same number of labels of each, row-major, or one outcome of
// each. A view; the other span is empty.
struct TruthView {
  std::span<const std::int32_t> labels{};
  std::span<const double> outcomes{};
  // Number of labels of a prediction, >= 1.
  std::size_t each = 1;

  [[nodiscard]] std::size_t size() const noexcept { return labels.size() / each + outcomes.size(); }
  [[nodiscard]] bool empty() const noexcept { return labels.empty() && outcomes.empty(); }
  [[nodiscard]] TruthView rows(std::size_t first, std::size_t count) const noexcept {
    return labels.empty() ? TruthView{.outcomes = outcomes.subspan(first, count)}
                          : TruthView{.labels = labels.subspan(first * each, count * each),
                                      .outcomes = {},
                                      .each = each};
  }
};

// A TruthView that owns its values.
struct Truths {
  Truths() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): labels are truths.
  Truths(std::vector<std::int32_t> the_labels, std::size_t labels_each = 1)
      : labels(std::move(the_labels)), each(labels_each) {}
  // NOLINTNEXTLINE(google-explicit-constructor): outcomes are truths.
  Truths(std::vector<double> the_outcomes) : outcomes(std::move(the_outcomes)) {}

  std::vector<std::int32_t> labels;
  std::vector<double> outcomes;
  std::size_t each = 1;

  // NOLINTNEXTLINE(google-explicit-constructor): a view of them.
  operator TruthView() const noexcept { return view(); }
  [[nodiscard]] TruthView view() const noexcept { return {labels, outcomes, each}; }
  [[nodiscard]] std::size_t size() const noexcept { return view().size(); }
  [[nodiscard]] bool empty() const noexcept { return view().empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return labels.size() * sizeof(std::int32_t) + outcomes.size() * sizeof(double);
  }
  void Reserve(std::size_t rows, const TruthShape& shape) {
    labels.reserve(rows * shape.labels);
    outcomes.reserve(shape.labels == 0 ? rows : 0);
  }
  // Adds the truths of further predictions of the same model.
  void Append(const TruthView& more) {
    each = more.each;
    labels.insert(labels.end(), more.labels.begin(), more.labels.end());
    outcomes.insert(outcomes.end(), more.outcomes.begin(), more.outcomes.end());
  }

  friend bool operator==(const Truths&, const Truths&) = default;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_TRUTHS_H_
