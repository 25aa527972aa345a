#include "fail_on.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace calibd::cli {

void AddVerdictGate(CLI::App& command, VerdictGate& gate) {
  command
      .add_option("--fail-on", gate,
                  "exit with 3 if the verdict says so; a list of over-limit (the error exceeds the "
                  "limit, acknowledged or not), miscalibration (calibration is rejected), drift, "
                  "and undecided (the answer about the limit, or too little data)")
      ->delimiter(',')
      ->check(CLI::IsMember({"over-limit", "miscalibration", "drift", "undecided"}));
}

std::vector<std::string> FailuresOf(const v1::Verdict& verdict,
                                    const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms,
                                    const VerdictGate& gate) {
  const auto is_active = [&alarms](v1::Alarm::Kind kind) {
    return std::any_of(alarms.begin(), alarms.end(), [kind](const v1::Alarm& alarm) {
      return alarm.kind() == kind && !alarm.has_acknowledge_time();
    });
  };
  std::vector<std::string> failures;
  for (const std::string& what : gate) {
    const bool fails =
        what == "over-limit"       ? verdict.limit_status() == v1::LIMIT_STATUS_OVER_LIMIT
        : what == "miscalibration" ? verdict.status() == v1::Verdict::STATUS_MISCALIBRATED ||
                                         is_active(v1::Alarm::KIND_EVIDENCE)
        : what == "drift"
            ? verdict.status() == v1::Verdict::STATUS_DRIFTED || is_active(v1::Alarm::KIND_DRIFT)
            : verdict.limit_status() <= v1::LIMIT_STATUS_UNDECIDED ||
                  verdict.status() == v1::Verdict::STATUS_INSUFFICIENT_DATA;
    if (fails) failures.push_back(what);
  }
  return failures;
}

Json GateJson(const VerdictGate& gate, const std::vector<std::string>& failures) {
  return {{"fail_on", gate}, {"failed_on", failures}};
}

void AddPValueGate(CLI::App& command, PValueGate& gate) {
  CLI::Option* const what =
      command
          .add_option(
              "--fail-on", gate.what,
              "\"p-value\": exit with 3 if the p-value of the bootstrap test is at most the "
              "significance level. It is valid for one look at a chosen number of rows: a "
              "gate that runs again and again belongs to `calibctl show --fail-on`")
          ->check(CLI::IsMember({"p-value"}));
  command
      .add_option("--significance-level", gate.significance_level,
                  "probability of rejecting a calibrated model, in one look; default 0.05")
      ->check(CLI::Range(1e-12, 0.5))
      ->needs(what);
}

Decision Decide(const v1::QuadraticTestResult& result, const PValueGate& gate) {
  const bool rejected = result.p_value() <= gate.significance_level;
  return {.rejected = rejected,
          .significance_level = gate.significance_level,
          .sentence = absl::StrFormat("%s: p = %.3g, %s the significance level %.3g (one look)\n",
                                      rejected ? "REJECTED" : "NOT_REJECTED", result.p_value(),
                                      rejected ? "at most" : "above", gate.significance_level)};
}

std::optional<std::string> FindUsageFault(const PValueGate& gate, int replicates) {
  if (!gate.active()) return std::nullopt;
  if (replicates == 0) return "--fail-on needs the bootstrap test: --replicates must not be 0";
  const double smallest = 1.0 / (1.0 + replicates);
  if (smallest <= gate.significance_level) return std::nullopt;
  return absl::StrFormat(
      "with --replicates %d no p-value is below %.6g: --significance-level %.6g cannot be reached",
      replicates, smallest, gate.significance_level);
}

Json ToJson(const Decision& decision) {
  return {{"fail_on", "p-value"},
          {"significance_level", decision.significance_level},
          {"decision", decision.rejected ? "REJECTED" : "NOT_REJECTED"}};
}

}  // namespace calibd::cli
