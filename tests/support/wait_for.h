#ifndef CALIBD_TESTS_SUPPORT_WAIT_FOR_H_
#define CALIBD_TESTS_SUPPORT_WAIT_FOR_H_

#include <chrono>
#include <functional>

namespace calibd::testing {

// Waits until condition() is true, checking every few milliseconds. Returns whether it became true
// before the deadline. A passing test never waits until the deadline, which is therefore far beyond
// what a busy machine needs.
bool WaitFor(const std::function<bool()>& condition,
             std::chrono::milliseconds deadline = std::chrono::seconds(60));

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_WAIT_FOR_H_
