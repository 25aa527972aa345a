#include "client/cli/reports/evaluation_report.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/lens.h"
#include "client/cli/reports/reading_report.h"

namespace calibd::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Maximum number of rows of a table that may be long.
constexpr std::size_t kMaxRows = 20;

// False if the tests use rows that were drawn from all.
bool TestsAll(const v1::Evaluation& evaluation) {
  return evaluation.tested_observations() == evaluation.observations();
}

std::string BinsName(const v1::BinnedErrorSpec& spec) {
  switch (spec.bins_case()) {
    case v1::BinnedErrorSpec::kUniform:
      return absl::StrFormat("whole vector, %d uniform bins a class, %s",
                             spec.uniform().bins_per_class(),
                             DistanceText(spec.uniform().distance()));
    case v1::BinnedErrorSpec::kMedianVariance:
      return absl::StrFormat("whole vector, median-variance bins of at least %d, %s",
                             spec.median_variance().min_size(),
                             DistanceText(spec.median_variance().distance()));
    case v1::BinnedErrorSpec::kTopLabel:
      return absl::StrFormat("top label, %d uniform bins", spec.top_label().bins());
    case v1::BinnedErrorSpec::kClassWise:
      return absl::StrFormat("mean over classes, %d uniform bins", spec.class_wise().bins());
    default:
      return "";
  }
}

std::string DescribeLenses(const v1::Evaluation& evaluation) {
  Rows rows = {{"lens", "bandwidth", "SKCE_uq", "calibrated: 95 % below", "KCE (95 %, any n)",
                "p (one look)"}};
  std::string errors;
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (!lens.has_result()) {
      absl::StrAppend(&errors, lens.lens(), ": ", lens.error(), "\n");
      continue;
    }
    const v1::QuadraticTestResult& result = lens.result();
    rows.push_back(
        {lens.lens(), BandwidthText(result.provenance()), Signed(result.skce_unbiased()),
         Signed(result.noise_floor_unbiased().upper_quantile()),
         absl::StrFormat("%.3f..%.3f", result.kce_lower_bound(), result.kce_upper_bound()),
         result.has_p_value() ? PValue(result.p_value()) : "-"});
  }
  std::string text = FormatTable(rows) + errors;
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (!lens.has_result() || lens.lens() == "canonical") continue;
    absl::StrAppend(&text, lens.lens(), " cannot detect ", BlindSpot(lens.lens()), ".\n");
  }
  return text;
}

// Returns a table of the classes with the largest SKCE_uq.
std::string DescribeClasses(const v1::Evaluation& evaluation) {
  const v1::LensEvaluation* class_wise = nullptr;
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (lens.result().classes_size() > 0) class_wise = &lens;
  }
  if (class_wise == nullptr) return "";
  std::vector<v1::QuadraticTestResult::OneClass> classes(class_wise->result().classes().begin(),
                                                         class_wise->result().classes().end());
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return a.skce_unbiased() > b.skce_unbiased();
  });
  const std::size_t shown = std::min(kMaxRows, classes.size());
  Rows rows = {{"class", "SKCE_uq", "calibrated: 95 % below"}};
  for (std::size_t k = 0; k < shown; ++k) {
    rows.push_back({absl::StrCat(classes[k].class_index()), Signed(classes[k].skce_unbiased()),
                    Signed(classes[k].noise_floor_unbiased().upper_quantile())});
  }
  return absl::StrCat("\nClasses by themselves, counted from 0, ",
                      shown < classes.size() ? absl::StrFormat("the %d largest", shown)
                                             : std::string("largest first"),
                      ":\n", FormatTable(rows));
}

// A row for each group, those over the limit or rejected first; empty without groups.
std::string DescribeGroups(const v1::Evaluation& evaluation) {
  if (evaluation.groups().empty()) return "";
  std::vector<const v1::EvaluatedGroup*> groups;
  for (const v1::EvaluatedGroup& group : evaluation.groups()) groups.push_back(&group);
  std::ranges::stable_sort(groups, [](const auto* a, const auto* b) {
    const auto key = [](const v1::EvaluatedGroup& group) {
      return std::pair(group.status() != v1::CalibrationError::OVER_LIMIT, !group.rejected());
    };
    return key(*a) < key(*b);
  });
  const std::size_t left_out = groups.size() - std::min(groups.size(), kMaxRows);
  groups.resize(groups.size() - left_out);
  Rows rows = {{"group", "rows", "says", "right", "off by (points)", "interval (points)",
                "log10 e-value", ""}};
  for (const v1::EvaluatedGroup* const group : groups) {
    const bool is_class_1 = group->class_1_is_worse();
    const v1::ErrorInterval& error = is_class_1 ? group->class_1_error() : group->error();
    rows.push_back(
        {convert::Plain(convert::GroupName(group->name(), false)),
         absl::StrCat(group->observations()),
         absl::StrFormat("%.1f %%", 100 * group->mean_confidence()),
         absl::StrFormat("%.1f %%", 100 * group->accuracy()),
         absl::StrCat(error.lower() > 0 ? convert::Points(error.estimate()) : "-",
                      is_class_1 ? " *" : ""),
         absl::StrCat(convert::Points(error.lower()), " to ", convert::Points(error.upper())),
         convert::Fixed(group->log10_e_value(), 1),
         absl::StrCat(convert::StatusName(group->status()),
                      group->rejected() ? ", rejected" : "")});
  }
  const bool has_events = evaluation.groups(0).has_class_1_error();
  return absl::StrCat("\nGroups:\n", FormatTable(rows),
                      left_out > 0 ? absl::StrCat("... ", left_out, " more\n") : "",
                      has_events
                          ? absl::StrCat("* of ", convert::Class1Event(evaluation.class_1_name()),
                                         ", which is off by more than the top label\n")
                          : "");
}

std::string DescribeScores(const v1::Evaluation& evaluation) {
  const v1::Scores& scores = evaluation.scores();
  const auto decomposition = [](const char* name, const v1::CorpDecomposition& corp) {
    return absl::StrFormat(
        "%s %s = miscalibration %s - discrimination %s + uncertainty %s (CORP)\n", name,
        Number(corp.score()), Number(corp.miscalibration()), Number(corp.discrimination()),
        Number(corp.uncertainty()));
  };
  return absl::StrFormat(
             "accuracy %s, mean confidence %s, confidence - accuracy %s\n"
             "log loss %s, mean entropy %s\n",
             Number(scores.accuracy()), Number(scores.mean_confidence()),
             convert::SignedFixed(scores.confidence_minus_accuracy(), 3), Number(scores.log_loss()),
             Number(scores.mean_entropy())) +
         decomposition("Brier", evaluation.brier()) +
         decomposition("top-label Brier", evaluation.reliability(0).corp());
}

std::string DescribeBinnedErrors(const v1::Evaluation& evaluation) {
  if (evaluation.binned_errors_size() == 0) return "";
  Rows rows = {{"binned error (biased upwards)", "ECE", "MCE", "bins"}};
  for (const v1::BinnedError& error : evaluation.binned_errors()) {
    rows.push_back({BinsName(error.spec()), Number(error.ece()), Number(error.mce()),
                    absl::StrCat(error.bins())});
  }
  return absl::StrCat("\n", FormatTable(rows));
}

// What the decisions cost, by action; empty without actions.
std::string DescribeDecision(const v1::Evaluation& evaluation) {
  if (!evaluation.has_decision_loss()) return "";
  const v1::DecisionEvaluation& decision = evaluation.decision_loss();
  std::string text = "\n";
  std::vector<std::vector<std::string>> rows = {{"action", "chosen", "cost", "promised"}};
  for (const auto& action : decision.actions()) {
    const bool chosen = action.observations() > 0;
    rows.push_back({convert::Plain(action.name()), absl::StrCat(action.observations()),
                    chosen ? Number(action.realised_loss()) : "-",
                    chosen ? Number(action.expected_loss()) : "-"});
  }
  text += FormatTable(rows);
  if (decision.has_calibration_error()) {
    const v1::SimulatedStatistic& error = decision.calibration_error();
    absl::StrAppendFormat(&text,
                          "decision calibration error %s; for calibrated models %s on average, and "
                          "below %s in 95 %%; p = %s (one look)\n",
                          Number(error.value()), Number(error.replicate_mean()),
                          Number(error.replicate_upper_quantile()), PValue(error.p_value()));
  }
  if (decision.has_test()) {
    absl::StrAppendFormat(&text,
                          "calibration given the action: p = %s (one look), simulated with labels "
                          "drawn from the predictions\n",
                          PValue(decision.test().p_value()));
  }
  return text;
}

// Empty without features.
std::string DescribeIndividual(const v1::Evaluation& evaluation) {
  if (!evaluation.has_individual()) return "";
  if (!evaluation.individual().left_out_reason().empty()) {
    return absl::StrCat("\nsimilar cases (individual calibration): not tested, because ",
                        evaluation.individual().left_out_reason(), "\n");
  }
  const v1::SimulatedStatistic& test = evaluation.individual().test();
  return absl::StrFormat(
      "\nsimilar cases (individual calibration): discrepancy (MMD^2) %s, below %s for 95 %% of "
      "calibrated models; p = %s (one look), simulated with labels drawn from the predictions\n",
      Signed(test.value()), Signed(test.replicate_upper_quantile()), PValue(test.p_value()));
}

std::string DescribeOtherTests(const v1::Evaluation& evaluation) {
  std::string text;
  if (evaluation.has_consistency_test()) {
    const v1::ConsistencyTest& test = evaluation.consistency_test();
    absl::StrAppendFormat(
        &text,
        "\n%s of the ECE (%s)%s: p = %s (one look); "
        "resampled ECE %s +- %s\n%s\n",
        test.null() == v1::QuadraticTestResult::FORECAST ? "simulation" : "consistency resampling",
        BinsName(test.spec()),
        // The ECE of fewer rows is larger, because it is biased upwards.
        TestsAll(evaluation)
            ? ""
            : absl::StrCat(" of the ", evaluation.tested_observations(), " drawn rows"),
        PValue(test.p_value()), Number(test.replicate_mean()),
        Number(test.replicate_standard_deviation()), test.caveat());
  }
  Rows rows = {{"CME test of the lens", "test locations", "statistic", "p (one look)"}};
  std::string notes;
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (!lens.has_cme_test()) continue;
    const v1::CmeTest& test = lens.cme_test();
    if (test.error().empty()) {
      rows.push_back({lens.lens(), absl::StrCat(test.test_locations()), Number(test.statistic()),
                      PValue(test.p_value())});
      notes =
          absl::StrCat("tested against: ", test.null_description(), "; seed ", test.seed(), "\n");
    } else {
      absl::StrAppend(&text, "\nCME test of the lens ", lens.lens(),
                      " not computed: ", test.error(), "\n");
    }
  }
  if (rows.size() > 1) absl::StrAppend(&text, "\n", FormatTable(rows), notes);
  return text;
}

// evaluation: that of the diagram.
std::string DescribeReliability(const v1::Reliability& reliability,
                                const v1::Evaluation& evaluation) {
  const bool is_class_1 = evaluation.has_class_1_error() && reliability.class_index() == 1;
  const std::string event =
      !reliability.has_class_index() ? std::string("the predicted class is right")
      : is_class_1                   ? convert::Class1Event(evaluation.class_1_name())
                   : absl::StrCat("class ", reliability.class_index(), " (counted from 0)");
  Rows rows = {{"predicted", "n", "mean", "observed", "if calibrated", ""}};
  for (const v1::Reliability::Bin& bin : reliability.bins()) {
    rows.push_back(
        {absl::StrFormat("%.3f..%.3f", bin.lower(), bin.upper()), absl::StrCat(bin.n()),
         absl::StrFormat("%.3f", bin.mean_prediction()), absl::StrFormat("%.3f", bin.frequency()),
         absl::StrFormat("%.3f..%.3f", bin.consistency().lower(), bin.consistency().upper()),
         bin.outside() ? "*" : ""});
  }
  return absl::StrFormat("\nReliability, %s (* outside its %.0f %% band):\n%s", event,
                         100 * reliability.band_level(), FormatTable(rows));
}

// Which numbers are of which rows; empty if all are of all rows.
std::string DescribeTestedRows(const v1::Evaluation& evaluation) {
  if (TestsAll(evaluation)) return "";
  return absl::StrFormat(
      "The estimates and tests of lenses, the tests of binned errors, decisions and similar cases "
      "use these %d rows. All else uses all %d rows. --test-rows sets the number.\n",
      evaluation.tested_observations(), evaluation.observations());
}

}  // namespace

std::string DescribeEvaluation(const v1::Evaluation& evaluation) {
  const v1::QuadraticTestResult& canonical = evaluation.lenses(0).result();
  std::string text = absl::StrCat(
      DescribeReading("", evaluation.reading()), DescribeProvenance(canonical.provenance()),
      DescribeTestedRows(evaluation), "\n", DescribeLenses(evaluation), "\n",
      DescribeQuadratic(canonical), "\n", DescribeEstimates(evaluation.estimates()),
      DescribeGroups(evaluation), DescribeClasses(evaluation), "\n", DescribeScores(evaluation),
      DescribeBinnedErrors(evaluation), DescribeOtherTests(evaluation),
      DescribeDecision(evaluation), DescribeIndividual(evaluation));
  for (const v1::Reliability& reliability : evaluation.reliability()) {
    text += DescribeReliability(reliability, evaluation);
  }
  return text;
}

}  // namespace calibd::cli
