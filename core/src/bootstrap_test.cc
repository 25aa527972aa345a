#include "calibd/core/bootstrap_test.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/running_skce.h"
#include "rng.h"
#include "tile_engine.h"
#include "tile_walk.h"

namespace calibd {
namespace {

// Replicates that are held at a time; more are done in turns, each of which computes
// H anew.
constexpr std::size_t kReplicatesPerTurn = 1024;
// Replicates whose counts are drawn by one thread at a time: a cache line of floats.
constexpr std::size_t kReplicatesPerDraw = 16;

// The counts C of `count` replicates: n x count, row-major.
std::vector<float> DrawCounts(std::size_t n, std::uint64_t seed, std::size_t first,
                              std::size_t count, const RunControl& control) {
  std::vector<float> counts(n * count);
  const std::size_t draws = (count + kReplicatesPerDraw - 1) / kReplicatesPerDraw;
  ParallelFor(control, draws, [&](std::size_t draw) {
    if (control.cancelled && control.cancelled()) return;
    const std::size_t end = std::min(count, (draw + 1) * kReplicatesPerDraw);
    for (std::size_t r = draw * kReplicatesPerDraw; r < end; ++r) {
      Rng rng(seed, first + r);
      for (std::size_t i = 0; i < n; ++i) {
        counts[rng.Below(static_cast<std::uint32_t>(n)) * count + r] += 1;
      }
    }
  });
  return counts;
}

// The replicates of one turn.
class Turn {
 public:
  // counts: by position of the engine; exchangeable, so that any order will do.
  Turn(const TileEngine<float>& engine, std::vector<float> counts, std::size_t replicates)
      : engine_(engine),
        n_(engine.size()),
        replicates_(replicates),
        counts_(std::move(counts)),
        diagonal_(n_) {}

  // Adds what the tiles of one group contribute.
  void AddGroup(std::size_t group, TileWalk& walk) {
    GroupSums& sums = groups_[group];
    sums.quadratic_form.resize(replicates_);
    sums.row_sums.resize(n_);
    TileEngine<float>::Scratch scratch;
    std::vector<float> terms(kTileSize * kTileSize);
    // One row of tiles of H C, summed along the row.
    std::vector<float> product(kTileSize * replicates_);
    while (const std::optional<Tile> tile = walk.Next()) {
      engine_.Terms(*tile, scratch, walk.cancelled(), terms.data());
      AddRowSums(*tile, terms, sums.row_sums);
      // The first tile of a row overwrites what the row before left.
      const float keep = tile->on_diagonal() ? 0 : 1;
      // A tile above the diagonal stands for its mirror image too.
      const float weight = tile->on_diagonal() ? 1 : 2;
      const auto columns = static_cast<int>(replicates_);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(tile->row_count),
                  columns, static_cast<int>(tile->column_count), weight, terms.data(),
                  static_cast<int>(kTileSize), &counts_[tile->column_begin * replicates_], columns,
                  keep, product.data(), columns);
      if (tile->column_begin + tile->column_count == n_) {
        AddQuadraticForm(*tile, product, sums.quadratic_form);
      }
    }
  }

  // T of each replicate.
  [[nodiscard]] std::vector<double> Replicates() const {
    std::vector<double> quadratic_form(replicates_);
    std::vector<double> row_sums(n_);
    for (const GroupSums& sums : groups_) {
      for (std::size_t r = 0; r < sums.quadratic_form.size(); ++r) {
        quadratic_form[r] += sums.quadratic_form[r];
      }
      for (std::size_t i = 0; i < sums.row_sums.size(); ++i) row_sums[i] += sums.row_sums[i];
    }
    const auto n = static_cast<double>(n_);
    const double unbias = n / (n - 1);
    std::vector<double> linear_form(replicates_);
    for (std::size_t i = 0; i < n_; ++i) {
      const double weight = unbias * diagonal_[i] + 2 * row_sums[i];
      const float* counts = &counts_[i * replicates_];
      for (std::size_t r = 0; r < replicates_; ++r) {
        linear_form[r] += weight * static_cast<double>(counts[r]);
      }
    }
    std::vector<double> replicates(replicates_);
    for (std::size_t r = 0; r < replicates_; ++r) {
      replicates[r] = (unbias * quadratic_form[r] - linear_form[r]) / (n * n);
    }
    return replicates;
  }

 private:
  struct GroupSums {
    // C'HC of each replicate.
    std::vector<double> quadratic_form;
    // R_i = sum_j h_ij at each position.
    std::vector<double> row_sums;
  };

  void AddRowSums(const Tile& tile, const std::vector<float>& terms,
                  std::vector<double>& row_sums) {
    for (std::size_t i = 0; i < tile.row_count; ++i) {
      const float* row = &terms[i * kTileSize];
      double sum = 0;
      for (std::size_t j = 0; j < tile.column_count; ++j) sum += static_cast<double>(row[j]);
      row_sums[tile.row_begin + i] += sum;
      if (tile.on_diagonal()) {
        diagonal_[tile.row_begin + i] = static_cast<double>(row[i]);
      } else {
        for (std::size_t j = 0; j < tile.column_count; ++j) {
          row_sums[tile.column_begin + j] += static_cast<double>(row[j]);
        }
      }
    }
  }

  void AddQuadraticForm(const Tile& tile, const std::vector<float>& product,
                        std::vector<double>& quadratic_form) const {
    for (std::size_t i = 0; i < tile.row_count; ++i) {
      const float* counts = &counts_[(tile.row_begin + i) * replicates_];
      const float* products = &product[i * replicates_];
      for (std::size_t r = 0; r < replicates_; ++r) {
        quadratic_form[r] += static_cast<double>(counts[r]) * static_cast<double>(products[r]);
      }
    }
  }

  const TileEngine<float>& engine_;
  const std::size_t n_;
  const std::size_t replicates_;
  const std::vector<float> counts_;
  // h_ii at each position, as in the tiles.
  std::vector<double> diagonal_;
  std::array<GroupSums, kTileGroups> groups_;
};

}  // namespace

absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                  const Kernel& kernel,
                                                  const BootstrapOptions& options,
                                                  const RunControl& control) {
  const std::size_t n = batch.size();
  if (options.replicates < kMinReplicates || options.replicates > kMaxReplicates) {
    return absl::InvalidArgumentError(absl::StrCat(
        "replicates is ", options.replicates, ", expected ", kMinReplicates, "..", kMaxReplicates));
  }
  if (n < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("there are ", n, " observations, needed are at least 2"));
  }
  BootstrapTestResult result;
  result.replicates = options.replicates;
  result.seed = options.seed;
  {
    RunControl quietly = control;
    quietly.progress = nullptr;
    absl::StatusOr<QuadraticSkce> skce = EstimateQuadraticSkce(batch, kernel, quietly);
    if (!skce.ok()) return skce.status();
    result.skce = *skce;
  }
  const auto size = static_cast<double>(n);
  result.statistic = size / (size - 1) * result.skce.unbiased - result.skce.biased;

  const TileEngine<float> engine(batch, kernel);
  const auto replicates = static_cast<std::size_t>(options.replicates);
  const auto total = static_cast<double>(replicates);
  RunningMoments moments;
  for (std::size_t first = 0; first < replicates; first += kReplicatesPerTurn) {
    const std::size_t count = std::min(kReplicatesPerTurn, replicates - first);
    Turn turn(engine, DrawCounts(n, options.seed, first, count, control), count);
    const absl::Status status = ForEachTileGroup(
        n, control, [&](std::size_t group, TileWalk& walk) { turn.AddGroup(group, walk); },
        static_cast<double>(first) / total, static_cast<double>(first + count) / total);
    if (!status.ok()) return status;
    for (const double replicate : turn.Replicates()) {
      moments.Add(replicate);
      if (replicate >= result.statistic) ++result.exceedances;
    }
  }
  result.p_value = (1.0 + result.exceedances) / (1.0 + result.replicates);
  result.replicate_mean = moments.mean;
  result.replicate_standard_deviation = std::sqrt(moments.Variance());
  return result;
}

std::size_t BootstrapMemory(std::size_t n, std::size_t class_count, std::int32_t replicates,
                            std::size_t threads) noexcept {
  const std::size_t held = std::min(kReplicatesPerTurn, static_cast<std::size_t>(replicates));
  const std::size_t groups = std::min(kTileGroups, (n + kTileSize - 1) / kTileSize);
  const std::size_t scratch =
      TileEngine<float>::ScratchBytes(class_count) + kTileSize * (kTileSize + held) * sizeof(float);
  // The double pass ends before the replicates are drawn.
  return std::max(QuadraticMemory(n, class_count, Precision::kFloat64),
                  TileEngine<float>::MemoryBytes(n, class_count) + n * held * sizeof(float) +
                      groups * (n + held) * sizeof(double)) +
         threads * scratch;
}

}  // namespace calibd
