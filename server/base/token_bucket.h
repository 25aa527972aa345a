#ifndef CALIBD_SERVER_BASE_TOKEN_BUCKET_H_
#define CALIBD_SERVER_BASE_TOKEN_BUCKET_H_

#include <algorithm>
#include <chrono>

namespace calibd::server {

// Limits the rate of events, but allows a burst after a pause. Not thread-safe.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // rate: events per second. The bucket is full at first.
  TokenBucket(double rate, double burst) noexcept : rate_(rate), burst_(burst), tokens_(burst) {}

  // Returns false if this many events exceed the rate. now: must not decrease.
  [[nodiscard]] bool Take(Time now, double events = 1) noexcept {
    Fill(now);
    if (tokens_ < events) return false;
    tokens_ -= events;
    return true;
  }

  // Takes this many events, even more than there are: the next ones then wait for longer.
  void Spend(Time now, double events) noexcept {
    Fill(now);
    tokens_ -= events;
  }

  // Time until this many events are within the rate; 0 if they are now. More than the burst never
  // are.
  [[nodiscard]] std::chrono::duration<double> Wait(Time now, double events = 1) noexcept {
    Fill(now);
    return std::chrono::duration<double>(tokens_ >= events ? 0 : (events - tokens_) / rate_);
  }

  // Changes the rate and the burst from the last event on.
  void SetRate(double rate, double burst) noexcept {
    rate_ = rate;
    burst_ = burst;
    tokens_ = std::min(tokens_, burst);
  }

  [[nodiscard]] bool full(Time now) noexcept {
    Fill(now);
    return tokens_ >= burst_;
  }

 private:
  void Fill(Time now) noexcept {
    if (filled_ != Time()) {
      const std::chrono::duration<double> passed = now - filled_;
      tokens_ = std::min(burst_, tokens_ + rate_ * passed.count());
    }
    filled_ = now;
  }

  double rate_;
  double burst_;
  double tokens_;
  Time filled_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_TOKEN_BUCKET_H_
