#include "server/access/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/access/policy.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class QuotaTest : public ::testing::Test {
 protected:
  void Limit(QuotaKind kind, std::uint64_t limit) {
    limits_[static_cast<std::size_t>(kind)] = limit;
    quota_->SetLimits(limits_);
  }
  bool TakesBatch(std::uint64_t rows, Quota::Clock::time_point now) {
    Quota::Part part;
    return !quota_->TakeBatch(rows, 1, part, now).has_value();
  }

  const std::shared_ptr<Quota> quota_ = std::make_shared<Quota>("team");
  const Quota::Clock::time_point start_ = Quota::Clock::now();

 private:
  QuotaLimits limits_;
};

TEST_F(QuotaTest, WithoutALimitEverythingIsTaken) {
  Quota::Part parts[3];
  for (Quota::Part& part : parts) {
    EXPECT_FALSE(quota_->Take(QuotaKind::kStreams, part).has_value());
  }
  EXPECT_TRUE(TakesBatch(1'000'000'000, start_));
  EXPECT_TRUE(TakesBatch(1'000'000'000, start_));
  Quota::Part running;
  Quota::Part other;
  EXPECT_FALSE(quota_->TakeCompute(1e9, running, start_).has_value());
  EXPECT_FALSE(quota_->TakeCompute(1e9, other, start_).has_value());
}

TEST_F(QuotaTest, APartIsReturnedOnce) {
  Limit(QuotaKind::kStreams, 2);
  Quota::Part first;
  Quota::Part second;
  Quota::Part third;
  EXPECT_FALSE(quota_->Take(QuotaKind::kStreams, first).has_value());
  EXPECT_FALSE(quota_->Take(QuotaKind::kStreams, second).has_value());
  EXPECT_TRUE(quota_->Take(QuotaKind::kStreams, third).has_value());
  // The other kinds have limits of their own.
  EXPECT_FALSE(quota_->Take(QuotaKind::kWatches, third).has_value());
  Quota::Part moved = std::move(first);
  first = std::move(moved);
  EXPECT_TRUE(quota_->Take(QuotaKind::kStreams, third).has_value());
  first = Quota::Part();
  EXPECT_FALSE(quota_->Take(QuotaKind::kStreams, third).has_value());
  EXPECT_TRUE(quota_->Take(QuotaKind::kStreams, first).has_value());
}

TEST_F(QuotaTest, TheAverageOfRowsIsTheRate) {
  Limit(QuotaKind::kRowsPerSecond, 100);
  // A large batch passes, and the next one waits until its rows are paid.
  EXPECT_TRUE(TakesBatch(1000, start_));
  Quota::Part part;
  const auto refusal = quota_->TakeBatch(1, 1, part, start_ + 1s);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, QuotaKind::kRowsPerSecond);
  // 1000 rows, less the burst of 100 and the 100 of the first second, and one that is free.
  EXPECT_EQ(refusal->wait, 8010ms);
  EXPECT_FALSE(TakesBatch(1, start_ + 1s + 8009ms));
  EXPECT_TRUE(TakesBatch(1, start_ + 1s + 8011ms));
  // A refused batch costs nothing.
  std::int64_t rows = 0;
  const auto begin = start_ + 100s;
  for (auto now = begin; now < begin + 100s; now += 10ms) rows += TakesBatch(30, now) ? 30 : 0;
  EXPECT_GE(rows, 10'000);
  EXPECT_LE(rows, 10'130);
}

TEST_F(QuotaTest, ABatchOfAnySizePassesAlone) {
  Limit(QuotaKind::kPendingBytes, 100);
  Quota::Part large;
  Quota::Part other;
  EXPECT_FALSE(quota_->TakeBatch(1, 1000, large, start_).has_value());
  const auto refusal = quota_->TakeBatch(1, 10, other, start_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, QuotaKind::kPendingBytes);
  EXPECT_EQ(refusal->used, 1000U);
  large = Quota::Part();
  EXPECT_FALSE(quota_->TakeBatch(1, 60, large, start_).has_value());
  EXPECT_FALSE(quota_->TakeBatch(1, 40, other, start_).has_value());
}

TEST_F(QuotaTest, ComputationsWaitUntilTheirTimeIsPaid) {
  Limit(QuotaKind::kComputeSecondsPerHour, 3600);
  const auto refused = [this](Quota::Clock::time_point now) {
    Quota::Part part;
    return quota_->TakeCompute(1, part, now);
  };
  EXPECT_FALSE(refused(start_).has_value());
  quota_->SpendCompute(4000, start_);
  const auto refusal = refused(start_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->wait, 401s);
  const auto later = start_ + 402s;
  EXPECT_FALSE(refused(later).has_value());
  // Another limit applies to what was spent.
  quota_->SpendCompute(4001, later);
  Limit(QuotaKind::kComputeSecondsPerHour, 36000);
  EXPECT_EQ(refused(later)->wait, 400s);
  // A limit that is removed for a while does not forget it.
  quota_->SetLimits({});
  EXPECT_FALSE(refused(later).has_value());
  Limit(QuotaKind::kComputeSecondsPerHour, 36000);
  EXPECT_EQ(refused(later)->wait, 400s);
}

TEST_F(QuotaTest, RunningComputationsCountWithWhatTheyMayNeed) {
  Limit(QuotaKind::kComputeSecondsPerHour, 100);
  Quota::Part large;
  Quota::Part small;
  Quota::Part other;
  EXPECT_FALSE(quota_->TakeCompute(60, large, start_).has_value());
  EXPECT_FALSE(quota_->TakeCompute(40, small, start_).has_value());
  const auto refusal = quota_->TakeCompute(1, other, start_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->used, 100U);
  EXPECT_THAT(std::string(quota_->ErrorOf(*refusal).message()),
              HasSubstr("of team is 100: the running tests and evaluations may need 100 s"));
  // When it has ended, what it has taken counts.
  quota_->SpendCompute(2, start_);
  large = Quota::Part();
  EXPECT_FALSE(quota_->TakeCompute(1, other, start_).has_value());
  // One of any size may begin alone.
  small = Quota::Part();
  other = Quota::Part();
  EXPECT_FALSE(quota_->TakeCompute(1e9, large, start_).has_value());
  EXPECT_TRUE(quota_->TakeCompute(1, other, start_).has_value());
}

TEST_F(QuotaTest, BatchesThatWaitPassInTheirOrder) {
  Limit(QuotaKind::kRowsPerSecond, 100);
  Quota::Part parts[3];
  Quota::Turn turns[3];
  const auto refused = [&](std::size_t batch, Quota::Clock::time_point now) {
    return quota_->TakeBatch(100, 1, parts[batch], now, &turns[batch]);
  };
  EXPECT_TRUE(TakesBatch(100, start_));
  EXPECT_EQ(refused(0, start_)->wait, 10ms);
  EXPECT_EQ(refused(1, start_)->wait, 1010ms);
  EXPECT_EQ(refused(2, start_)->wait, 2010ms);
  // The first one has not looked again.
  const auto later = start_ + 20ms;
  const auto refusal = refused(1, later);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, QuotaKind::kRowsPerSecond);
  EXPECT_FALSE(refused(0, later).has_value());
  EXPECT_FALSE(turns[0].waits());
  // One that gives up lets the next one pass.
  turns[1].Leave();
  EXPECT_TRUE(refused(2, later).has_value());
  EXPECT_FALSE(refused(2, later + 1010ms).has_value());
  // A pending batch likewise lets them wait in order.
  Limit(QuotaKind::kPendingBytes, 1);
  const auto end = start_ + 100s;
  EXPECT_EQ(refused(0, end)->kind, QuotaKind::kPendingBytes);
  EXPECT_EQ(refused(1, end)->kind, QuotaKind::kPendingBytes);
  parts[0] = Quota::Part();
  parts[2] = Quota::Part();
  EXPECT_TRUE(refused(1, end).has_value());
  EXPECT_FALSE(refused(0, end).has_value());
}

TEST_F(QuotaTest, ErrorsNameTheQuotaItsValueAndWhatToDo) {
  const absl::Status models =
      quota_->ErrorOf({.kind = QuotaKind::kModels, .limit = 20, .used = 20, .asked = 1});
  EXPECT_TRUE(absl::IsResourceExhausted(models));
  EXPECT_EQ(GetErrorInfo(models)->reason(), "QUOTA_EXCEEDED");
  EXPECT_THAT(std::string(models.message()),
              AllOf(HasSubstr("the quota models of team is 20: "), HasSubstr("20 models"),
                    HasSubstr("delete a model, or ask whoever keeps")));
  constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
  EXPECT_FALSE(models.GetPayload(kRetryInfo).has_value());
  const absl::Status rows = quota_->ErrorOf(
      {.kind = QuotaKind::kRowsPerSecond, .limit = 100, .asked = 30, .wait = 250ms});
  EXPECT_THAT(std::string(rows.message()),
              AllOf(HasSubstr("the quota rows_per_second of team is 100: "), HasSubstr("30"),
                    HasSubstr("in 250 ms")));
  const auto payload = rows.GetPayload(kRetryInfo);
  ASSERT_TRUE(payload.has_value());
  rpc::RetryInfo info;
  ASSERT_TRUE(info.ParseFromString(std::string(*payload)));
  EXPECT_EQ(info.retry_delay().nanos(), 250'000'000);
}

std::string WithQuota(const std::string& quota) {
  return absl::StrCat("[[principal]]\nname = \"a\"\nquota = ", quota, "\n");
}

TEST(PolicyQuotaTest, ReadsTheQuotaOfAPrincipal) {
  const auto policy = Policy::Parse(
      WithQuota("{ rows_per_second = 200000, models = 20, pending_bytes = \"64MiB\", streams = 32, "
                "watches = 20, compute_seconds_per_hour = 600 }"));
  ASSERT_TRUE(policy.ok()) << policy.status();
  Policy::Quotas quotas;
  (*policy)->SetQuotas(quotas, Quota::Clock::now());
  const QuotaLimits expected{20, 200000, 64U << 20U, 32, 20, 600};
  for (std::size_t kind = 0; kind < expected.size(); ++kind) {
    EXPECT_EQ((*policy)->principals()[0].quota->limit(static_cast<QuotaKind>(kind)), expected[kind])
        << kind;
  }
  const auto few = Policy::Parse(WithQuota("{ pending_bytes = 4096 }"));
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(
      (*few)->principals()[0].limits,
      (QuotaLimits{std::nullopt, std::nullopt, 4096, std::nullopt, std::nullopt, std::nullopt}));
}

TEST(PolicyQuotaTest, ErrorsNameTheQuota) {
  const auto refused = [](const std::string& quota) {
    return std::string(Policy::Parse(WithQuota(quota)).status().message());
  };
  EXPECT_THAT(refused("3"), HasSubstr("line 3: quota is not a table, expected a table such as {"));
  EXPECT_THAT(refused("{ rows = 3 }"), HasSubstr("line 3: the quota is \"rows\", expected"));
  EXPECT_THAT(refused("{ models = 0 }"),
              HasSubstr("line 3: quota.models is 0, expected a whole number from 1 to 2^50"));
  EXPECT_THAT(refused("{ models = -1 }"), HasSubstr("quota.models is -1, expected"));
  EXPECT_THAT(refused("{ streams = 1.5 }"), HasSubstr("quota.streams is 1.5, expected"));
  EXPECT_THAT(refused("{ streams = \"64MiB\" }"),
              HasSubstr("quota.streams is \"64MiB\", expected"));
  EXPECT_THAT(refused("{ watches = [1] }"), HasSubstr("quota.watches is of another type"));
  for (const std::string bytes :
       {"64", "64MB", "MiB", "-1MiB", "1.5GiB", "0KiB", "99999999999GiB"}) {
    EXPECT_THAT(refused(absl::StrCat("{ pending_bytes = \"", bytes, "\" }")),
                HasSubstr(absl::StrCat("quota.pending_bytes is \"", bytes,
                                       "\", expected a number of bytes")))
        << bytes;
  }
}

// What is in use when the file changes stays in use.
TEST(PolicyQuotaTest, ANewPolicyTakesOverWhatIsInUse) {
  Policy::Quotas quotas;
  const auto now = Quota::Clock::now();
  const auto former = *Policy::Parse(WithQuota("{ streams = 2 }"));
  former->SetQuotas(quotas, now);
  Quota::Part first;
  Quota::Part second;
  EXPECT_FALSE(former->principals()[0].quota->Take(QuotaKind::kStreams, first).has_value());
  const auto next = *Policy::Parse(WithQuota("{ streams = 1 }"));
  EXPECT_FALSE(former->principals()[0].quota->Take(QuotaKind::kStreams, second).has_value());
  second = Quota::Part();
  next->SetQuotas(quotas, now);
  EXPECT_TRUE(next->principals()[0].quota->Take(QuotaKind::kStreams, second).has_value());
  EXPECT_TRUE(former->principals()[0].quota->Take(QuotaKind::kStreams, second).has_value());
  first = Quota::Part();
  EXPECT_FALSE(next->principals()[0].quota->Take(QuotaKind::kStreams, second).has_value());
}

TEST(PolicyQuotaTest, APrincipalThatComesBackFindsWhatItHasSpent) {
  Policy::Quotas quotas;
  const auto now = Quota::Clock::now();
  const std::string with = WithQuota("{ compute_seconds_per_hour = 10 }");
  const auto apply = [&quotas](const std::string& text, Quota::Clock::time_point at) {
    const std::shared_ptr<Policy> policy = *Policy::Parse(text);
    policy->SetQuotas(quotas, at);
    return policy;
  };
  const auto refuses = [](const Policy& policy, Quota::Clock::time_point at) {
    Quota::Part part;
    return policy.principals()[0].quota->TakeCompute(1, part, at).has_value();
  };
  apply(with, now)->principals()[0].quota->SpendCompute(10, now);
  apply("[[principal]]\nname = \"b\"\n", now);
  EXPECT_TRUE(refuses(*apply(with, now + 1s), now + 1s));
  // Once it is paid, the name is forgotten.
  apply("[[principal]]\nname = \"b\"\n", now + 2h);
  EXPECT_FALSE(quotas.contains("a"));
  EXPECT_FALSE(refuses(*apply(with, now + 2h), now + 2h));
}

}  // namespace
}  // namespace calibd::server
