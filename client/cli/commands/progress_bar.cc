#include "client/cli/commands/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace calibd::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kBetweenDraws{100};
constexpr std::chrono::seconds kBeforeFirstLine{10};
constexpr std::chrono::seconds kBetweenLines{30};
constexpr char kClearToEndOfLine[] = "\x1b[K";

std::string DurationText(double seconds) {
  const auto whole = std::llround(std::min(seconds, 1e9));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ProgressLine(const std::string& label, const std::string& unit, double done,
                         double total, double elapsed_seconds) {
  const double fraction = std::clamp(done / total, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(fraction * kBarWidth);
  std::string line = absl::StrFormat("%s [%s%s] %3.0f %%", label, std::string(filled, '#'),
                                     std::string(kBarWidth - filled, '.'), 100 * fraction);
  const double rate = elapsed_seconds > 0 ? done / elapsed_seconds : 0;
  if (!unit.empty()) absl::StrAppendFormat(&line, "  %.0f %s  %.0f %s/s", done, unit, rate, unit);
  if (rate > 0) absl::StrAppend(&line, "  ETA ", DurationText((total - done) / rate));
  return line;
}

std::string ProgressNote(const std::string& label, double done, double total,
                         double elapsed_seconds) {
  return absl::StrFormat("%s: %.0f %% after %s", label, 100 * std::clamp(done / total, 0.0, 1.0),
                         DurationText(elapsed_seconds));
}

ProgressBar::ProgressBar(std::string label, std::string unit, double total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      started_(Clock::now()) {
  if (!terminal_) writer_ = std::jthread([this](const std::stop_token& stop) { WriteLines(stop); });
}

ProgressBar::~ProgressBar() {
  if (!terminal_ || drawn_ == Clock::time_point()) return;
  Draw(Clock::now());
  std::cerr << std::endl;
}

void ProgressBar::Update(double done) {
  done_ = done;
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - drawn_ >= kBetweenDraws) Draw(now);
}

void ProgressBar::Draw(Clock::time_point now) {
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  std::cerr << '\r' << ProgressLine(label_, unit_, done_, total_, elapsed) << kClearToEndOfLine
            << std::flush;
  drawn_ = now;
}

void ProgressBar::WriteLines(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  std::chrono::seconds wait = kBeforeFirstLine;
  while (true) {
    never.wait_for(lock, stop, wait, [] { return false; });
    if (stop.stop_requested()) return;
    const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
    // One write, so that the lines of two threads do not mix.
    std::cerr << absl::StrCat("calibctl: ", ProgressNote(label_, done_, total_, elapsed), "\n");
    wait = kBetweenLines;
  }
}

}  // namespace calibd::cli
