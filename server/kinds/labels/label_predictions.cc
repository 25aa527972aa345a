#include "server/kinds/labels/label_predictions.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/probability.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"
#include "server/kinds/labels/label_answer.h"
#include "server/kinds/labels/label_kind.h"
#include "server/kinds/labels/label_state.h"

namespace calibd::server {
namespace {

const LabelsSpec& SpecOf(const ModelDeclaration& declaration) {
  return std::get<LabelsSpec>(declaration.kind);
}

// Converts row i to probabilities, and checks it with its truths, unless it is pending.
std::optional<Violation> ConvertRow(bool are_logits, const LabelsSpec& spec, std::size_t i,
                                    RowValues& values) {
  const std::size_t first = i * values.width;
  for (std::size_t k = 0; k < values.width; ++k) {
    double& value = values.values[first + k];
    if (!are_logits) value = RoundToProbability(value);
    // Written so that NaN fails the check too.
    const bool valid = are_logits ? std::isfinite(value) : value >= 0 && value <= 1;
    if (!valid) {
      return Violation{
          .field = are_logits ? "logits" : "probabilities",
          .description = absl::StrCat("(", Quoted(spec.names[k]), ") is ", value, ", expected a ",
                                      are_logits ? "finite number" : "number in [0, 1]"),
          .row = i,
          .column = k};
    }
    if (are_logits) value = 1 / (1 + std::exp(-value));
    if (values.truths.empty()) continue;
    const std::int32_t truth = values.truths.labels[first + k];
    if (truth >= kMissingTruth && truth <= 1) continue;
    return Violation{.field = "labels",
                     .description = absl::StrCat("(", Quoted(spec.names[k]), ") is ", truth,
                                                 ", expected 1, 0, or -1 for a missing truth"),
                     .row = i,
                     .column = k};
  }
  return std::nullopt;
}

class Labels final : public PredictionKind {
 public:
  v1::Model::KindCase field() const noexcept override { return v1::Model::kLabels; }

  bool CheckSpec(const v1::Model& model, const SpecContext& /*context*/,
                 ModelDeclaration& declaration, std::vector<Violation>& violations) const override {
    const auto& names = model.labels().names();
    declaration.kind = LabelsSpec{.names = {names.begin(), names.end()}};
    constexpr char kRefused[] = ", expected none because the model predicts several labels";
    if (!model.monitoring().group_tag().empty()) {
      Violate(violations, "model.monitoring.group_tag", "is ", model.monitoring().group_tag(),
              kRefused, "; declare a model for each group");
    }
    if (model.has_inference_output()) {
      Violate(violations, "model.inference_output", "is set", kRefused);
    }
    if (!declaration.feature_names.empty()) {
      Violate(violations, "model.feature_names", "has ", declaration.feature_names.size(), " names",
              kRefused);
    }
    return violations.empty();
  }
  bool NeedsWarmup(const ModelDeclaration& /*declaration*/) const override { return false; }
  std::size_t MostWarmup(const ModelDeclaration& /*declaration*/) const override { return 0; }
  bool uses_window() const noexcept override { return false; }
  double default_error_limit() const noexcept override { return kDefaultErrorLimit; }
  std::string Predicts(const ModelDeclaration& declaration) const override {
    return absl::StrCat(SpecOf(declaration).names.size(), " labels");
  }
  void Compare(const ModelDeclaration& existing, const ModelDeclaration& declared,
               std::vector<std::string>& differences) const override {
    if (SpecOf(existing) != SpecOf(declared)) differences.emplace_back("labels.names differ");
  }

  const char* does() const noexcept override { return "predicts several labels"; }
  std::vector<Violation> ConvertRows(const ValueForm& form, const ModelDeclaration& declaration,
                                     std::size_t first, std::size_t count,
                                     RowValues& values) const override {
    std::vector<Violation> violations;
    for (std::size_t i = first; i < first + count && violations.size() < kMaxReportedViolations;
         ++i) {
      std::optional<Violation> violation = ConvertRow(form.logits, SpecOf(declaration), i, values);
      if (violation.has_value()) violations.push_back(*std::move(violation));
    }
    return violations;
  }

  KindSizes Sizes(const ModelDeclaration& declaration) const noexcept override {
    // Bytes of an alarm of a label, and those of a label's parts in a state beside its sums.
    constexpr std::size_t kAlarmBytes = 512;
    const std::vector<std::string>& names = SpecOf(declaration).names;
    std::size_t stored = 0;
    for (const std::string& name : names) stored += name.size() + 3;
    return {.watches = LabelKind::MaxMemory(declaration.monitoring, names.size()) +
                       (declaration.monitoring.disabled ? 0 : names.size() * kAlarmBytes),
            .other = stored + names.size() * sizeof(std::string),
            .history_bucket = sizeof(LabelTotals) + names.size() * sizeof(LabelSums::Label),
            .stored_bucket = names.size() * sizeof(LabelSums::Label),
            .stored_spec = stored};
  }
  std::size_t SnapshotRows(const ModelDeclaration& /*declaration*/) const noexcept override {
    return 8192;
  }

  std::span<const char* const> families() const noexcept override { return {}; }
  void Describe(const DescribedModel& model, v1::GetCalibrationResponse& out) const override {
    DescribeLabels(model, out);
  }
  // There is no warm-up.
  std::string NoWatchReason(const ModelDeclaration& /*declaration*/,
                            const KindSnapshot& /*snapshot*/) const override {
    return "";
  }
  void DescribeBucket(const ModelDeclaration& declaration, const KindSnapshot& /*snapshot*/,
                      const HistoryBucket& bucket, std::span<const std::string> labels,
                      v1::HistoryBucket& out) const override {
    DescribeLabelBucket(SpecOf(declaration), bucket, labels, out);
  }
  std::span<const std::string> label_names(
      const ModelDeclaration& declaration) const noexcept override {
    return SpecOf(declaration).names;
  }
  void DescribeOpened(const ModelDeclaration& declaration,
                      v1::StreamObservationsResponse::Opened& out) const override {
    const std::vector<std::string>& names = SpecOf(declaration).names;
    out.mutable_labels()->mutable_names()->Add(names.begin(), names.end());
  }
  const char* kernel_name(const ModelDeclaration& /*declaration*/) const override { return "none"; }
  absl::Status CheckCall(const ModelDeclaration& declaration, WindowCall call) const override {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "LABELS_MODEL",
        absl::StrCat(NameOf(call), " needs a model of classes, and ", declaration.name.ToString(),
                     " predicts several labels: the error and evidence of each label are in "
                     "GetCalibration (calibctl show) and GetHistory (calibctl history), and "
                     "calibctl evaluate-labels evaluates a file"));
  }

  std::unique_ptr<KindState> NewState(
      std::shared_ptr<const ModelDeclaration> declaration) const override {
    return MakeLabelState(declaration);
  }
};

}  // namespace

const PredictionKind& LabelPredictions() noexcept {
  static const Labels kKind;
  return kKind;
}

}  // namespace calibd::server
