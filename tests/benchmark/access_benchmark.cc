// Google Benchmark of what the rights of callers add to each call.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/access/access_control.h"
#include "support/server_process.h"

namespace calibd::server {
namespace {

// A file of ten thousand tokens and a hundred client certificates. The last principal has both.
std::string PolicyText(const std::string& token) {
  constexpr int kOthers = 9999;
  constexpr int kOtherCertificates = 99;
  std::string text;
  for (int i = 0; i <= kOthers; ++i) {
    const TokenHash hash = HashToken(i < kOthers ? absl::StrCat("other", i) : token);
    absl::StrAppend(&text, "[[principal]]\nname = \"p", i, "\"\ntokens = [\"sha256:",
                    absl::BytesToHexString(
                        absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size())),
                    ":2999-01-01\"]\n");
    if (i >= kOthers - kOtherCertificates) {
      absl::StrAppend(&text, "certificates = [\"spiffe://corp/ns/n", i, "/*\"]\n");
    }
    absl::StrAppend(&text, "grants = [\"reader models/a*\", \"writer models/b*\"]\n");
  }
  return text;
}

const AccessControl& Control() {
  static const testing::TemporaryFolder folder;
  static AuditLog audit;
  static const std::unique_ptr<AccessControl> control = [] {
    const std::string file = (folder.path() / "access.toml").string();
    std::ofstream(file) << PolicyText("calibd_" + std::string(72, 'a'));
    return *AccessControl::Open(file, audit);
  }();
  return *control;
}

void Check(benchmark::State& state, const Credentials& credentials) {
  const AccessControl& control = Control();
  const std::string resource = "models/b1";
  for (auto _ : state) {
    const auto caller = control.Identify(credentials);
    const bool allowed =
        caller.ok() &&
        control.Check(*caller, "127.0.0.1:1", "Observe", Role::kWriter, resource).ok();
    if (!allowed) state.SkipWithError("the call is refused");
  }
}

void ByToken(benchmark::State& state) {
  const std::string header = "Bearer calibd_" + std::string(72, 'a');
  Check(state, {.authorization = header});
}

void ByCertificate(benchmark::State& state) {
  Check(state, {.certificate_names = {"spiffe://corp/ns/n9999/sa/sender"}});
}

BENCHMARK(ByToken)->ThreadRange(1, 2);
BENCHMARK(ByCertificate)->ThreadRange(1, 2);

}  // namespace
}  // namespace calibd::server

BENCHMARK_MAIN();
