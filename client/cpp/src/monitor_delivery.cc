#include "monitor_delivery.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "status_conversion.h"
#include "tls.h"

namespace calibd::client {
namespace {

// A row waits so long for others, which are sent together with it.
constexpr std::chrono::milliseconds kLinger{20};
// So many rows the thread takes at once from the queue.
constexpr std::size_t kMaxTaken = 4096;
constexpr std::chrono::minutes kBetweenLogLines{1};
// The thread waits so long after it had no memory.
constexpr std::chrono::milliseconds kWithoutMemory{100};

// "3 rows and 1 label"; empty without both.
std::string Amounts(const Dropped& lost) {
  std::string text;
  if (lost.rows > 0) text = absl::StrCat(lost.rows, lost.rows == 1 ? " row" : " rows");
  if (lost.labels > 0) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", lost.labels,
                    lost.labels == 1 ? " label" : " labels");
  }
  return text;
}

void AddTo(StreamCounts& total, const StreamCounts& counts) {
  total.accepted_rows += counts.accepted_rows;
  total.rejected_rows += counts.rejected_rows;
  total.dropped_rows += counts.dropped_rows;
  total.labels.accepted += counts.labels.accepted;
  total.labels.rejected += counts.labels.rejected;
  total.labels.dropped += counts.labels.dropped;
  total.rejected_batches += counts.rejected_batches;
  total.reconnects += counts.reconnects;
  total.resent_batches += counts.resent_batches;
  total.duplicate_rows += counts.duplicate_rows;
  total.labels.matched += counts.labels.matched;
  total.labels.repeated += counts.labels.repeated;
  total.labels.conflicting += counts.labels.conflicting;
  total.labels.late += counts.labels.late;
  total.labels.unknown += counts.labels.unknown;
  total.labels.waiting += counts.labels.waiting;
}

// The rows and labels of which it is not known whether they are counted.
Dropped LostOf(const StreamCounts& counts) {
  const LabelCounts& labels = counts.labels;
  return {.rows = counts.rows - counts.dropped_rows - counts.accepted_rows - counts.rejected_rows -
                  counts.duplicate_rows,
          .labels = labels.labels - labels.dropped - labels.accepted - labels.rejected};
}

Dropped OneDropped(bool is_label) { return is_label ? Dropped{.labels = 1} : Dropped{.rows = 1}; }

// Gives a row to a stream. Errors: those of the stream; InvalidArgument if the row is invalid.
absl::Status Deliver(StreamImpl& stream, QueuedRow& row) {
  const std::span ids(&row.id, 1);
  const std::span<const double> outcome =
      row.outcome.has_value() ? std::span(&*row.outcome, 1) : std::span<const double>();
  if (row.is_label && !outcome.empty()) return stream.LabelOutcomes(ids, outcome);
  if (row.is_label) return stream.Label(ids, row.labels);
  if (absl::Status status = stream.SetGroup(row.group); !status.ok()) return status;
  stream.SetFeatures(std::move(row.features));
  stream.SetTime(row.time);
  return std::visit(
      [&](const auto& values) -> absl::Status {
        if (values.size() != stream.row_width()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "values has ", values.size(), " numbers, expected ", stream.row_width()));
        }
        if (stream.has_forecasts() ? !row.labels.empty() : row.outcome.has_value()) {
          return absl::InvalidArgumentError(
              stream.has_forecasts()
                  ? "label is set, expected outcome: the model forecasts a number"
                  : "outcome is set, expected label: the model has classes");
        }
        if (stream.has_forecasts()) {
          const std::vector<double> forecast(values.begin(), values.end());
          return row.id.empty() ? stream.SendForecasts(forecast, outcome)
                                : stream.SendForecastsWithIds(forecast, ids, outcome);
        }
        const std::span span(values);
        return row.id.empty() ? stream.Send(row.kind, span, row.labels)
                              : stream.SendWithIds(row.kind, span, ids, row.labels);
      },
      row.values);
}

}  // namespace

std::size_t QueuedRow::bytes() const {
  return sizeof(QueuedRow) +
         std::visit([](const auto& all) { return std::span(all).size_bytes(); }, values) +
         std::span(labels).size_bytes() + std::span(features).size_bytes() + id.size() +
         group.size();
}

MonitorDelivery::MonitorDelivery(std::string model, MonitorOptions options, bool is_unusable)
    : model_(std::move(model)),
      options_(std::move(options)),
      is_unusable_(is_unusable),
      backoff_(std::random_device{}()) {
  if (is_unusable_) {
    error_ = absl::FailedPreconditionError(
        "this process was forked while gRPC was in use, which gRPC does not support: fork before a "
        "Client or another user of gRPC is made");
  }
}

MonitorDelivery::~MonitorDelivery() {
  if (thread_.has_value() && thread_->joinable()) thread_->join();
}

// --- the caller's threads ---

bool MonitorDelivery::Accept(QueuedRow row) {
  const std::size_t bytes = row.bytes();
  Lock lock(mutex());
  const bool waits = options_.on_full == OnFull::kBlock;
  if (waits && !WaitForRoom(lock, bytes)) return false;
  const bool is_label = row.is_label;
  if (!HasRoomFor(bytes)) {
    ++(is_label ? labels_ : rows_);
    Drop(is_label);
    return false;
  }
  if (queue_.empty()) {
    due_ = Clock::now() + kLinger;
    changed().notify_all();
  }
  // A row without memory is counted by DropUnread.
  queue_.push_back(std::move(row));
  ++(is_label ? labels_ : rows_);
  queue_bytes_ += bytes;
  Start();
  return true;
}

void MonitorDelivery::DropUnread(bool is_label) {
  const Lock lock(mutex());
  ++(is_label ? labels_ : rows_);
  Drop(is_label);
}

std::size_t MonitorDelivery::buffered_bytes() const {
  return queue_bytes_ + (stream_ != nullptr ? stream_->unsettled_bytes() : 0);
}

bool MonitorDelivery::HasRoomFor(std::size_t bytes) const {
  if (closing_ || is_unusable_ || !failure_.ok()) return false;
  const std::size_t buffered = buffered_bytes();
  // A row that is larger than the limit is accepted alone.
  return buffered == 0 || buffered + bytes <= options_.max_buffer_bytes;
}

bool MonitorDelivery::WaitForRoom(Lock& lock, std::size_t bytes) {
  const Clock::time_point begin = Clock::now();
  bool has_room = HasRoomFor(bytes);
  if (has_room) return true;
  ++flushing_;
  changed().notify_all();
  while (!has_room && !closing_ && !is_unusable_ && failure_.ok()) {
    const Clock::time_point progress =
        stream_ != nullptr ? std::max(begin, stream_->last_progress()) : begin;
    const Clock::time_point deadline = progress + options_.stall_timeout;
    if (Clock::now() >= deadline) break;
    changed().wait_until(lock, deadline);
    has_room = HasRoomFor(bytes);
  }
  --flushing_;
  return has_room;
}

void MonitorDelivery::Drop(bool is_label) {
  ++past_.overflowed;
  const Dropped one = OneDropped(is_label);
  past_.dropped_rows += one.rows;
  past_.labels.dropped += one.labels;
  // The stream may have sent its last batch.
  if (!closing_) unreported_.Add(one);
  // The thread knows when the next line of the log is due, if it has one to write.
  const StreamCounts total = Counts();
  if (total.dropped_rows + total.labels.dropped == logged_ + 1) changed().notify_all();
  Start();
}

void MonitorDelivery::Start() {
  if (thread_.has_value() || closing_) return;
  // Without a thread, the next row tries again.
  thread_ = TryStartThread([this] { Run(); });
}

bool MonitorDelivery::IsSettled() const {
  return queue_.empty() && !delivering_ && (!unreported_.any() || is_unusable_) &&
         (stream_ == nullptr || stream_->is_settled());
}

absl::Status MonitorDelivery::Flush(std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  Lock lock(mutex());
  ++flushing_;
  changed().notify_all();
  const bool settled = changed().wait_until(
      lock, deadline, [&] { return IsSettled() || !failure_.ok() || is_unusable_ || has_ended_; });
  --flushing_;
  if (!failure_.ok()) return failure_;
  if (is_unusable_) return error_;
  if (settled && IsSettled()) return absl::OkStatus();
  const absl::Status error = Error();
  return absl::DeadlineExceededError(
      absl::StrCat("not all rows were settled within ", timeout.count(), " ms",
                   error.ok() ? "" : absl::StrCat(": ", error.message())));
}

StreamCounts MonitorDelivery::Counts() const {
  StreamCounts total = past_;
  if (stream_ != nullptr) AddTo(total, stream_->counts_so_far());
  total.rows = rows_;
  total.labels.labels = labels_;
  return total;
}

StreamCounts MonitorDelivery::counts() const {
  const Lock lock(mutex());
  return Counts();
}

absl::Status MonitorDelivery::Error() const {
  if (!failure_.ok()) return failure_;
  if (stream_ != nullptr && !stream_->connection_error().ok()) return stream_->connection_error();
  return error_;
}

absl::Status MonitorDelivery::status() const {
  const Lock lock(mutex());
  return Error();
}

void MonitorDelivery::BeginClose() {
  const Lock lock(mutex());
  closing_ = true;
  changed().notify_all();
}

void MonitorDelivery::EndClose(Clock::time_point deadline, const char* what) {
  std::string lost;
  std::thread ended;
  {
    Lock lock(mutex());
    changed().wait_until(lock, deadline, [&] { return has_ended_ || !thread_.has_value(); });
    gives_up_ = true;
    changed().notify_all();
    const StreamCounts total = Counts();
    if (!std::exchange(loss_is_logged_, true)) lost = Amounts(LostOf(total));
    // A function of the caller that closes the monitor may run on the thread.
    if (thread_.has_value() && thread_->get_id() != std::this_thread::get_id()) {
      ended = std::exchange(*thread_, std::thread());
    }
  }
  if (ended.joinable()) ended.join();
  if (!lost.empty()) {
    Warn(absl::StrCat("the stream ", what, ", its newest ", lost, " may not be counted"));
  }
}

// --- fork ---

bool MonitorDelivery::Park() {
  const Lock lock(mutex());
  is_parked_ = true;
  if (stream_ != nullptr) stream_->Park();
  changed().notify_all();
  return stream_ != nullptr || stream_is_ending_;
}

bool MonitorDelivery::is_parked() const {
  const Lock lock(mutex());
  return !stream_is_ending_ && (stream_ == nullptr || stream_->is_parked());
}

void MonitorDelivery::Unpark(Clock::time_point begin) {
  const Lock lock(mutex());
  is_parked_ = false;
  starts_from_ = std::max(starts_from_, begin);
  if (stream_ != nullptr) stream_->Unpark(begin);
  changed().notify_all();
}

// --- the thread ---

void MonitorDelivery::Run() {
  Lock lock(mutex());
  bool has_thrown = false;
  while (!has_ended_) {
    // An exception would end the process, because this is a thread of its own.
    try {
      if (has_thrown) Recover();
      has_thrown = false;
      Work(lock);
    } catch (const std::exception&) {
      has_thrown = true;
      if (!lock.owns_lock()) lock.lock();
      changed().wait_for(lock, kWithoutMemory, [&] { return gives_up_; });
    }
  }
}

void MonitorDelivery::Recover() {
  queue_bytes_ = 0;
  for (const QueuedRow& row : queue_) queue_bytes_ += row.bytes();
  for (const QueuedRow& row : taken_) queue_bytes_ += row.bytes();
  delivering_ = !taken_.empty();
  // A row may be half in a batch. There may be no memory for a text.
  if (stream_ != nullptr) stream_->Fail(absl::Status(absl::StatusCode::kResourceExhausted, ""));
}

void MonitorDelivery::Work(Lock& lock) {
  while (!gives_up_) {
    LogIfDue(lock);
    if (stream_ != nullptr && !stream_->failure().ok()) {
      StartOver(lock);
      continue;
    }
    if (closing_ && !failure_.ok()) break;
    if (closing_ && IsSettled()) {
      if (stream_ == nullptr || !stream_->is_open() || stream_->is_finished()) break;
      stream_->BeginFinish();
    }
    const bool needs_stream = !queue_.empty() || !taken_.empty() || unreported_.any();
    if (stream_ == nullptr && needs_stream && !is_parked_ && !is_unusable_ && failure_.ok() &&
        Clock::now() >= starts_from_) {
      StartStream();
      continue;
    }
    if (stream_ != nullptr && stream_->has_room() && HasWork()) {
      DeliverSome(lock);
      continue;
    }
    if (stream_ != nullptr) stream_->ReplaceIfStalled();
    const Clock::time_point wake = NextWake();
    if (wake == Clock::time_point::max()) {
      changed().wait(lock);
    } else {
      changed().wait_until(lock, wake);
    }
  }
  EndStream(lock);
  next_log_ = Clock::now();
  LogIfDue(lock);
  has_ended_ = true;
  changed().notify_all();
}

void MonitorDelivery::StartStream() {
  StreamOptions options;
  options.positive_class = options_.positive_class;
  options.with_baseline = options_.with_baseline;
  options.stall_timeout = options_.stall_timeout;
  if (options_.on_warning) {
    options.on_warning = [this](const std::string& warning) { Tell(warning); };
  }
  const auto stubs = [address = options_.address, tls = options_.tls,
                      token = options_.token]() -> std::shared_ptr<v1::IngestService::Stub> {
    return v1::IngestService::NewStub(CreateChannel(address, tls, token));
  };
  auto started = StreamImpl::Start(stubs, model_, std::move(options), lock_,
                                   options_.on_full == OnFull::kDrop);
  is_prepared_ = false;
  if (started.ok()) {
    stream_ = *std::move(started);
  } else {
    error_ = started.status();
    starts_from_ = Clock::now() + backoff_.Next();
  }
}

bool MonitorDelivery::HasWork() const {
  if (unreported_.any() || delivering_ || !taken_.empty()) return true;
  return !queue_.empty() && (flushing_ > 0 || closing_ || Clock::now() >= due_);
}

void MonitorDelivery::DeliverSome(Lock& lock) {
  delivering_ = true;
  while (!queue_.empty() && taken_.size() < kMaxTaken) {
    taken_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  lock.unlock();
  std::size_t bytes = 0;
  absl::Status prepared = is_prepared_ ? absl::OkStatus() : stream_->Prepare();
  is_prepared_ = prepared.ok();
  lock.lock();
  if (is_prepared_) stream_->AddDropped(std::exchange(unreported_, {}));
  while (is_prepared_ && !taken_.empty() && stream_->has_room() && stream_->failure().ok()) {
    const auto given = [&] {
      const StreamCounts& counts = stream_->counts_so_far();
      return counts.rows + counts.labels.labels;
    };
    const std::int64_t before = given();
    QueuedRow& row = taken_.front();
    const std::size_t size = row.bytes();
    const bool is_label = row.is_label;
    lock.unlock();
    const absl::Status status = Deliver(*stream_, row);
    lock.lock();
    bytes += size;
    taken_.pop_front();
    if (status.ok() || given() != before) continue;
    // The thread may be without memory afterwards, so the row is counted at once.
    const Dropped one = OneDropped(is_label);
    past_.dropped_rows += one.rows;
    past_.labels.dropped += one.labels;
    stream_->AddDropped(one);
    if (first_fault_.empty()) first_fault_ = std::string(status.message());
  }
  lock.unlock();
  if (is_prepared_) stream_->PushBuffered();
  lock.lock();
  queue_bytes_ -= bytes;
  if (prepared.ok()) {
    error_ = absl::OkStatus();
    delivering_ = !taken_.empty() || stream_->has_buffered();
  } else {
    stream_->Fail(std::move(prepared));
  }
  changed().notify_all();
}

void MonitorDelivery::StartOver(Lock& lock) {
  const StreamCounts& counts = stream_->counts_so_far();
  if (counts.accepted_rows + counts.labels.accepted > 0) backoff_.Reset();
  error_ = stream_->failure();
  if (options_.on_full == OnFull::kBlock) failure_ = error_;
  // What may have no memory comes before the counts, because it is then done again.
  starts_from_ = Clock::now() + backoff_.Next(RetryDelay(error_));
  const Dropped lost = LostOf(counts);
  past_.dropped_rows += lost.rows;
  past_.labels.dropped += lost.labels;
  unreported_.Add(lost);
  unreported_.Add(stream_->unsettled_dropped());
  EndStream(lock);
  delivering_ = !taken_.empty();
}

void MonitorDelivery::EndStream(Lock& lock) {
  if (stream_ == nullptr) return;
  AddTo(past_, stream_->counts_so_far());
  std::unique_ptr<StreamImpl> ended = std::move(stream_);
  stream_is_ending_ = true;
  lock.unlock();
  ended.reset();
  lock.lock();
  stream_is_ending_ = false;
  changed().notify_all();
}

void MonitorDelivery::LogIfDue(Lock& lock) {
  const StreamCounts total = Counts();
  const std::int64_t dropped = total.dropped_rows + total.labels.dropped;
  const Clock::time_point now = Clock::now();
  if (dropped == logged_ || now < next_log_) return;
  const std::int64_t since = dropped - std::exchange(logged_, dropped);
  next_log_ = now + kBetweenLogLines;
  const absl::Status error = Error();
  std::string cause = "the server does not keep up";
  if (!error.ok()) {
    // Recover has no text.
    cause = error.message().empty() ? "there was no memory" : std::string(error.message());
  } else if (!first_fault_.empty()) {
    cause = absl::StrCat("the first invalid one: ", first_fault_);
  }
  lock.unlock();
  Warn(absl::StrCat("dropped ", since, since == 1 ? " row or label, " : " rows and labels, ",
                    dropped, " in all; ", cause));
  lock.lock();
}

MonitorDelivery::Clock::time_point MonitorDelivery::NextWake() const {
  Clock::time_point wake = Clock::time_point::max();
  const StreamCounts total = Counts();
  if (total.dropped_rows + total.labels.dropped != logged_) wake = next_log_;
  if (stream_ == nullptr) {
    const bool needs_stream = !queue_.empty() || !taken_.empty() || unreported_.any();
    if (needs_stream && !is_parked_ && !is_unusable_ && failure_.ok()) {
      wake = std::min(wake, starts_from_);
    }
    return wake;
  }
  if (stream_->has_room() && !queue_.empty()) wake = std::min(wake, due_);
  if (const auto stall = stream_->stall_deadline()) wake = std::min(wake, *stall);
  return wake;
}

void MonitorDelivery::Warn(const std::string& sentence) const {
  Tell(absl::StrCat(model_, ": ", sentence));
}

void MonitorDelivery::Tell(const std::string& warning) const {
  if (options_.on_warning) {
    // A function of the caller may throw anything.
    try {
      options_.on_warning(warning);
      return;
    } catch (...) {
    }
  }
  std::cerr << "calibd: " << warning << std::endl;
}

}  // namespace calibd::client
