#include "server/state/check_declaration.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "server/base/errors.h"
#include "server/base/rules.h"
#include "server/kinds/kind_table.h"
#include "server/model/declared_duration.h"
#include "server/model/inference_output.h"
#include "server/state/declaration_size.h"
#include "server/state/disk_use.h"

namespace calibd::server {
namespace {

constexpr std::int32_t kLeastWindow = 2;
constexpr std::size_t kDefaultWindow = 10000;
// The rule of Model.window has it too.
constexpr std::size_t kMaxWindow = 1000000;
constexpr std::size_t kDefaultWarmup = 500;
constexpr std::size_t kDefaultPending = 100000;

// Collects the violations in a declaration.
class Checker {
 public:
  // is_new: the model must not need more memory and disk than the limits.
  Checker(const v1::Model& model, std::size_t memory_limit, std::size_t disk_limit, bool is_new)
      : model_(model), memory_limit_(memory_limit), disk_limit_(disk_limit), is_new_(is_new) {}

  absl::StatusOr<ModelDeclaration> Check() {
    CALIBD_ASSIGN_OR_RETURN(declaration_.name, ParseModelName("model.name", model_.name()));
    CheckRules(model_, "model", {.printable = is_new_}, violations_);
    if (!violations_.empty()) return Errors();
    declaration_.description = model_.description();
    declaration_.feature_names.assign(model_.feature_names().begin(), model_.feature_names().end());
    CALIBD_RETURN_IF_ERROR(CheckKind());
    CheckOutput();
    CheckBandwidthAndWindow();
    TakeLabelGrace();
    TakeMonitoring();
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
    CheckRules(model_, "model", {.required = false}, violations_);
    if (!violations_.empty()) return Errors();
    declaration_.description = model_.description();
    kind_ = &KindOf(existing);
    kind_->CheckSettings(model_, declaration_, violations_);
    CheckOutput();
    if (model_.has_label_grace() == (existing.max_pending > 0)) {
      TakeLabelGrace();
    } else {
      Violate("model.label_grace",
              model_.has_label_grace()
                  ? "cannot be added to a model that was created without one"
                  : "is not set, expected a value, because it cannot be removed");
    }
    TakeMonitoring();
    if (!violations_.empty()) return Errors();
    FillMaxPending();
    const bool grows = StateMemory(declaration_) > StateMemory(existing) ||
                       DiskUse(declaration_) > DiskUse(existing);
    if (grows && !Fits(declaration_)) ReportLimit(declaration_);
    if (!violations_.empty()) return Errors();
    return std::move(declaration_);
  }

 private:
  template <typename... Parts>
  void Violate(const char* field, const Parts&... description) {
    server::Violate(violations_, field, description...);
  }

  [[nodiscard]] absl::Status Errors() const {
    return InvalidFieldsError("INVALID_DECLARATION", violations_);
  }

  absl::Status CheckKind() {
    kind_ = FindKind(model_);
    const SpecContext context{.memory_limit = memory_limit_};
    return kind_->CheckSpec(model_, context, declaration_, violations_) ? absl::OkStatus()
                                                                        : Errors();
  }

  void CheckOutput() {
    declaration_.inference_output =
        CheckInferenceOutput(model_.inference_output(), declaration_, violations_);
  }

  void TakeMonitoring() {
    declaration_.monitoring =
        MonitoringOf(model_.monitoring(), declaration_.label_grace, kind_->default_error_limit());
    const std::int64_t rows = declaration_.monitoring.reference_rows;
    if (rows != 0 && declaration_.classes() == nullptr) {
      Violate("model.monitoring.reference_rows", "is ", rows,
              ", expected none because only the error of a model of classes is compared with a "
              "reference");
    }
  }

  void CheckBandwidthAndWindow() {
    if (!kind_->uses_window() && model_.window() > kLeastWindow) {
      Violate("model.window", "is ", model_.window(),
              ", expected none because no call on a model that ", kind_->does(), " uses a window");
      return;
    }
    declaration_.window = static_cast<std::size_t>(model_.window());
    kind_->CheckWarmup(model_, declaration_.window == 0 ? kMaxWindow : declaration_.window,
                       declaration_, violations_);
  }

  void TakeLabelGrace() {
    if (model_.has_label_grace()) declaration_.label_grace = MicrosecondsOf(model_.label_grace());
    declaration_.labels_come_with_predictions = model_.labels_come_with_predictions();
    declaration_.max_pending = static_cast<std::size_t>(model_.max_pending());
  }

  // The default takes at most a quarter of the disk limit.
  void FillMaxPending() {
    if (model_.has_label_grace() && declaration_.max_pending == 0) {
      declaration_.max_pending = std::clamp<std::size_t>(
          disk_limit_ / 4 / DiskUsePerPending(declaration_), 1, kDefaultPending);
    }
  }

  [[nodiscard]] static std::size_t WatchBytes(const ModelDeclaration& declaration) {
    return KindOf(declaration).Sizes(declaration).watches;
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
    if (!DeclaresAny(model_.monitoring()) && WatchBytes(declaration_) > share) {
      monitoring = Unwatched();
    }
    if (!monitoring.group_tag.empty() && monitoring.max_groups == 0) {
      monitoring.max_groups = kMaxGroups;
      while (monitoring.max_groups > 1 && WatchBytes(declaration_) > share) --monitoring.max_groups;
    }
    const KindSizes sizes = kind_->Sizes(declaration_);
    const std::size_t bytes = sizes.watches + sizes.estimators;
    if (bytes > kMaxSnapshotBytes) {
      Violate("model.monitoring", "needs with the lenses and ", monitoring.max_groups, " groups ",
              bytes, " bytes, expected at most ", kMaxSnapshotBytes,
              "; declare fewer groups, or the model without monitoring (calibctl model create "
              "--no-monitoring)");
    }
  }

  // Returns the declaration with this window and max_pending.
  [[nodiscard]] ModelDeclaration WithWindow(std::size_t window, std::size_t max_pending) const {
    ModelDeclaration declaration = declaration_;
    declaration.window = window;
    declaration.max_pending = max_pending;
    if (kind_->NeedsWarmup(declaration_) && declaration.warmup == 0) {
      declaration.warmup = std::min({kDefaultWarmup, window, kind_->MostWarmup(declaration)});
    }
    return declaration;
  }

  // Returns the declaration with this max_pending and the defaults that depend on it.
  [[nodiscard]] ModelDeclaration Filled(std::size_t max_pending) const {
    const std::size_t least = std::max<std::size_t>(std::size_t{kLeastWindow}, declaration_.warmup);
    std::size_t window = declaration_.window;
    if (window == 0) window = kind_->uses_window() ? std::max(kDefaultWindow, least) : least;
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
              kind_->Predicts(filled), " needs ", needs, "; at most ", most, " fit");
    } else if (Fits(unwatched)) {
      Violate("model.monitoring", "of ", kind_->Predicts(filled), " takes ", WatchBytes(filled),
              " bytes, with which the model needs ", needs,
              "; declare it without (calibctl model create --no-monitoring), or raise the limit");
    } else {
      Violate("model.window", "with ", filled.window, " observations of ", kind_->Predicts(filled),
              " needs ", needs, "; declare a smaller window, or raise the limit");
    }
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
  const PredictionKind* kind_ = nullptr;
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
