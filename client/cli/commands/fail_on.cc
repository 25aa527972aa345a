#include "client/cli/commands/fail_on.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::cli {
namespace {

constexpr char kOneLookHelp[] =
    ". Valid for one look at a chosen number of rows: a gate that runs again and again belongs to "
    "`calibctl show --fail-on`";

// Why a test with this many replicates cannot reach the level.
std::optional<std::string> FindReplicateFault(const char* what, int replicates, double level) {
  if (replicates == 0) {
    return absl::StrCat("--fail-on ", what, " needs a test: --replicates must not be 0");
  }
  const double smallest = 1.0 / (1.0 + replicates);
  if (smallest <= level) return std::nullopt;
  return absl::StrFormat(
      "with --replicates %d no p-value is below %.3g: the level %.3g cannot be "
      "reached; use more --replicates",
      replicates, smallest, level);
}

// Number of further rows before the error is first compared with the limit; 0 if it was.
std::int64_t NeededForLimit(const v1::CalibrationError& error, const v1::Watch& watch) {
  return std::max<std::int64_t>(0, watch.min_observations() - error.since_start().observations());
}

// Whether it cannot be said if the error changed: the reference is not complete, or there is none.
bool LacksReference(const v1::Verdict& verdict) {
  return verdict.reference_status() <= v1::ReferenceChange::COLLECTING;
}

// Rows of several labels may have no truth.
bool HasNoTruth(const v1::ErrorMeasurement& rows) {
  return rows.observations() > 0 && !rows.has_labels() && !rows.has_top_label() &&
         !rows.has_coverage();
}

}  // namespace

void AddVerdictGate(CLI::App& command, VerdictGate& gate) {
  command
      .add_option(
          "--fail-on", gate,
          "exit with 3 if the verdict says so; a list of over-limit (the error exceeds the "
          "limit, acknowledged or not), miscalibration (calibration is rejected), drift, "
          "changed (the error is not what it was in the reference), undecided (the answer about "
          "the limit, or too little data) and stale (no labelled row for stale_after, so that the "
          "rest says nothing of now). A model with too few "
          "rows to answer any of the others fails too, and the text says how many it has")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"over-limit", "miscalibration", "drift", "changed", "undecided", "stale"}));
}

std::vector<std::string> FailuresOf(const v1::Verdict& verdict, const v1::CalibrationError& error,
                                    const v1::Watch& watch,
                                    const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms,
                                    const VerdictGate& gate) {
  const auto is_active = [&alarms](v1::Alarm::Kind kind) {
    return std::any_of(alarms.begin(), alarms.end(), [kind](const v1::Alarm& alarm) {
      return alarm.kind() == kind && !alarm.has_acknowledge_time();
    });
  };
  // A model without new rows is STALE, and one with an alarm of drift DRIFTED, however few rows it
  // has.
  const bool is_drifted = verdict.status() == v1::Verdict::DRIFTED;
  const bool lacks_evidence =
      verdict.status() == v1::Verdict::INSUFFICIENT_DATA ||
      ((verdict.status() == v1::Verdict::STALE || is_drifted) &&
       (!watch.has_evidence() || watch.observations() < watch.min_observations()));
  const bool is_undecided = verdict.limit_status() <= v1::CalibrationError::UNDECIDED;
  // An acknowledgement of the evidence leaves the rows that answer about the limit.
  const bool lacks_error = lacks_evidence && is_undecided && NeededForLimit(error, watch) > 0;
  bool is_unanswered = false;
  std::vector<std::string> failures;
  for (const std::string& what : gate) {
    const bool is_about_limit = what == "over-limit";
    const bool is_answered = is_drifted && what == "drift";
    if (what == "changed") {
      is_unanswered |= LacksReference(verdict);
    } else if (what != "stale") {
      is_unanswered |= is_about_limit ? lacks_error : lacks_evidence && !is_answered;
    }
    const bool fails =
        is_about_limit ? verdict.limit_status() == v1::CalibrationError::OVER_LIMIT
        : what == "miscalibration"
            ? verdict.status() == v1::Verdict::MISCALIBRATED || is_active(v1::Alarm::EVIDENCE)
        : what == "stale"   ? verdict.stale()
        : what == "changed" ? verdict.reference_status() == v1::ReferenceChange::CHANGED ||
                                  is_active(v1::Alarm::CHANGED)
        : what == "drift" ? verdict.status() == v1::Verdict::DRIFTED || is_active(v1::Alarm::DRIFT)
                          : is_undecided || verdict.status() == v1::Verdict::INSUFFICIENT_DATA;
    if (fails) failures.push_back(what);
  }
  if (is_unanswered) failures.emplace_back(kInsufficientData);
  return failures;
}

std::string DescribeInsufficientData(const std::string& model, const VerdictGate& gate,
                                     const v1::Verdict& verdict, const v1::CalibrationError& error,
                                     const v1::Watch& watch, std::int64_t observations) {
  std::string text = absl::StrCat(
      model, " has ",
      convert::CountText(observations, HasNoTruth(error.since_start()) ? "row" : "labelled row"));
  if (watch.has_evidence() && watch.observations() < observations) {
    absl::StrAppend(&text, ", ", watch.observations(), " since the evidence began anew");
  }
  std::int64_t needed = 0;
  for (const std::string& what : gate) {
    if (what == "stale" || what == "changed") continue;
    needed = std::max(
        needed, what == "over-limit" ? NeededForLimit(error, watch) : watch.observations_needed());
  }
  if (needed > 0) {
    absl::StrAppend(&text, ": the gate needs ", needed, " more");
  } else if (std::ranges::find(gate, "changed") != gate.end() && LacksReference(verdict)) {
    text += verdict.reference_status() == v1::ReferenceChange::COLLECTING
                ? ", and its reference is not complete"
                : ", and no reference: `calibctl model update --reference-rows` begins one";
  } else if (!watch.unavailable_reason().empty()) {
    absl::StrAppend(&text, ", and no evidence: ", convert::Plain(watch.unavailable_reason()));
  } else if (HasNoTruth(error.since_start())) {
    text += ", of which no truth is known";
  } else {
    text += ", too few for a verdict";
  }
  return text + "\n";
}

Gate ToGate(const VerdictGate& gate, const std::vector<std::string>& failures) {
  Gate proto;
  proto.mutable_fail_on()->Add(gate.begin(), gate.end());
  proto.mutable_failed_on()->Add(failures.begin(), failures.end());
  return proto;
}

void AddPValueGate(CLI::App& command, PValueGate& gate) {
  CLI::Option* const what =
      command
          .add_option("--fail-on", gate.what,
                      absl::StrCat("exit with 3 on p-value (that of the quadratic test is at most "
                                   "the significance level)",
                                   kOneLookHelp))
          ->check(CLI::IsMember({"p-value"}));
  command
      .add_option("--significance-level", gate.significance_level,
                  "with p-value: probability of rejecting a calibrated model; default 0.05")
      ->check(CLI::Range(1e-12, 0.5))
      ->needs(what);
}

void AddEvaluationGate(CLI::App& command, EvaluationGate& gate, const std::string& level_help) {
  command
      .add_option("--fail-on", gate.what,
                  absl::StrCat("exit with 3 if the verdict says so; a list of over-limit "
                               "(OVER_LIMIT: a whole interval is above --error-limit), "
                               "miscalibration (MISCALIBRATED: calibration is rejected) and "
                               "undecided (UNDECIDED: the interval includes the limit). Without "
                               "it the exit code does not depend on the verdict",
                               kOneLookHelp))
      ->delimiter(',')
      ->check(CLI::IsMember({"over-limit", "miscalibration", "undecided"}));
  command
      .add_option("--significance-level", gate.significance_level,
                  absl::StrCat(level_help, "; default 0.05"))
      ->transform(ProbabilityRange(1e-9, 0.5));
}

bool EvaluationGate::Has(std::string_view name) const {
  return std::ranges::find(what, name) != what.end();
}

Decision DecideByPValue(const v1::QuadraticTestResult& result, double significance_level) {
  const bool rejected = result.p_value() <= significance_level;
  const char* const name = rejected ? "REJECTED" : "NOT_REJECTED";
  Decision decision{.fails = rejected,
                    .sentence = absl::StrFormat(
                        "%s: p = %.3g, %s the significance level %.3g (one look)\n", name,
                        result.p_value(), rejected ? "at most" : "above", significance_level),
                    .gate = ToGate({"p-value"}, rejected ? VerdictGate{"p-value"} : VerdictGate())};
  decision.gate.set_decision(name);
  decision.gate.set_significance_level(significance_level);
  return decision;
}

std::optional<Decision> DecideByVerdict(const convert::EvaluationVerdict& verdict,
                                        const EvaluationGate& gate, double error_limit) {
  if (gate.what.empty()) return std::nullopt;
  std::vector<std::string> failures;
  for (const std::string& what : gate.what) {
    const bool fails = what == "over-limit"  ? verdict.limit == v1::CalibrationError::OVER_LIMIT
                       : what == "undecided" ? verdict.limit == v1::CalibrationError::UNDECIDED
                                             : verdict.is_rejected.value_or(false);
    if (fails) failures.push_back(what);
  }
  Decision decision;
  decision.fails = !failures.empty();
  decision.sentence = decision.fails
                          ? absl::StrCat("failed on ", absl::StrJoin(failures, ", "), "\n")
                          : absl::StrCat("did not fail on ", absl::StrJoin(gate.what, ", "), ": ",
                                         verdict.Text(), "\n");
  decision.gate = ToGate(gate.what, failures);
  decision.gate.set_decision(verdict.Text());
  decision.gate.set_error_limit(error_limit);
  decision.gate.set_significance_level(gate.significance_level);
  return decision;
}

std::optional<std::string> FindUsageFault(const PValueGate& gate, int replicates) {
  if (gate.what.empty()) return std::nullopt;
  return FindReplicateFault("p-value", replicates, gate.significance_level);
}

std::optional<std::string> FindUsageFault(const EvaluationGate& gate, int replicates,
                                          double lens_level) {
  if (!gate.Has("miscalibration")) return std::nullopt;
  return FindReplicateFault("miscalibration", replicates, lens_level);
}

}  // namespace calibd::cli
