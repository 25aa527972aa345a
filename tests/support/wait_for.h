#ifndef CALIBD_TESTS_SUPPORT_WAIT_FOR_H_
#define CALIBD_TESTS_SUPPORT_WAIT_FOR_H_

#include <chrono>
#include <functional>

namespace calibd::testing {

// Waits until condition() holds, asking every few milliseconds. Returns whether
// it held before the deadline.
bool WaitFor(const std::function<bool()>& condition,
             std::chrono::milliseconds deadline = std::chrono::seconds(20));

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_WAIT_FOR_H_
