#ifndef CALIBD_CLIENT_PYTHON_NATIVE_LONG_WORK_H_
#define CALIBD_CLIENT_PYTHON_NATIVE_LONG_WORK_H_

#include <pybind11/pybind11.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/run_control.h"

namespace calibd::python {

// What work returns: a serialized message.
using Work = std::function<absl::StatusOr<std::string>(const RunControl& control)>;

// Runs `work` on another thread, without the interpreter's lock, so that other Python threads go
// on. The calling thread handles signals meanwhile and calls on_progress, unless it is None, with
// the completed fraction. If either raises an exception, such as KeyboardInterrupt, the work is
// cancelled and the exception is passed on. threads: those of the parallel loops, >= 1.
//
// Returns (code, message, serialized message): the absl::StatusCode, and the message of the error
// or the result.
[[nodiscard]] pybind11::tuple RunLong(const Work& work, unsigned threads,
                                      const pybind11::object& on_progress);

}  // namespace calibd::python

#endif  // CALIBD_CLIENT_PYTHON_NATIVE_LONG_WORK_H_
