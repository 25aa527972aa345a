#ifndef CALIBD_SERVER_STATE_OBSERVATION_WINDOW_H_
#define CALIBD_SERVER_STATE_OBSERVATION_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "calibd/core/prediction_batch.h"

namespace calibd::server {

// Rows in memory that never moves and is only ever appended to: rows that were
// there when a reader got its view stay as they are.
struct WindowChunk {
  WindowChunk(std::size_t class_count, std::size_t capacity)
      : probabilities(new double[class_count * capacity]), labels(new std::int32_t[capacity]) {}

  const std::unique_ptr<double[]> probabilities;
  const std::unique_ptr<std::int32_t[]> labels;
};

// The newest observations as they were at one moment. Copying it copies no row.
class WindowView {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // The newest n observations in their order, in one piece; n <= size().
  [[nodiscard]] PredictionSet CopyNewest(std::size_t n) const;

 private:
  friend class ObservationWindow;

  std::vector<std::shared_ptr<const WindowChunk>> chunks_;
  std::size_t class_count_ = 0;
  std::size_t chunk_rows_ = 1;
  // Index in the first chunk of the first row of the view.
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

// The newest `capacity` observations of a model. Memory: capacity and one chunk.
// One writer; views may be read by any thread while it appends.
class ObservationWindow {
 public:
  ObservationWindow(std::size_t class_count, std::size_t capacity, std::size_t chunk_rows);

  // Takes the memory for the next n rows, so that Append of them cannot fail.
  // May throw bad_alloc, and then nothing has changed.
  void Reserve(std::size_t n);
  // Needs Reserve. Rows older than the newest `capacity` go.
  void Append(const PredictionBatch& batch) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] WindowView View() const;

 private:
  const std::size_t class_count_;
  const std::size_t capacity_;
  const std::size_t chunk_rows_;
  // Rows are numbered from the first row of chunks_.front().
  std::deque<std::shared_ptr<WindowChunk>> chunks_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_OBSERVATION_WINDOW_H_
