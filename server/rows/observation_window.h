#ifndef CALIBD_SERVER_ROWS_OBSERVATION_WINDOW_H_
#define CALIBD_SERVER_ROWS_OBSERVATION_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/prediction_batch.h"
#include "server/model/row_shape.h"
#include "server/rows/row_view.h"
#include "server/rows/truths.h"

namespace calibd::server {

// Memory for the truths of a fixed number of rows.
class TruthArray {
 public:
  TruthArray(const TruthShape& shape, std::size_t rows);

  // truths: of the shape.
  void Set(std::size_t first, const TruthView& truths) noexcept;
  [[nodiscard]] TruthView view(std::size_t first, std::size_t count) const noexcept;

 private:
  std::size_t each_;
  // One of these; the other one is null.
  std::unique_ptr<std::int32_t[]> labels_;
  std::unique_ptr<double[]> outcomes_;
};

// Rows in memory that never moves and is only appended to. The rows that existed when a reader got
// its view do not change.
struct WindowChunk {
  using Floats = std::unique_ptr<float[]>;
  using Doubles = std::unique_ptr<double[]>;

  explicit WindowChunk(TruthArray empty_truths) : truths(std::move(empty_truths)) {}

  // The probabilities, or the values of the forecasts. Floats if all probabilities are
  // single-precision numbers: half the memory.
  std::variant<Floats, Doubles> probabilities;
  TruthArray truths;
  // Null if the window keeps no ids; kNoIdHash for a row without an id.
  std::unique_ptr<std::uint64_t[]> id_hashes;
  // Null for a model without features.
  std::unique_ptr<double[]> features;
  // Hashes of the values of the group tag; null if the window keeps no groups.
  std::unique_ptr<std::uint64_t[]> group_hashes;

  [[nodiscard]] bool single_precision() const noexcept {
    return std::holds_alternative<Floats>(probabilities);
  }
};

// What a window keeps.
struct WindowShape {
  // Number of values of a row: probabilities, or those of a forecast.
  std::size_t width = 0;
  std::size_t capacity = 0;
  std::size_t chunk_rows = 1;
  bool keeps_ids = false;
  TruthShape truths{};
  std::size_t feature_count = 0;
  bool keeps_groups = false;
};

// The newest observations at one moment. Copying a view copies no row.
class WindowView {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // A copy of observations.
  struct Rows {
    std::vector<double> values;
    std::size_t width = 1;
    Truths truths;

    [[nodiscard]] RowView view() const noexcept { return {values, width, truths, {}}; }
  };
  // Returns the newest n observations in their order, contiguously; n <= size().
  [[nodiscard]] Rows CopyNewestRows(std::size_t n) const;
  // CopyNewestRows for a model of classes.
  [[nodiscard]] PredictionSet CopyNewest(std::size_t n) const;
  // Returns the id hashes of the newest n observations, kNoIdHash for those without an id.
  [[nodiscard]] std::vector<std::uint64_t> CopyNewestIdHashes(std::size_t n) const;
  // Returns the n x feature_count features of the newest n observations; empty for a model without
  // features.
  [[nodiscard]] std::vector<double> CopyNewestFeatures(std::size_t n) const;
  struct Groups {
    // A number for each observation, which is equal for those with the same value of the group tag,
    // counted from 0 in the order of the rows.
    std::vector<std::int32_t> numbers;
    // HashOfGroup of the value with each number.
    std::vector<std::uint64_t> hashes;
  };
  // Returns the groups of the newest n observations; empty if the window keeps no groups.
  [[nodiscard]] Groups CopyNewestGroups(std::size_t n) const;

 private:
  friend class ObservationWindow;

  // Calls visit(chunk, first, count) for each part of the newest n observations in a chunk.
  template <typename Visit>
  void VisitNewest(std::size_t n, const Visit& visit) const;

  std::vector<std::shared_ptr<const WindowChunk>> chunks_;
  WindowShape shape_;
  // Index in the first chunk of the first row of the view.
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

// The newest `capacity` observations of a model. Memory: capacity and one chunk, in double
// precision at most. One thread writes; any thread may read views meanwhile.
class ObservationWindow {
 public:
  explicit ObservationWindow(const WindowShape& shape) : shape_(shape) {}

  // Allocates the memory for the next n rows, so that appending them cannot fail. single_precision:
  // as RowValues. May throw bad_alloc, after which the rows are as before.
  void Reserve(std::size_t n, bool single_precision);
  // Call Reserve before. Removes the rows that are older than the newest `capacity`.
  void Append(const RowView& rows) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] WindowView View() const;

 private:
  void AppendExtras(const RowExtras& extras, std::size_t first, std::size_t count,
                    WindowChunk& chunk) const noexcept;
  [[nodiscard]] std::shared_ptr<WindowChunk> NewChunk(bool single_precision) const;
  // A copy in double precision of the first rows of a chunk in single precision.
  [[nodiscard]] std::shared_ptr<WindowChunk> Widen(const WindowChunk& chunk,
                                                   std::size_t rows) const;

  const WindowShape shape_;
  // Rows are numbered from the first row of chunks_.front().
  std::deque<std::shared_ptr<WindowChunk>> chunks_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_OBSERVATION_WINDOW_H_
