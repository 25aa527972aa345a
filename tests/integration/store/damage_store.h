#ifndef CALIBD_TESTS_INTEGRATION_STORE_DAMAGE_STORE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_DAMAGE_STORE_H_

#include <cstdint>
#include <filesystem>

#include "integration/store/store_answers.h"
#include "support/temporary_folder.h"

namespace calibd::testing {

// A store with everything that calibd stores: monitored models with groups and alarms; histories of
// all resolutions; pending and matured predictions; producers; a deleted model; several files of
// the log, and rows of removed files. Its newest files have about 100 KiB each, so that copying is
// fast.
class DamageStore {
 public:
  // Makes the store; call it once and first. seed: the seed of the observations. Stores of
  // different seeds have equal shapes: the same models, the same numbers of batches, and files with
  // the same names. Takes some seconds. Fails the test if the store cannot be made.
  void Make(std::uint64_t seed);

  // A test must not change these folders.
  [[nodiscard]] std::filesystem::path killed() const { return folder_.path() / "killed"; }
  // The store after a clean stop.
  [[nodiscard]] std::filesystem::path stopped() const { return folder_.path() / "stopped"; }
  // The store before its newest batches, after a clean stop and after a kill.
  [[nodiscard]] std::filesystem::path earlier_stopped() const {
    return folder_.path() / "earlier_stopped";
  }
  [[nodiscard]] std::filesystem::path earlier_killed() const {
    return folder_.path() / "earlier_killed";
  }

  [[nodiscard]] const Questions& questions() const { return questions_; }

 private:
  void Fill(const std::filesystem::path& data, std::uint64_t seed);
  void Serve(const std::filesystem::path& data, std::uint64_t seed);

  TemporaryFolder folder_;
  Questions questions_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_DAMAGE_STORE_H_
