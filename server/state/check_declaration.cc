#include "server/state/check_declaration.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "calibd/text/model_id.h"
#include "calibd/text/printable.h"
#include "server/base/errors.h"
#include "server/model/declared_duration.h"
#include "server/state/declaration_size.h"
#include "server/state/disk_use.h"

namespace calibd::server {
namespace {

constexpr std::size_t kDefaultWindow = 10000;
constexpr std::size_t kMaxWindow = 1000000;
constexpr std::size_t kDefaultWarmup = 500;
constexpr std::size_t kDefaultBlockSize = 100;
constexpr std::size_t kMaxBlockSize = 1000;
constexpr int kMaxBlockSizes = 4;
constexpr int kMaxLenses = 8;
constexpr std::chrono::seconds kMaxLabelGrace{std::chrono::hours{24 * 400}};
constexpr std::size_t kDefaultPending = 100000;
constexpr std::int32_t kMaxPending = 10000000;
constexpr std::size_t kMaxNameLength = 64;
constexpr int kMaxFeatures = 256;
constexpr std::size_t kMaxDescriptionLength = 1024;
constexpr std::size_t kMaxOutputNameLength = 128;
// Maximum number of differences |x_k - z_k| in one pass of the median bandwidth of one model,
// warmup^2 / 2 * m. This takes a writer thread seconds.
constexpr double kMaxBandwidthWork = 2e9;
// Maximum number of multiplications of the running estimators of all lenses per received
// probability. The largest batch then takes a writer thread a second or two.
constexpr double kMaxOperationsPerProbability = 4000;
// Maximum size of a snapshot in bytes. A store holds it as one value, which must be below 1e9
// bytes.
constexpr std::size_t kMaxSnapshotBytes = 900000000;

// Each of `lenses` lenses computes its own median.
std::size_t MaxWarmup(std::size_t class_count, std::size_t lenses) {
  const auto values = static_cast<double>(class_count * lenses);
  return std::max<std::size_t>(2,
                               static_cast<std::size_t>(std::sqrt(2 * kMaxBandwidthWork / values)));
}

// Maximum number of bytes that the running estimators of a lens hold.
std::size_t LensMemory(const ModelDeclaration& declaration, const Lens& lens) {
  return RunningLens::MaxMemory(lens, declaration.class_count(), declaration.classes()->block_sizes,
                                declaration.classes()->kernel.matrix.get());
}

// Collects the violations in a declaration.
class Checker {
 public:
  // is_new: the model must not need more memory and disk than the limits.
  Checker(const v1::Model& model, std::size_t memory_limit, std::size_t disk_limit, bool is_new)
      : model_(model), memory_limit_(memory_limit), disk_limit_(disk_limit), is_new_(is_new) {}

  absl::StatusOr<ModelDeclaration> Check() {
    CALIBD_ASSIGN_OR_RETURN(declaration_.name, ParseModelName("model.name", model_.name()));
    CheckDescription();
    CheckFeatureNames();
    CALIBD_RETURN_IF_ERROR(CheckKind());
    CheckBandwidthAndWindow();
    CheckLabelGrace();
    CheckMonitored();
    if (!violations_.empty()) return Errors();
    FillMaxPending();
    FillMonitoring();
    FillRest();
    if (!violations_.empty()) return Errors();
    return std::move(declaration_);
  }

  // Checks only the settings; the other fields are those of `existing`.
  absl::StatusOr<ModelDeclaration> CheckSettings(const ModelDeclaration& existing) {
    declaration_ = existing;
    CheckDescription();
    if (existing.classes() != nullptr) {
      CheckTolerance();
      CheckInferenceOutput();
    }
    if (model_.has_label_grace() == (existing.max_pending > 0)) {
      CheckLabelGrace();
    } else {
      Violate("model.label_grace",
              model_.has_label_grace()
                  ? "cannot be added to a model that was created without one"
                  : "is not set, expected a value, because it cannot be removed");
    }
    CheckMonitored();
    if (!violations_.empty()) return Errors();
    FillMaxPending();
    const bool grows = StateMemory(declaration_) > StateMemory(existing) ||
                       DiskUse(declaration_) > DiskUse(existing);
    if (grows && !Fits(declaration_)) ReportLimit(declaration_);
    if (!violations_.empty()) return Errors();
    return std::move(declaration_);
  }

 private:
  // Only while the declaration is one of classes.
  ClassesSpec& Classes() { return std::get<ClassesSpec>(declaration_.kind); }
  [[nodiscard]] const ClassesSpec& Classes() const { return *declaration_.classes(); }

  template <typename... Parts>
  void Violate(const std::string& field, const Parts&... parts) {
    if (violations_.size() < kMaxReportedViolations) {
      violations_.push_back({.field = field, .description = absl::StrCat(parts...)});
    }
  }

  [[nodiscard]] absl::Status Errors() const {
    return InvalidFieldsError("INVALID_DECLARATION", violations_);
  }

  absl::Status CheckKind() {
    switch (model_.kind_case()) {
      case v1::Model::kClasses:
        return CheckProbabilities();
      case v1::Model::kForecast:
        CheckForecasts();
        break;
      case v1::Model::kLabels:
      case v1::Model::KIND_NOT_SET:
        Violate("model.kind", "is not set, expected one of classes, forecast");
        break;
    }
    return violations_.empty() ? absl::OkStatus() : Errors();
  }

  // Checks the fields that describe classes and their probabilities.
  absl::Status CheckProbabilities() {
    declaration_.kind.emplace<ClassesSpec>();
    CheckClasses();
    CheckTolerance();
    CheckBaseline();
    CheckInferenceOutput();
    if (!violations_.empty()) return Errors();
    CheckKernel();
    CheckLenses();
    if (!violations_.empty()) return Errors();
    CheckBlockSizes();
    CheckOperations();
    return absl::OkStatus();
  }

  void CheckMonitored() {
    const double error_limit =
        declaration_.numbers() != nullptr ? kDefaultCoverageErrorLimit : kDefaultErrorLimit;
    declaration_.monitoring =
        CheckMonitoring(model_.monitoring(), declaration_.label_grace, error_limit, violations_);
  }

  void CheckForecasts() {
    const v1::Forecast& declared = model_.forecast();
    NumbersSpec spec{.forecast = CheckForecast(declared, violations_)};
    if (declared.has_decision()) {
      spec.decision = CheckDecision(declared.decision(), spec.forecast, violations_);
      if (model_.monitoring().disabled()) {
        Violate("model.forecast.decision",
                "is set, but monitoring.disabled is too: expected one of both");
      }
    }
    declaration_.kind = std::move(spec);
  }

  void CheckClasses() {
    const std::int64_t names = model_.classes().names_size();
    const std::int64_t count = model_.classes().count() == 0 ? names : model_.classes().count();
    if (count < static_cast<std::int64_t>(kMinClassCount) ||
        count > static_cast<std::int64_t>(kMaxClassCount)) {
      Violate("model.classes.count", "is ", count, ", expected ", kMinClassCount, "..",
              kMaxClassCount);
      return;
    }
    if (names != 0 && names != count) {
      Violate("model.classes.names", "has ", names, " names, expected count = ", count, " or none");
      return;
    }
    Classes().count = static_cast<std::size_t>(count);
    Classes().names = CheckNames("model.classes.names", model_.classes().names());
  }

  std::vector<std::string> CheckNames(
      const char* field, const google::protobuf::RepeatedPtrField<std::string>& names) {
    std::set<std::string_view> seen;
    for (int i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      // A stored name was valid by the rules when it was declared.
      const auto unprintable = is_new_ ? FindUnprintable(name) : std::nullopt;
      if (name.empty() || name.size() > kMaxNameLength) {
        Violate(absl::StrCat(field, "[", i, "]"), "is ", Quoted(name), ", expected 1..",
                kMaxNameLength, " bytes");
      } else if (unprintable.has_value()) {
        Violate(absl::StrCat(field, "[", i, "]"), *unprintable);
      } else if (!seen.insert(name).second) {
        Violate(absl::StrCat(field, "[", i, "]"), "is ", Quoted(name),
                " again, expected distinct names");
      }
    }
    return {names.begin(), names.end()};
  }

  void CheckFeatureNames() {
    const int count = model_.feature_names_size();
    if (count > kMaxFeatures) {
      Violate("model.feature_names", "has ", count, " names, expected at most ", kMaxFeatures);
    } else {
      declaration_.feature_names = CheckNames("model.feature_names", model_.feature_names());
    }
  }

  // The message of a conversion error begins with the field.
  void ViolateByMessage(std::string_view message) {
    const std::size_t space = message.find(' ');
    Violate(absl::StrCat("model.classes.", absl::string_view(message.data(), space)),
            absl::string_view(message.data() + space + 1, message.size() - space - 1));
  }

  void CheckKernel() {
    absl::StatusOr<KernelSpec> kernel = convert::FromProto(
        model_.classes().kernel(), model_.classes().bandwidth(), Classes().count);
    if (!kernel.ok()) {
      const absl::string_view message = kernel.status().message();
      ViolateByMessage({message.data(), message.size()});
      return;
    }
    Classes().kernel = *std::move(kernel);
  }

  void CheckLenses() {
    if (model_.classes().lenses_size() > kMaxLenses) {
      Violate("model.classes.lenses", "has ", model_.classes().lenses_size(),
              " lenses, expected at most ", kMaxLenses);
      return;
    }
    for (int i = 0; i < model_.classes().lenses_size(); ++i) {
      const std::string field = absl::StrCat("model.classes.lenses[", i, "]");
      absl::StatusOr<Lens> lens = convert::FromProto(model_.classes().lenses(i), Classes().count);
      if (!lens.ok()) {
        Violate(field, lens.status().message());
      } else if (std::find(Classes().lenses.begin(), Classes().lenses.end(), *lens) !=
                 Classes().lenses.end()) {
        Violate(field, "is ", lens->name(),
                lens->is_canonical() ? ", which is always present"
                                     : " again, expected distinct lenses");
      } else {
        Classes().lenses.push_back(*std::move(lens));
      }
    }
  }

  void CheckTolerance() {
    const double tolerance = model_.classes().row_sum_tolerance();
    // Written so that NaN fails the check too.
    if (tolerance != 0 && !(tolerance > 0 && tolerance <= kMaxRowSumTolerance)) {
      Violate("model.classes.row_sum_tolerance", "is ", tolerance,
              ", expected > 0 and <= ", kMaxRowSumTolerance);
      return;
    }
    Classes().row_sum_tolerance =
        tolerance == 0 ? DefaultRowSumTolerance(Classes().count) : tolerance;
  }

  void CheckDescription() {
    const std::string& description = model_.description();
    if (description.size() > kMaxDescriptionLength) {
      Violate("model.description", "has ", description.size(), " bytes, expected at most ",
              kMaxDescriptionLength);
    } else if (const auto unprintable = FindUnprintable(description)) {
      Violate("model.description", *unprintable);
    }
    declaration_.description = description;
  }

  void CheckOutputName(const char* field, const std::string& name) {
    if (name.size() > kMaxOutputNameLength) {
      Violate(field, "has ", name.size(), " bytes, expected at most ", kMaxOutputNameLength);
    } else if (const auto unprintable = FindUnprintable(name)) {
      Violate(field, *unprintable);
    }
  }

  void CheckInferenceOutput() {
    const v1::InferenceOutput& declared = model_.classes().inference_output();
    InferenceOutput output{.name = declared.name(),
                           .transform = declared.transform(),
                           .baseline_name = declared.baseline_name()};
    CheckOutputName("model.classes.inference_output.name", output.name);
    CheckOutputName("model.classes.inference_output.baseline_name", output.baseline_name);
    if (!output.baseline_name.empty() &&
        (Classes().baseline.empty() || output.baseline_name == output.name)) {
      Violate("model.classes.inference_output.baseline_name", "is ", Quoted(output.baseline_name),
              Classes().baseline.empty() ? ", expected none because the model has no baseline"
                                         : ", expected another output than that of the model");
    }
    if (!v1::InferenceOutput::Transform_IsValid(output.transform)) {
      Violate("model.classes.inference_output.transform", "is ", output.transform, ", expected 0..",
              v1::InferenceOutput::Transform_MAX);
    } else if (output.transform == v1::InferenceOutput::SIGMOID && Classes().count != 2) {
      Violate("model.classes.inference_output.transform", "is SIGMOID with ", Classes().count,
              " classes, expected 2 classes");
    }
    if (declared.column_classes_size() > 0) output.columns = ColumnsOf(declared);
    Classes().inference_output = std::move(output);
  }

  // Returns the column of each class.
  std::vector<std::size_t> ColumnsOf(const v1::InferenceOutput& declared) {
    const std::vector<std::string>& names = Classes().names;
    std::map<std::string_view, std::size_t> columns;
    for (int i = 0; i < declared.column_classes_size(); ++i) {
      columns[declared.column_classes(i)] = static_cast<std::size_t>(i);
    }
    std::vector<std::size_t> result;
    for (const std::string& name : names) {
      const auto found = columns.find(name);
      if (found != columns.end()) result.push_back(found->second);
    }
    if (names.empty() || result.size() != names.size() ||
        static_cast<std::size_t>(declared.column_classes_size()) != names.size()) {
      Violate("model.classes.inference_output.column_classes", "has ",
              declared.column_classes_size(),
              " names, expected the model's class_names, each once");
    }
    return result;
  }

  void CheckBaseline() {
    const std::string& baseline = model_.classes().baseline();
    if (!baseline.empty() && !IsModelId(baseline)) {
      Violate("model.classes.baseline", "is ", Quoted(baseline),
              ", expected none or a name that matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$");
    }
    Classes().baseline = baseline;
  }

  void CheckBlockSizes() {
    std::set<std::size_t> sizes{2};
    if (model_.classes().block_sizes_size() > kMaxBlockSizes) {
      Violate("model.classes.block_sizes", "has ", model_.classes().block_sizes_size(),
              " sizes, expected at most ", kMaxBlockSizes);
      return;
    }
    std::set<std::int32_t> seen;
    for (int i = 0; i < model_.classes().block_sizes_size(); ++i) {
      const std::int32_t size = model_.classes().block_sizes(i);
      const std::string field = absl::StrCat("model.classes.block_sizes[", i, "]");
      if (size < 2 || size > static_cast<std::int32_t>(kMaxBlockSize)) {
        Violate(field, "is ", size, ", expected 2..", kMaxBlockSize);
      } else if (!seen.insert(size).second) {
        Violate(field, "is ", size, " again, expected distinct sizes");
      } else {
        sizes.insert(static_cast<std::size_t>(size));
      }
    }
    // By default, the window is more important than the second estimator.
    if (model_.classes().block_sizes_size() == 0 &&
        RunningBlockSkce::MaxMemory(kDefaultBlockSize, Classes().count) <= memory_limit_ / 4) {
      sizes.insert(kDefaultBlockSize);
    }
    if (sizes.size() > static_cast<std::size_t>(kMaxBlockSizes)) {
      Violate("model.classes.block_sizes", "has ", sizes.size(),
              " sizes with 2, which is always present, expected at most ", kMaxBlockSizes);
    }
    Classes().block_sizes.assign(sizes.begin(), sizes.end());
  }

  void CheckOperations() {
    double sum = 0;
    std::size_t bytes = 0;
    for (const Lens& lens : Classes().lenses) {
      bytes += LensMemory(declaration_, lens);
      sum += RunningLens::OperationsPerRow(lens, Classes().count, Classes().block_sizes,
                                           Classes().kernel.matrix.get());
    }
    if (bytes > kMaxSnapshotBytes) {
      Violate("model.classes.block_sizes", "need with these lenses ", bytes,
              " bytes, expected at most ", kMaxSnapshotBytes);
    }
    const double each = std::ceil(sum / static_cast<double>(Classes().count));
    if (each > kMaxOperationsPerProbability) {
      Violate("model.classes.block_sizes", "cost with these lenses ", each,
              " multiplications for each probability, expected at most ",
              kMaxOperationsPerProbability, "; smaller blocks or fewer lenses cost less");
    }
  }

  void CheckBandwidthAndWindow() {
    if (model_.window() != 0 &&
        (model_.window() < 2 || model_.window() > static_cast<std::int32_t>(kMaxWindow))) {
      Violate("model.window", "is ", model_.window(), ", expected 2..", kMaxWindow);
      return;
    }
    declaration_.window = static_cast<std::size_t>(model_.window());
    if (declaration_.classes() == nullptr || !NeedsWarmup()) return;
    const v1::BandwidthRule& rule = model_.classes().bandwidth();
    const char* const field = rule.has_median_off_diagonal() ? "median_off_diagonal" : "median";
    const std::int64_t warmup = rule.has_median_off_diagonal() ? rule.median_off_diagonal().warmup()
                                                               : rule.median().warmup();
    const std::size_t work_limit = MaxWarmup(Classes().count, Classes().lenses.size());
    const std::size_t most =
        std::min(work_limit, declaration_.window == 0 ? kMaxWindow : declaration_.window);
    if (warmup != 0 && (warmup < 2 || warmup > static_cast<std::int64_t>(most))) {
      Violate(absl::StrCat("model.classes.bandwidth.", field, ".warmup"), "is ", warmup,
              ", expected 2..", most,
              most == work_limit ? absl::StrCat(", the most for ", Classes().count, " classes and ",
                                                Classes().lenses.size(), " lenses")
                                 : std::string(", the window"));
      return;
    }
    declaration_.warmup = static_cast<std::size_t>(warmup);
  }

  void CheckLabelGrace() {
    const bool has_grace = model_.has_label_grace();
    if (has_grace) {
      const absl::StatusOr<std::chrono::microseconds> grace =
          DeclaredDuration(model_.label_grace(), kMaxLabelGrace);
      if (!grace.ok()) {
        Violate("model.label_grace", grace.status().message());
        return;
      }
      declaration_.label_grace = *grace;
    }
    if (model_.labels_come_with_predictions() && !has_grace) {
      Violate("model.labels_come_with_predictions",
              "is set, expected a label_grace too, which determines how long ids are known");
    }
    declaration_.labels_come_with_predictions = model_.labels_come_with_predictions();
    const std::int32_t pending = model_.max_pending();
    if (pending != 0 && (!has_grace || pending < 0 || pending > kMaxPending)) {
      Violate("model.max_pending", "is ", pending,
              has_grace ? absl::StrCat(", expected 1..", kMaxPending)
                        : std::string(", expected none without a label_grace"));
      return;
    }
    declaration_.max_pending = static_cast<std::size_t>(pending);
  }

  // The default takes at most a quarter of the disk limit.
  void FillMaxPending() {
    if (model_.has_label_grace() && declaration_.max_pending == 0) {
      declaration_.max_pending = std::clamp<std::size_t>(
          disk_limit_ / 4 / DiskUsePerPending(declaration_), 1, kDefaultPending);
    }
  }

  static Monitoring Unwatched() {
    Monitoring monitoring;
    monitoring.disabled = true;
    return monitoring;
  }

  // By default, monitoring uses at most a quarter of the memory limit: the window matters more.
  void FillMonitoring() {
    Monitoring& monitoring = declaration_.monitoring;
    const std::size_t share = std::min(memory_limit_, kMaxSnapshotBytes) / 4;
    if (!DeclaresAny(model_.monitoring()) && WatchMemory(declaration_) > share) {
      monitoring = Unwatched();
    }
    if (!monitoring.group_tag.empty() && monitoring.max_groups == 0) {
      monitoring.max_groups = kMaxGroups;
      while (monitoring.max_groups > 1 && WatchMemory(declaration_) > share) {
        --monitoring.max_groups;
      }
    }
    std::size_t bytes = WatchMemory(declaration_);
    for (const Lens& lens : declaration_.lenses()) bytes += LensMemory(declaration_, lens);
    if (bytes > kMaxSnapshotBytes) {
      Violate("model.monitoring", "needs with the lenses and ", monitoring.max_groups, " groups ",
              bytes, " bytes, expected at most ", kMaxSnapshotBytes,
              "; declare fewer groups, or the model without monitoring (calibctl model create "
              "--no-monitoring)");
    }
  }

  // True if a lens chooses its bandwidth from the first predictions.
  [[nodiscard]] bool NeedsWarmup() const {
    if (declaration_.numbers() != nullptr) return !declaration_.monitoring.disabled;
    return std::any_of(Classes().lenses.begin(), Classes().lenses.end(), [this](const Lens& lens) {
      const KernelSpec spec = KernelOfLens(lens, Classes().kernel);
      return spec.matrix == nullptr && spec.rule.bandwidth.needs_predictions();
    });
  }

  // Returns the declaration with this window and max_pending.
  [[nodiscard]] ModelDeclaration WithWindow(std::size_t window, std::size_t max_pending) const {
    ModelDeclaration declaration = declaration_;
    declaration.window = window;
    declaration.max_pending = max_pending;
    if (NeedsWarmup() && declaration.warmup == 0) {
      declaration.warmup = std::min(kDefaultWarmup, window);
      if (const ClassesSpec* const classes = declaration.classes()) {
        declaration.warmup =
            std::min(declaration.warmup, MaxWarmup(classes->count, classes->lenses.size()));
      }
    }
    return declaration;
  }

  // Returns the declaration with this max_pending and the defaults that depend on it.
  [[nodiscard]] ModelDeclaration Filled(std::size_t max_pending) const {
    const std::size_t least = std::max<std::size_t>(2, declaration_.warmup);
    std::size_t window =
        declaration_.window != 0 ? declaration_.window : std::max(kDefaultWindow, least);
    if (declaration_.window == 0) {
      // Finds the largest window, up to the default, that fits.
      std::size_t low = least;
      while (low < window) {
        const std::size_t middle = low + (window - low + 1) / 2;
        if (StateMemory(WithWindow(middle, max_pending)) <= memory_limit_) {
          low = middle;
        } else {
          window = middle - 1;
        }
      }
    }
    ModelDeclaration filled = WithWindow(window, max_pending);
    if (!DeclaresAny(model_.monitoring()) && StateMemory(filled) > memory_limit_) {
      filled.monitoring = Unwatched();
    }
    return filled;
  }

  [[nodiscard]] bool Fits(const ModelDeclaration& filled) const {
    return StateMemory(filled) <= memory_limit_ && DiskUse(filled) <= disk_limit_;
  }

  void FillRest() {
    ModelDeclaration filled = Filled(declaration_.max_pending);
    if (is_new_ && !Fits(filled)) {
      ReportLimit(filled);
    } else {
      declaration_ = std::move(filled);
    }
  }

  // filled: the declaration that does not fit. Names the field to change so that it fits.
  void ReportLimit(const ModelDeclaration& filled) {
    const std::size_t memory = StateMemory(filled);
    const std::string needs =
        memory > memory_limit_
            ? absl::StrCat(memory, " bytes of memory, more than the limit of ", memory_limit_,
                           " for one model (calibd --model-memory-bytes)")
            : absl::StrCat(DiskUse(filled), " bytes of disk, more than the limit of ", disk_limit_,
                           " for one model (calibd --model-disk-bytes)");
    ModelDeclaration unwatched = filled;
    unwatched.monitoring = Unwatched();
    if (const std::size_t most = MostPending(filled.max_pending); most > 0) {
      Violate("model.max_pending", "is ", filled.max_pending, ", with which the model of ",
              Predicts(filled), " needs ", needs, "; at most ", most, " fit");
    } else if (Fits(unwatched)) {
      Violate("model.monitoring", "of ", Predicts(filled), " takes ", WatchMemory(filled),
              " bytes, with which the model needs ", needs,
              "; declare it without (calibctl model create --no-monitoring), or raise the limit");
    } else {
      Violate("model.window", "with ", filled.window, " observations of ", Predicts(filled),
              " needs ", needs, "; declare a smaller window, or raise the limit");
    }
  }

  // What a prediction consists of, for errors.
  static std::string Predicts(const ModelDeclaration& declaration) {
    return declaration.numbers() != nullptr
               ? absl::StrCat("forecasts of ", declaration.row_width(), " values")
               : absl::StrCat(declaration.class_count(), " classes");
  }

  // Returns the largest max_pending below this one that fits; 0 if none does.
  [[nodiscard]] std::size_t MostPending(std::size_t max_pending) const {
    std::size_t most = 0;
    while (most + 1 < max_pending) {
      const std::size_t middle = most + (max_pending - most) / 2;
      if (Fits(Filled(middle))) {
        most = middle;
      } else {
        max_pending = middle;
      }
    }
    return most;
  }

  const v1::Model& model_;
  const std::size_t memory_limit_;
  const std::size_t disk_limit_;
  const bool is_new_;
  ModelDeclaration declaration_;
  std::vector<Violation> violations_;
};

}  // namespace

absl::StatusOr<ModelDeclaration> CheckDeclaration(const v1::Model& model,
                                                  std::size_t model_memory_bytes,
                                                  std::size_t model_disk_bytes) {
  return Checker(model, model_memory_bytes, model_disk_bytes, /*is_new=*/true).Check();
}

absl::StatusOr<ModelDeclaration> CheckStoredDeclaration(const v1::Model& model,
                                                        std::size_t model_memory_bytes) {
  return Checker(model, model_memory_bytes, std::numeric_limits<std::size_t>::max(),
                 /*is_new=*/false)
      .Check();
}

absl::StatusOr<ModelDeclaration> CheckSettings(const ModelDeclaration& declaration,
                                               const v1::Model& model,
                                               std::size_t model_memory_bytes,
                                               std::size_t model_disk_bytes) {
  return Checker(model, model_memory_bytes, model_disk_bytes, /*is_new=*/false)
      .CheckSettings(declaration);
}

std::size_t LeastModelDisk() {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(static_cast<std::int32_t>(kMinClassCount));
  return DiskUse(*CheckDeclaration(model, std::numeric_limits<std::size_t>::max()));
}

}  // namespace calibd::server
