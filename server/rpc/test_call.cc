#include "server/rpc/test_call.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/convert/lens.h"
#include "server/errors.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/provenance.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};
constexpr std::int32_t kDefaultReplicates = 1000;

std::uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

void Describe(const ModelDeclaration& declaration, const Lens& lens,
              const QuadraticTestOutcome& outcome, v1::QuadraticTestResult& proto) {
  DescribeProvenance(declaration, outcome.result.bandwidth, outcome.first_observation,
                     outcome.last_observation, outcome.compute_time, *proto.mutable_provenance());
  convert::ToProto(lens, outcome.result, proto);
  SetProto(outcome.elapsed, *proto.mutable_elapsed());
}

}  // namespace

TestCall* TestCall::Begin(const ModelRegistry& registry, QuadraticTests& tests,
                          const v1::RunTestRequest& request) {
  auto call = std::make_shared<TestCall>();
  const std::lock_guard lock(call->mutex_);
  call->self_ = call;
  const absl::Status submitted =
      CatchExceptions([&] { return call->Submit(registry, tests, request); });
  if (submitted.ok()) {
    // Tells the client that the test is accepted.
    call->next_.emplace().mutable_progress();
  } else {
    call->end_status_ = submitted;
  }
  call->Advance();
  return call.get();
}

absl::Status TestCall::Submit(const ModelRegistry& registry, QuadraticTests& tests,
                              const v1::RunTestRequest& request) {
  const absl::StatusOr<ModelName> name = ParseModelName("model", request.model());
  if (!name.ok()) {
    return name.status();
  }
  if (request.window() < 0) {
    return InvalidFieldError("window", absl::StrCat("is ", request.window(), ", expected >= 0"));
  }
  absl::StatusOr<std::shared_ptr<Model>> model = registry.Find(*name);
  if (!model.ok()) {
    return model.status();
  }
  const absl::StatusOr<Lens> lens =
      convert::FromProto(request.lens(), (*model)->declaration().class_count);
  if (!lens.ok()) {
    return InvalidFieldError("lens", std::string(lens.status().message()));
  }
  QuadraticTestRequest test;
  test.model = *model;
  test.lens = *lens;
  test.bootstrap.replicates = request.has_replicates() ? request.replicates() : kDefaultReplicates;
  test.bootstrap.seed = request.has_seed() ? request.seed() : RandomSeed();
  test.observations = static_cast<std::size_t>(request.window());
  QuadraticTests::Watcher watcher;
  watcher.progress = [self = shared_from_this()](double fraction) { self->OnProgress(fraction); };
  watcher.done = [self = shared_from_this(), model = *model,
                  lens = *lens](const absl::StatusOr<QuadraticTestOutcome>& outcome) {
    self->OnOutcome(model->declaration(), lens, outcome);
  };
  absl::StatusOr<std::shared_ptr<QuadraticTests::Job>> job =
      tests.Submit(std::move(test), std::move(watcher));
  if (!job.ok()) {
    return job.status();
  }
  job_ = *std::move(job);
  return absl::OkStatus();
}

void TestCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok) {
    Stop();
  }
  Advance();
}

void TestCall::OnCancel() {
  const std::lock_guard lock(mutex_);
  Stop();
  Advance();
}

void TestCall::OnDone() {
  // Goes, maybe as the last owner, after the lock is released.
  std::shared_ptr<TestCall> self;
  const std::lock_guard lock(mutex_);
  self = std::move(self_);
}

void TestCall::OnProgress(double fraction) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_progress_) {
    return;
  }
  next_progress_ = now + kProgressInterval;
  next_.emplace().mutable_progress()->set_fraction(fraction);
  Advance();
}

void TestCall::OnOutcome(const ModelDeclaration& declaration, const Lens& lens,
                         const absl::StatusOr<QuadraticTestOutcome>& outcome) {
  const std::lock_guard lock(mutex_);
  next_.reset();
  if (outcome.ok()) {
    Describe(declaration, lens, *outcome, *next_.emplace().mutable_result());
  }
  end_status_ = outcome.status();
  Advance();
}

void TestCall::Stop() {
  cancelled_ = true;
  if (job_ != nullptr) {
    job_->Cancel();
  }
}

void TestCall::Advance() {
  // A write that is pending comes back by itself, also when cancelled.
  if (self_ == nullptr || finished_ || writing_) {
    return;
  }
  if (cancelled_) {
    finished_ = true;
    Finish(ToGrpcStatus(absl::CancelledError("the client is gone")));
  } else if (next_.has_value()) {
    written_ = *std::move(next_);
    next_.reset();
    writing_ = true;
    StartWrite(&written_);
  } else if (end_status_.has_value()) {
    finished_ = true;
    Finish(ToGrpcStatus(*end_status_));
  }
}

}  // namespace calibd::server
