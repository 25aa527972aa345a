#include "calibd/core/bootstrap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/matrix_product.h"
#include "base/rng.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"
#include "kernels/line_skce.h"
#include "kernels/matrix_tile_engine.h"
#include "kernels/tile_engine.h"
#include "kernels/tile_walk.h"

namespace calibd {
namespace {

// Maximum number of replicates in memory. More are computed in several turns, which recompute H.
constexpr std::size_t kReplicatesPerTurn = 1024;
// Number of replicates whose counts one thread draws at a time: a cache line of floats.
constexpr std::size_t kReplicatesPerDraw = 16;
static_assert(kPieceColumns % kReplicatesPerDraw == 0);

// Draws the counts C of one replicate, in the order of the rows of the batch.
void DrawCounts(std::uint64_t seed, std::size_t replicate, std::span<std::uint32_t> counts) {
  std::fill(counts.begin(), counts.end(), 0u);
  Rng rng(seed, replicate);
  const auto n = static_cast<std::uint32_t>(counts.size());
  for (std::uint32_t i = 0; i < n; ++i) ++counts[rng.Below(n)];
}

// Calls body(first, count) for all `count` replicates, a few consecutive ones per call.
void ForEachDraw(std::size_t count, const RunControl& control,
                 const std::function<void(std::size_t first, std::size_t count)>& body) {
  const std::size_t draws = (count + kReplicatesPerDraw - 1) / kReplicatesPerDraw;
  ParallelFor(control, draws, [&](std::size_t draw) {
    const std::size_t first = draw * kReplicatesPerDraw;
    body(first, std::min(kReplicatesPerDraw, count - first));
  });
}

// Eight sums break the chain of dependent additions; their order is fixed.
double Sum(std::span<const float> values) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::size_t j = 0;
  for (; j + kSums <= values.size(); j += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) {
      sums[lane] += static_cast<double>(values[j + lane]);
    }
  }
  for (; j < values.size(); ++j) sums[0] += static_cast<double>(values[j]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// T = n^-2 [ n/(n-1) (C'HC - C'h) - 2 C'R ], where C'w = n/(n-1) C'h + 2 C'R.
double Replicate(double quadratic_form, double linear_form, std::size_t size) {
  const auto n = static_cast<double>(size);
  return (n / (n - 1) * quadratic_form - linear_form) / (n * n);
}

std::vector<double> LinearWeights(std::span<const double> diagonal,
                                  std::span<const double> row_sums) {
  const auto n = static_cast<double>(diagonal.size());
  std::vector<double> weights(diagonal.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = n / (n - 1) * diagonal[i] + 2 * row_sums[i];
  }
  return weights;
}

// The replicates of one turn. Engine: TileEngine<float> or MatrixTileEngine.
template <typename Engine>
class Turn {
 public:
  Turn(const Engine& engine, std::uint64_t seed, std::size_t first, std::size_t replicates,
       const RunControl& control)
      : engine_(engine),
        n_(engine.size()),
        replicates_(replicates),
        counts_((replicates + kPieceColumns - 1) / kPieceColumns * kPieceColumns * n_),
        diagonal_(n_) {
    ForEachDraw(replicates, control, [&](std::size_t begin, std::size_t count) {
      std::vector<std::uint32_t> counts(n_);
      std::vector<float> drawn(count * n_);
      for (std::size_t r = 0; r < count; ++r) {
        if (control.IsCancelled()) return;
        DrawCounts(seed, first + begin + r, counts);
        for (std::size_t position = 0; position < n_; ++position) {
          drawn[r * n_ + position] = static_cast<float>(counts[engine_.order()[position]]);
        }
      }
      // Writes one cache line of counts_ at a time.
      for (std::size_t position = 0; position < n_; ++position) {
        float* const line = &counts_[CountAt(position, begin)];
        for (std::size_t r = 0; r < count; ++r) line[r] = drawn[r * n_ + position];
      }
    });
  }

  // Adds the contribution of the tiles of one group.
  void AddGroup(std::size_t group, TileWalk& walk) {
    GroupSums& sums = groups_[group];
    sums.quadratic_form.resize(replicates_);
    sums.row_sums.resize(n_);
    typename Engine::Scratch scratch;
    std::vector<float> terms(kTileSize * kTileSize);
    // One row of tiles of H C, summed along the row.
    std::vector<float> product(kTileSize * replicates_);
    std::vector<float> packed;
    while (const std::optional<Tile> tile = walk.Next()) {
      engine_.Terms(*tile, scratch, walk.cancelled(), terms.data());
      AddRowSums(*tile, terms, sums.row_sums);
      // The first tile of a row overwrites the values of the previous row.
      const float keep = tile->on_diagonal() ? 0 : 1;
      // A tile above the diagonal is counted twice, for its mirror image below.
      const float weight = tile->on_diagonal() ? 1 : 2;
      Multiply(MatrixProduct<float>{.rows = tile->row_count,
                                    .columns = replicates_,
                                    .depth = tile->column_count,
                                    .a = terms.data(),
                                    .a_stride = kTileSize,
                                    .b = &counts_[CountAt(tile->column_begin, 0)],
                                    .b_row_stride = kPieceColumns,
                                    .b_piece_stride = kPieceColumns * n_,
                                    .c = product.data(),
                                    .c_stride = replicates_,
                                    .weight = weight,
                                    .keep = keep},
               packed);
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
    const std::vector<double> weights = LinearWeights(diagonal_, row_sums);
    std::vector<double> linear_form(replicates_);
    for (std::size_t i = 0; i < n_; ++i) {
      ForEachPiece([&](std::size_t begin, std::size_t count) {
        const float* counts = &counts_[CountAt(i, begin)];
        for (std::size_t r = 0; r < count; ++r) {
          linear_form[begin + r] += weights[i] * static_cast<double>(counts[r]);
        }
      });
    }
    std::vector<double> replicates(replicates_);
    for (std::size_t r = 0; r < replicates_; ++r) {
      replicates[r] = Replicate(quadratic_form[r], linear_form[r], n_);
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

  // replicate: the first of a group that is adjacent in memory.
  [[nodiscard]] std::size_t CountAt(std::size_t position, std::size_t replicate) const {
    return (replicate / kPieceColumns * n_ + position) * kPieceColumns + replicate % kPieceColumns;
  }

  // Calls body(begin, count) for the replicates of each piece.
  template <typename Body>
  void ForEachPiece(const Body& body) const {
    for (std::size_t begin = 0; begin < replicates_; begin += kPieceColumns) {
      body(begin, std::min(kPieceColumns, replicates_ - begin));
    }
  }

  void AddRowSums(const Tile& tile, const std::vector<float>& terms,
                  std::vector<double>& row_sums) {
    for (std::size_t i = 0; i < tile.row_count; ++i) {
      const float* row = &terms[i * kTileSize];
      row_sums[tile.row_begin + i] += Sum({row, tile.column_count});
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
      ForEachPiece([&](std::size_t begin, std::size_t count) {
        const float* counts = &counts_[CountAt(tile.row_begin + i, begin)];
        const float* products = &product[i * replicates_ + begin];
        for (std::size_t r = 0; r < count; ++r) {
          quadratic_form[begin + r] +=
              static_cast<double>(counts[r]) * static_cast<double>(products[r]);
        }
      });
    }
  }

  const Engine& engine_;
  const std::size_t n_;
  const std::size_t replicates_;
  // C, in pieces of kPieceColumns replicates: [piece][position][replicate].
  std::vector<float> counts_;
  // h_ii at each position, as in the tiles.
  std::vector<double> diagonal_;
  std::array<GroupSums, kTileGroups> groups_;
};

// The stage of a computation that covers [begin, end] of the total progress.
struct Stage {
  double begin;
  double end;
};

absl::StatusOr<std::vector<double>> LineReplicates(const LineSkce& line, std::size_t n,
                                                   const BootstrapOptions& options,
                                                   const RunControl& control, Stage stage) {
  const LineSkce::Rows rows = line.RowSums();
  const std::vector<double> weights = LinearWeights(rows.diagonal, rows.sums);
  std::vector<double> replicates(static_cast<std::size_t>(options.replicates));
  ForEachDraw(replicates.size(), control, [&](std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> counts(n);
    for (std::size_t r = first; r < first + count; ++r) {
      if (control.IsCancelled()) return;
      DrawCounts(options.seed, r, counts);
      double linear_form = 0;
      for (std::size_t i = 0; i < n; ++i) linear_form += weights[i] * counts[i];
      replicates[r] = Replicate(line.QuadraticForm(counts), linear_form, n);
    }
  });
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  if (control.progress) control.progress(stage.end);
  return replicates;
}

template <typename Engine>
absl::StatusOr<std::vector<double>> TileReplicates(const Engine& engine,
                                                   const BootstrapOptions& options,
                                                   const RunControl& control, Stage stage) {
  const auto total = static_cast<std::size_t>(options.replicates);
  const double length = stage.end - stage.begin;
  std::vector<double> replicates;
  replicates.reserve(total);
  for (std::size_t first = 0; first < total; first += kReplicatesPerTurn) {
    const std::size_t count = std::min(kReplicatesPerTurn, total - first);
    const auto fraction = [&](std::size_t done) {
      return stage.begin + length * static_cast<double>(done) / static_cast<double>(total);
    };
    Turn turn(engine, options.seed, first, count, control);
    CALIBD_RETURN_IF_ERROR(ForEachTileGroup(
        engine.size(), control,
        [&](std::size_t group, TileWalk& walk) { turn.AddGroup(group, walk); }, fraction(first),
        fraction(first + count)));
    const std::vector<double> more = turn.Replicates();
    replicates.insert(replicates.end(), more.begin(), more.end());
  }
  return replicates;
}

absl::StatusOr<std::vector<double>> PartReplicates(const PredictionBatch& part,
                                                   const Kernel& kernel,
                                                   const BootstrapOptions& options,
                                                   const RunControl& control, Stage stage) {
  if (const std::optional<LineSkce> line = LineSkce::Of(part, kernel)) {
    return LineReplicates(*line, part.size(), options, control, stage);
  }
  return TileReplicates(TileEngine<float>(part, kernel), options, control, stage);
}

BootstrapTestResult Compare(const QuadraticSkce& skce, std::span<const double> replicates,
                            const BootstrapOptions& options) {
  const double statistic = BootstrapStatistic(skce);
  return {CompareWithReplicates(statistic, replicates, options), skce, statistic};
}

absl::Status CheckOptions(const BootstrapOptions& options) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(options));
  if (options.null == NullHypothesis::kForm) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "null is forecast, expected form: the bootstrap tests the form of calibration");
}

absl::StatusOr<BootstrapTestResult> TestParts(std::span<const PredictionBatch> parts, double weight,
                                              const Kernel& kernel, const BootstrapOptions& options,
                                              const RunControl& control, Precision precision) {
  CALIBD_RETURN_IF_ERROR(CheckOptions(options));
  CALIBD_ASSIGN_OR_RETURN(
      const QuadraticSkce skce,
      EstimateQuadraticSkce(parts, weight, kernel, control.WithoutProgress(), precision));
  std::vector<double> sums(static_cast<std::size_t>(options.replicates));
  const auto count = static_cast<double>(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const auto done = static_cast<double>(part);
    CALIBD_ASSIGN_OR_RETURN(
        const std::vector<double> replicates,
        PartReplicates(parts[part], kernel, options, control, {done / count, (done + 1) / count}));
    for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += weight * replicates[r];
  }
  return Compare(skce, sums, options);
}

}  // namespace

double BootstrapStatistic(const QuadraticSkce& skce) noexcept {
  const auto n = static_cast<double>(skce.n);
  return n / (n - 1) * skce.unbiased - skce.biased;
}

absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                  const Kernel& kernel,
                                                  const BootstrapOptions& options,
                                                  const RunControl& control) {
  return TestParts(std::span(&batch, 1), 1, kernel, options, control, Precision::kFloat64);
}

absl::StatusOr<BootstrapTestResult> BootstrapTest(const LensBatch& batch, const Kernel& kernel,
                                                  const BootstrapOptions& options,
                                                  const RunControl& control, Precision precision) {
  return TestParts(batch.views(), batch.weight, kernel, options, control, precision);
}

absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                  const MatrixKernel& kernel,
                                                  const BootstrapOptions& options,
                                                  const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckOptions(options));
  CALIBD_ASSIGN_OR_RETURN(const QuadraticSkce skce,
                          EstimateQuadraticSkce(batch, kernel, control.WithoutProgress()));
  CALIBD_ASSIGN_OR_RETURN(
      const std::vector<double> replicates,
      TileReplicates(MatrixTileEngine(batch, kernel), options, control, {0, 1}));
  return Compare(skce, replicates, options);
}

std::int32_t BootstrapPasses(std::int32_t replicates) noexcept {
  constexpr auto kTurn = static_cast<std::int32_t>(kReplicatesPerTurn);
  return (replicates + kTurn - 1) / kTurn;
}

std::size_t BootstrapMemory(std::size_t n, std::size_t class_count, std::int32_t replicates,
                            std::size_t threads) noexcept {
  const std::size_t held =
      (std::min(kReplicatesPerTurn, static_cast<std::size_t>(replicates)) + kPieceColumns - 1) /
      kPieceColumns * kPieceColumns;
  const std::size_t groups = std::min(kTileGroups, (n + kTileSize - 1) / kTileSize);
  const std::size_t scratch = n * (kReplicatesPerDraw * sizeof(float) + sizeof(std::uint32_t)) +
                              kTileSize * (kTileSize + held) * sizeof(float);
  // The pass in double ends before the replicates are drawn.
  return std::max(QuadraticMemory(n, class_count, Precision::kFloat64),
                  TileEngine<float>::MemoryBytes(n, class_count) + n * held * sizeof(float) +
                      groups * (n + held) * sizeof(double) + threads * scratch);
}

}  // namespace calibd
