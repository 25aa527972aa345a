#include "client/cli/files/row_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace calibd::cli {
namespace {

// Takes the rows in this order. Each has the same number of elements.
template <typename T>
void Take(const std::vector<std::size_t>& order, std::vector<T>& elements) {
  if (elements.empty()) return;
  const std::size_t width = elements.size() / order.size();
  std::vector<T> taken;
  taken.reserve(elements.size());
  for (const std::size_t row : order) {
    const auto first = elements.begin() + static_cast<std::ptrdiff_t>(row * width);
    taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  elements = std::move(taken);
}

void Take(const std::vector<std::size_t>& order, Table& table) {
  Take(order, table.values);
  Take(order, table.truths);
  Take(order, table.features);
  Take(order, table.ids);
  Take(order, table.groups);
  Take(order, table.times);
  for (RowPlaces* const places : {&table.places, &table.truth_places, &table.id_places,
                                  &table.group_places, &table.baseline_places}) {
    if (places->rows.empty()) {
      places->rows = order;
    } else {
      Take(order, places->rows);
    }
  }
}

void Take(const std::vector<std::size_t>& order, Input& input) {
  Take(order, static_cast<Table&>(input));
  Take(order, input.labels);
}

std::vector<std::size_t> InOrder(const Table& table) {
  std::vector<std::size_t> order(table.row_count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// The same on every platform, unlike std::shuffle.
std::vector<std::size_t> RandomOrder(std::uint64_t seed, const Table& table) {
  std::vector<std::size_t> order = InOrder(table);
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace

void Shuffle(std::uint64_t seed, Table& table) { Take(RandomOrder(seed, table), table); }
void Shuffle(std::uint64_t seed, Input& input) { Take(RandomOrder(seed, input), input); }

void SortByTime(Input& input) {
  if (input.times.empty()) return;
  std::vector<std::size_t> order = InOrder(input);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t row) {
      return std::tuple(input.times[row].seconds(), input.times[row].nanos());
    };
    return key(a) < key(b);
  });
  std::size_t moved = 0;
  for (std::size_t i = 0; i < order.size(); ++i) moved += order[i] == i ? 0U : 1U;
  input.changes.moved_rows = moved;
  if (moved > 0) Take(order, input);
}

}  // namespace calibd::cli
