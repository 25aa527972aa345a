// Options of the thread sanitizer for engine_test. A build without it does not use them.

// Debian's Abseil is not instrumented. The thread sanitizer sees that a thread takes a reference to
// the text of a status, and not that it gives it back, so that the deletion by the last owner looks
// like a race.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:absl::*::Status::Unref\n";
}
