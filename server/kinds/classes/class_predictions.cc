#include "server/kinds/classes/class_predictions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/comparison.h"
#include "calibd/core/evidence.h"
#include "calibd/core/running_lens.h"
#include "server/kinds/classes/class_answer.h"
#include "server/kinds/classes/class_kind.h"
#include "server/kinds/classes/class_rows.h"
#include "server/kinds/classes/class_spec.h"
#include "server/kinds/classes/class_state.h"
#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

const ClassesSpec& SpecOf(const ModelDeclaration& declaration) {
  return std::get<ClassesSpec>(declaration.kind);
}

class Classes final : public PredictionKind {
 public:
  v1::Model::KindCase field() const noexcept override { return v1::Model::kClasses; }

  bool CheckSpec(const v1::Model& model, const SpecContext& context, ModelDeclaration& declaration,
                 std::vector<Violation>& violations) const override {
    return CheckClassSpec(model.classes(), context, declaration.kind.emplace<ClassesSpec>(),
                          violations);
  }
  void CheckSettings(const v1::Model& model, ModelDeclaration& declaration,
                     std::vector<Violation>& violations) const override {
    CheckClassSettings(model.classes(), std::get<ClassesSpec>(declaration.kind), violations);
  }
  void CheckWarmup(const v1::Model& model, std::size_t window, ModelDeclaration& declaration,
                   std::vector<Violation>& violations) const override {
    declaration.warmup =
        CheckClassWarmup(model.classes().bandwidth(), SpecOf(declaration), window, violations);
  }
  bool NeedsWarmup(const ModelDeclaration& declaration) const override {
    return NeedsClassWarmup(SpecOf(declaration));
  }
  std::size_t MostWarmup(const ModelDeclaration& declaration) const override {
    return MostClassWarmup(SpecOf(declaration));
  }
  double default_error_limit() const noexcept override { return kDefaultErrorLimit; }
  std::string Predicts(const ModelDeclaration& declaration) const override {
    return absl::StrCat(SpecOf(declaration).count, " classes");
  }
  void Compare(const ModelDeclaration& existing, const ModelDeclaration& declared,
               std::vector<std::string>& differences) const override {
    CompareClassSpecs(SpecOf(existing), SpecOf(declared), ToProto(existing).classes(),
                      ToProto(declared).classes(), differences);
  }
  void FillFrom(const v1::Model& existing, v1::Model& declared) const override {
    FillClassesFrom(existing.classes(), *declared.mutable_classes());
  }

  const char* does() const noexcept override { return "predicts classes"; }
  std::vector<Violation> ConvertRows(const ValueForm& form, const ModelDeclaration& declaration,
                                     std::size_t first, std::size_t count,
                                     RowValues& values) const override {
    return ConvertClassRows(form, SpecOf(declaration), first, count, values);
  }

  KindSizes Sizes(const ModelDeclaration& declaration) const noexcept override {
    const ClassesSpec& spec = SpecOf(declaration);
    const MatrixKernel* const matrix = spec.kernel.matrix.get();
    KindSizes sizes{.watches = ClassKind::MaxMemory(declaration.monitoring, spec.count)};
    for (const Lens& lens : spec.lenses) {
      sizes.estimators += RunningLens::MaxMemory(lens, spec.count, spec.block_sizes, matrix);
    }
    if (matrix != nullptr) {
      const std::size_t values = matrix->terms().size() * spec.count * spec.count;
      // The matrices and their factors.
      sizes.other += 2 * values * sizeof(double);
      sizes.stored_spec += values * sizeof(double);
    }
    for (const std::string& name : spec.names) {
      sizes.other += sizeof(std::string) + name.size();
      sizes.stored_spec += name.size() + 2;
    }
    if (!spec.baseline.empty()) sizes.other += sizeof(RunningComparison);
    if (!declaration.monitoring.disabled) sizes.other += RowScreen::MaxMemory(declaration.window);
    return sizes;
  }
  std::size_t SnapshotRows(const ModelDeclaration& declaration) const noexcept override {
    // The terms take some milliseconds.
    constexpr std::size_t kWork = std::size_t{1} << 20;
    constexpr std::size_t kLeast = 256;
    constexpr std::size_t kMost = 16384;
    const ClassesSpec& spec = SpecOf(declaration);
    std::size_t terms = 0;
    for (const std::size_t block_size : spec.block_sizes) terms += block_size - 1;
    return std::clamp(kWork / (spec.count * terms * spec.lenses.size()), kLeast, kMost);
  }

  std::span<const char* const> families() const noexcept override {
    static const std::array<const char*, kFamilyCount> kNames = [] {
      std::array<const char*, kFamilyCount> names{};
      for (std::size_t i = 0; i < names.size(); ++i) {
        names[i] = FamilyName(static_cast<ExpertFamily>(i));
      }
      return names;
    }();
    return kNames;
  }
  void Describe(const DescribedModel& model, v1::GetCalibrationResponse& out) const override {
    DescribeClasses(model, out);
  }
  std::string NoWatchReason(const ModelDeclaration& declaration,
                            const KindSnapshot& snapshot) const override {
    return NoClassWatchReason(declaration, snapshot);
  }
  void DescribeBucket(const ModelDeclaration& /*declaration*/, const KindSnapshot& /*snapshot*/,
                      const HistoryBucket& bucket, std::span<const std::string> /*labels*/,
                      v1::HistoryBucket& out) const override {
    DescribeClassBucket(bucket, out);
  }
  void DescribeOpened(const ModelDeclaration& declaration,
                      v1::StreamObservationsResponse::Opened& out) const override {
    const ClassesSpec& spec = SpecOf(declaration);
    out.mutable_classes()->set_count(static_cast<std::int32_t>(spec.count));
    out.mutable_classes()->mutable_names()->Add(spec.names.begin(), spec.names.end());
    out.mutable_classes()->set_row_sum_tolerance(spec.row_sum_tolerance);
  }
  const char* kernel_name(const ModelDeclaration& declaration) const override {
    const KernelSpec& kernel = SpecOf(declaration).kernel;
    if (kernel.matrix != nullptr) return "matrix";
    constexpr std::array kNames{"exponential_total_variation", "exponential_cityblock",
                                "exponential_euclidean", "gaussian"};
    return kNames[static_cast<std::size_t>(kernel.rule.distance)];
  }

  std::unique_ptr<KindState> NewState(
      std::shared_ptr<const ModelDeclaration> declaration) const override {
    return MakeClassState(std::move(declaration));
  }
};

}  // namespace

const PredictionKind& ClassPredictions() noexcept {
  static const Classes kKind;
  return kKind;
}

}  // namespace calibd::server
