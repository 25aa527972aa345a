#ifndef CALIBD_TESTS_BENCHMARK_TILE_MIX_H_
#define CALIBD_TESTS_BENCHMARK_TILE_MIX_H_

#include <cstddef>

namespace calibd::testing {

// Executes the arithmetic that the tile engine needs for pairs of predictions of `class_count`
// classes in double precision, in registers and without loads of predictions: the peak of this mix
// of instructions. Returns the number of pairs, about `pairs`.
std::size_t RunTileMix(std::size_t class_count, std::size_t pairs);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_BENCHMARK_TILE_MIX_H_
