#include "client/cli/files/row_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <vector>

namespace calibd::cli {
namespace {

// Takes the rows of `width` elements in this order.
template <typename T>
void Take(const std::vector<std::size_t>& order, std::size_t width, std::vector<T>& elements) {
  if (elements.empty()) return;
  std::vector<T> taken;
  taken.reserve(elements.size());
  for (const std::size_t row : order) {
    const auto first = elements.begin() + static_cast<std::ptrdiff_t>(row * width);
    taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  elements = std::move(taken);
}

}  // namespace

void SortByTime(Input& input) {
  if (input.times.empty()) return;
  std::vector<std::size_t> order(input.row_count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t row) {
      return std::tuple(input.times[row].seconds(), input.times[row].nanos());
    };
    return key(a) < key(b);
  });
  std::size_t moved = 0;
  for (std::size_t i = 0; i < order.size(); ++i) moved += order[i] == i ? 0U : 1U;
  input.changes.moved_rows = moved;
  if (moved == 0) return;
  Take(order, input.width, input.values);
  Take(order, input.truth_width, input.truths);
  Take(order, input.features.size() / input.row_count, input.features);
  Take(order, 1, input.ids);
  Take(order, 1, input.groups);
  Take(order, 1, input.times);
  Take(order, 1, input.labels);
  for (RowPlaces* const places :
       {&input.places, &input.truth_places, &input.id_places, &input.group_places}) {
    Take(order, 1, places->lines);
  }
}

}  // namespace calibd::cli
