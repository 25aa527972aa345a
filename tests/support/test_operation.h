#ifndef CALIBD_TESTS_SUPPORT_TEST_OPERATION_H_
#define CALIBD_TESTS_SUPPORT_TEST_OPERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "server/ingest/commit_queue.h"

namespace calibd::testing {

// The steps of a test operation.
struct TestSteps {
  std::function<absl::Status(server::Store&)> write = [](server::Store&) {
    return absl::OkStatus();
  };
  std::function<void()> undo = [] {};
  std::function<void(const absl::Status&)> finish = [](const absl::Status&) {};
  const server::Model* model = nullptr;
  std::size_t bytes = 0;
  server::Strand* strand = nullptr;
  std::function<void()> apply = [] {};
  std::function<void()> publish = [] {};
};

class TestOperation final : public server::Operation {
 public:
  TestOperation(Target target, TestSteps steps) : target_(target), steps_(std::move(steps)) {}

  [[nodiscard]] Target target() const noexcept override { return target_; }
  [[nodiscard]] const server::Model* model() const noexcept override { return steps_.model; }
  [[nodiscard]] std::size_t bytes() const noexcept override { return steps_.bytes; }
  [[nodiscard]] absl::Status Write(server::Store& store) override { return steps_.write(store); }
  void Undo() override { steps_.undo(); }
  void Finish(server::Store& /*store*/, const absl::Status& committed) override {
    steps_.finish(committed);
  }
  [[nodiscard]] server::Strand* strand() noexcept override { return steps_.strand; }
  void Apply() override { steps_.apply(); }
  void Publish() override { steps_.publish(); }

 private:
  const Target target_;
  const TestSteps steps_;
};

inline void PostToLog(server::CommitQueue& commits, TestSteps steps) {
  commits.Post(std::make_shared<TestOperation>(server::Operation::Target::kLog, std::move(steps)));
}

inline void PostToCatalog(server::CommitQueue& commits, TestSteps steps) {
  commits.Post(
      std::make_shared<TestOperation>(server::Operation::Target::kCatalog, std::move(steps)));
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_TEST_OPERATION_H_
