#ifndef CALIBD_TESTS_FUZZ_REQUIRE_H_
#define CALIBD_TESTS_FUZZ_REQUIRE_H_

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace calibd::testing {

// Ends the process if the condition is false, so that libFuzzer saves the input.
inline void Require(bool condition, std::string_view what) {
  if (!condition) {
    std::cerr << "not so: " << what << std::endl;
    std::abort();
  }
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_FUZZ_REQUIRE_H_
