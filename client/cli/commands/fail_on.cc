#include "client/cli/commands/fail_on.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::cli {
namespace {

constexpr char kPValueHelp[] =
    "p-value (that of the quadratic test is at most the significance level)";

// help: what each of the names means.
void AddResultGate(CLI::App& command, ResultGate& gate, const std::vector<std::string>& names,
                   const std::string& help) {
  CLI::Option* const what =
      command
          .add_option("--fail-on", gate.what,
                      absl::StrCat("exit with 3 on ", help,
                                   ". Valid for one look at a chosen number of rows: a gate that "
                                   "runs again and again belongs to `calibctl show --fail-on`"))
          ->check(CLI::IsMember(names));
  command
      .add_option("--significance-level", gate.significance_level,
                  "with p-value: probability of rejecting a calibrated model; default 0.05")
      ->check(CLI::Range(1e-12, 0.5))
      ->needs(what);
}

// The gate of one computation.
Gate MakeGate(const std::string& what, bool fails, const std::string& decision) {
  Gate gate = ToGate({what}, fails ? std::vector{what} : std::vector<std::string>());
  gate.set_decision(decision);
  return gate;
}

}  // namespace

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
        what == "over-limit" ? verdict.limit_status() == v1::CalibrationError::OVER_LIMIT
        : what == "miscalibration"
            ? verdict.status() == v1::Verdict::MISCALIBRATED || is_active(v1::Alarm::EVIDENCE)
        : what == "drift" ? verdict.status() == v1::Verdict::DRIFTED || is_active(v1::Alarm::DRIFT)
                          : verdict.limit_status() <= v1::CalibrationError::UNDECIDED ||
                                verdict.status() == v1::Verdict::INSUFFICIENT_DATA;
    if (fails) failures.push_back(what);
  }
  return failures;
}

Gate ToGate(const VerdictGate& gate, const std::vector<std::string>& failures) {
  Gate proto;
  proto.mutable_fail_on()->Add(gate.begin(), gate.end());
  proto.mutable_failed_on()->Add(failures.begin(), failures.end());
  return proto;
}

void AddPValueGate(CLI::App& command, ResultGate& gate) {
  AddResultGate(command, gate, {"p-value"}, kPValueHelp);
}

void AddEvaluationGate(CLI::App& command, ResultGate& gate) {
  AddResultGate(command, gate, {"over-limit", "p-value"},
                absl::StrCat("over-limit (of files: the whole interval of the error is above "
                             "--error-limit), or on ",
                             kPValueHelp));
}

Decision DecideByPValue(const v1::QuadraticTestResult& result, double significance_level) {
  const bool rejected = result.p_value() <= significance_level;
  const char* const name = rejected ? "REJECTED" : "NOT_REJECTED";
  Decision decision{.fails = rejected,
                    .sentence = absl::StrFormat(
                        "%s: p = %.3g, %s the significance level %.3g (one look)\n", name,
                        result.p_value(), rejected ? "at most" : "above", significance_level),
                    .gate = MakeGate("p-value", rejected, name)};
  decision.gate.set_significance_level(significance_level);
  return decision;
}

Decision DecideByLimit(const v1::Evaluation& evaluation, double error_limit) {
  const v1::CalibrationError::Status status = convert::StatusAgainst(evaluation, error_limit);
  const bool fails = status == v1::CalibrationError::OVER_LIMIT;
  Decision decision{.fails = fails,
                    .sentence = fails ? "failed on over-limit\n" : "",
                    .gate = MakeGate("over-limit", fails, convert::StatusName(status))};
  decision.gate.set_error_limit(error_limit);
  return decision;
}

std::optional<std::string> FindUsageFault(const ResultGate& gate, int replicates) {
  if (gate.what != "p-value") return std::nullopt;
  if (replicates == 0) return "--fail-on p-value needs a test: --replicates must not be 0";
  const double smallest = 1.0 / (1.0 + replicates);
  if (smallest <= gate.significance_level) return std::nullopt;
  return absl::StrFormat(
      "with --replicates %d no p-value is below %.3g: --significance-level %.3g cannot be reached",
      replicates, smallest, gate.significance_level);
}

}  // namespace calibd::cli
