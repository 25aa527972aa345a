// The extension module calibd._native: what calibd.offline computes without a server. Arrays are
// passed as they are, options and answers as serialized messages of the protocol, so that Python
// prints the answers of a server and these with the same code.
//
// Each function returns (code, message, answer): see RunLong. on_progress: None, or a callable that
// gets the completed fraction.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/comparison.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "calibd/convert/loss.h"
#include "calibd/convert/multilabel.h"
#include "calibd/convert/reading.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/comparison.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/label_report.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/probability.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/offline/classes.h"
#include "client/offline/labels.h"
#include "client/offline/numbers.h"
#include "long_work.h"

namespace calibd::python {
namespace {

namespace py = pybind11;

// The caller makes arrays of this type and order, so that nothing is copied.
using Doubles = py::array_t<double, py::array::c_style>;
using Labels = py::array_t<std::int32_t, py::array::c_style>;
using Truths = py::array_t<std::int8_t, py::array::c_style>;

template <typename T>
std::span<const T> SpanOf(const py::array_t<T, py::array::c_style>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <typename Message>
absl::StatusOr<Message> Parse(const std::string& serialized) {
  Message message;
  if (!message.ParseFromString(serialized)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the options are no message ", Message::descriptor()->name()));
  }
  return message;
}

template <typename Message>
absl::StatusOr<std::string> Serialize(const absl::StatusOr<Message>& message) {
  if (!message.ok()) return message.status();
  return message->SerializeAsString();
}

// Probabilities that are a rounding away from [0, 1] are 0 or 1.
struct Rounded {
  explicit Rounded(std::span<const double> values) : given(values) {}

  std::span<const double> given;
  std::optional<std::vector<double>> changed;

  [[nodiscard]] std::span<const double> values() const { return changed ? *changed : given; }
  // Rounds, in a copy. Returns whether that changed a value.
  bool Round() {
    std::vector<double> copy(given.begin(), given.end());
    if (RoundToProbabilities(copy) == 0) return false;
    changed = std::move(copy);
    return true;
  }
};

absl::Status InvalidRows(std::span<const Violation> violations) {
  return absl::InvalidArgumentError(DescribeViolations(violations));
}

// Checks the rows. Nearly all are valid as they are.
absl::Status Check(Rounded& probabilities, std::span<const std::int32_t> labels,
                   std::size_t class_count) {
  const auto find = [&] { return FindViolations({probabilities.values(), labels, class_count}); };
  std::vector<Violation> violations = find();
  if (!violations.empty() && probabilities.Round()) violations = find();
  return violations.empty() ? absl::OkStatus() : InvalidRows(violations);
}

py::tuple Evaluate(const Doubles& probabilities, const Labels& labels, std::size_t class_count,
                   const std::vector<std::string>& class_names, const std::string& request,
                   std::optional<double> bandwidth, const std::vector<std::string>& groups,
                   const Doubles& features, double error_limit, double significance_level,
                   unsigned threads, const py::object& on_progress) {
  return RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        Rounded values(SpanOf(probabilities));
        CALIBD_RETURN_IF_ERROR(Check(values, SpanOf(labels), class_count));
        offline::OfflineOptions options;
        CALIBD_ASSIGN_OR_RETURN(options.request, Parse<v1::EvaluateRequest>(request));
        if (bandwidth.has_value()) options.bandwidth.set_fixed(*bandwidth);
        options.groups = groups;
        options.class_names = class_names;
        options.criteria = {.error_limit = error_limit, .significance_level = significance_level};
        options.features.assign(features.data(), features.data() + features.size());
        const std::size_t n = SpanOf(labels).size();
        options.feature_count = n == 0 ? 0 : options.features.size() / n;
        options.threads = threads;
        const PredictionBatch batch{values.values(), SpanOf(labels), class_count};
        CALIBD_ASSIGN_OR_RETURN(v1::Evaluation evaluation,
                                offline::EvaluateOffline(batch, options, control));
        convert::Judge(options.criteria, evaluation);
        return evaluation.SerializeAsString();
      },
      threads, on_progress);
}

py::tuple Estimate(const Doubles& probabilities, const Labels& labels, std::size_t class_count,
                   const std::vector<std::string>& class_names, const std::string& request,
                   unsigned threads, const py::object& on_progress) {
  return RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        Rounded values(SpanOf(probabilities));
        CALIBD_RETURN_IF_ERROR(Check(values, SpanOf(labels), class_count));
        CALIBD_ASSIGN_OR_RETURN(const auto parsed,
                                Parse<v1::EstimateCalibrationErrorRequest>(request));
        const PredictionBatch batch{values.values(), SpanOf(labels), class_count};
        return Serialize(offline::EstimateOffline(batch, class_names, parsed, threads, control));
      },
      threads, on_progress);
}

py::tuple Recalibrate(const Doubles& probabilities, const Labels& labels, std::size_t class_count,
                      const std::vector<std::string>& class_names, unsigned threads,
                      const py::object& on_progress) {
  return RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        Rounded values(SpanOf(probabilities));
        CALIBD_RETURN_IF_ERROR(Check(values, SpanOf(labels), class_count));
        return Serialize(offline::RecalibrateOffline({values.values(), SpanOf(labels), class_count},
                                                     class_names, control));
      },
      threads, on_progress);
}

py::tuple Compare(const Doubles& model, const Doubles& baseline, const Labels& labels,
                  std::size_t class_count) {
  return RunLong(
      [&](const RunControl& /*control*/) -> absl::StatusOr<std::string> {
        Rounded values(SpanOf(model));
        Rounded others(SpanOf(baseline));
        CALIBD_RETURN_IF_ERROR(Check(values, SpanOf(labels), class_count));
        if (const absl::Status status = Check(others, SpanOf(labels), class_count); !status.ok()) {
          return absl::InvalidArgumentError(absl::StrCat("baseline: ", status.message()));
        }
        CALIBD_ASSIGN_OR_RETURN(const Comparison comparison,
                                ComparePaired({values.values(), SpanOf(labels), class_count},
                                              {others.values(), SpanOf(labels), class_count}));
        v1::ModelComparison answer;
        *answer.mutable_comparison() = convert::ToProto(comparison);
        answer.mutable_comparison()->set_observations(labels.size());
        answer.mutable_comparison()->set_baseline_observations(labels.size());
        answer.mutable_comparison()->set_paired(true);
        return answer.SerializeAsString();
      },
      1, py::none());
}

NumberForecastKind KindOf(const std::string& kind, const std::vector<double>& levels,
                          std::size_t width) {
  if (kind == "normal") return NormalForecasts();
  if (kind == "samples") return SampleForecasts{width};
  return QuantileForecasts{levels};
}

py::tuple EvaluateForecasts(const std::string& kind_name, const std::vector<double>& levels,
                            const Doubles& forecasts, const Doubles& outcomes,
                            const std::string& request, const Labels& groups,
                            const Doubles& features, const std::vector<std::string>& feature_names,
                            const std::vector<std::size_t>& local_features, double error_limit,
                            double significance_level, unsigned threads,
                            const py::object& on_progress) {
  return RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        const std::size_t n = SpanOf(outcomes).size();
        const std::span<const double> values = SpanOf(forecasts);
        const std::size_t width = n == 0 ? 0 : values.size() / n;
        const NumberForecastKind kind = KindOf(kind_name, levels, width);
        CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
        const NumberForecastBatch batch{values, SpanOf(outcomes)};
        const std::vector<Violation> violations = FindViolations(WithKind(kind, batch));
        if (!violations.empty()) return InvalidRows(violations);
        CALIBD_ASSIGN_OR_RETURN(const auto parsed, Parse<v1::EvaluateRequest>(request));
        CALIBD_ASSIGN_OR_RETURN(ForecastEvaluationOptions options,
                                convert::ForecastOptionsFromProto(parsed, kind, {}));
        options.resampling.seed = parsed.seed();
        ForecastCovariates covariates;
        covariates.groups.assign(groups.data(), groups.data() + groups.size());
        covariates.features.assign(features.data(), features.data() + features.size());
        covariates.feature_count = feature_names.size();
        covariates.local_features = local_features;
        CALIBD_ASSIGN_OR_RETURN(
            const ForecastEvaluation evaluation,
            calibd::EvaluateForecasts(kind, batch, options, covariates, control));
        v1::Evaluation answer = convert::ToProto(evaluation, options, covariates, feature_names);
        convert::Judge({.error_limit = error_limit, .significance_level = significance_level},
                       answer);
        return answer.SerializeAsString();
      },
      threads, on_progress);
}

py::tuple RecalibrateForecasts(const std::string& kind_name, const std::vector<double>& levels,
                               const Doubles& forecasts, const Doubles& outcomes,
                               const py::object& on_progress) {
  return RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        const NumberForecastBatch batch{SpanOf(forecasts), SpanOf(outcomes)};
        const std::size_t width = batch.size() == 0 ? 0 : batch.forecasts.size() / batch.size();
        const NumberForecastKind kind = KindOf(kind_name, levels, width);
        CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
        const std::vector<Violation> violations = FindViolations(WithKind(kind, batch));
        if (!violations.empty()) return InvalidRows(violations);
        return Serialize(offline::RecalibrateOffline(kind, batch, control));
      },
      1, on_progress);
}

// Returns (code, message, answer, text, status against the limit).
py::tuple EvaluateLabels(const Doubles& probabilities, const Truths& truths,
                         const std::vector<std::string>& names, double error_limit,
                         double significance_level) {
  std::string text;
  v1::CalibrationError::Status status = v1::CalibrationError::UNDECIDED;
  const py::tuple answer = RunLong(
      [&](const RunControl& /*control*/) -> absl::StatusOr<std::string> {
        Rounded values(SpanOf(probabilities));
        const auto find = [&] {
          return FindViolations(MultilabelBatch{values.values(), SpanOf(truths), names.size()});
        };
        std::vector<Violation> violations = find();
        if (!violations.empty() && values.Round()) violations = find();
        if (!violations.empty()) return InvalidRows(violations);
        const MultilabelBatch batch{values.values(), SpanOf(truths), names.size()};
        const v1::MultilabelCalibration calibration =
            offline::EvaluateLabels(batch, names,
                                    {.levels = kOneLookErrorLevels,
                                     .error_limit = error_limit,
                                     .significance_level = significance_level},
                                    kDefaultTolerance);
        const convert::EvaluationVerdict verdict = convert::VerdictOf(calibration);
        text = absl::StrCat(verdict.Text(), "\n", convert::MultilabelText(calibration));
        status = verdict.limit;
        return calibration.SerializeAsString();
      },
      1, py::none());
  return py::make_tuple(answer[0], answer[1], answer[2], text, static_cast<int>(status));
}

ForecastKind LossKindOf(const std::string& kind) {
  if (kind == "probabilities") return ForecastKind::kProbabilities;
  if (kind == "logits") return ForecastKind::kLogits;
  if (kind == "normal") return ForecastKind::kNormal;
  return kind == "samples" ? ForecastKind::kSamples : ForecastKind::kQuantiles;
}

// settings: a serialized LossSettings. Returns (code, message, serialized CalibrationLoss,
// gradient). The gradient is empty unless it is asked for.
py::tuple Loss(const std::string& kind, const Doubles& values, std::size_t width,
               const Labels& labels, const Doubles& outcomes, const std::string& settings,
               bool with_gradient, unsigned threads) {
  std::vector<double> gradient;
  const py::tuple answer = RunLong(
      [&](const RunControl& control) -> absl::StatusOr<std::string> {
        ForecastBatch batch{.kind = LossKindOf(kind),
                            .values = SpanOf(values),
                            .width = width,
                            .labels = SpanOf(labels),
                            .outcomes = SpanOf(outcomes)};
        Rounded rounded(batch.values);
        std::vector<Violation> violations = FindViolations(batch);
        if (!violations.empty() && batch.kind == ForecastKind::kProbabilities && rounded.Round()) {
          batch.values = rounded.values();
          violations = FindViolations(batch);
        }
        if (!violations.empty()) return InvalidRows(violations);
        CALIBD_ASSIGN_OR_RETURN(const auto parsed, Parse<v1::LossSettings>(settings));
        CALIBD_ASSIGN_OR_RETURN(LossOptions options, convert::FromProto(parsed, width));
        options.gradient = with_gradient;
        CALIBD_RETURN_IF_ERROR(CheckLossOptions(batch, options));
        CALIBD_ASSIGN_OR_RETURN(CalibrationLoss loss, ComputeLoss(batch, options, control));
        gradient = std::exchange(loss.gradient, {});
        return convert::ToProto(loss).SerializeAsString();
      },
      threads, py::none());
  py::array_t<double> array(static_cast<py::ssize_t>(gradient.size()));
  std::copy(gradient.begin(), gradient.end(), array.mutable_data());
  return py::make_tuple(answer[0], answer[1], answer[2], std::move(array));
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "What calibd.offline computes without a server.";
  module.def("evaluate", &Evaluate);
  module.def("estimate", &Estimate);
  module.def("recalibrate", &Recalibrate);
  module.def("compare", &Compare);
  module.def("evaluate_forecasts", &EvaluateForecasts);
  module.def("recalibrate_forecasts", &RecalibrateForecasts);
  module.def("evaluate_labels", &EvaluateLabels);
  module.def("loss", &Loss);
}

}  // namespace calibd::python
