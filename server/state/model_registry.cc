#include "server/state/model_registry.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/kinds/kind_table.h"
#include "server/state/disk_use.h"
#include "server/state/update_declaration.h"

namespace calibd::server {
namespace {

std::string Shown(const std::string& text) { return text.empty() ? "(none)" : text; }

using Parts = std::vector<std::string>;

// What to do when a model does not fit beside the others. Names only fields that reserve something,
// those that reserve most first.
std::string RoomAdvice(const ModelDeclaration& declaration) {
  Parts smaller;
  if (declaration.max_pending > 0) smaller.emplace_back("max_pending");
  if (!declaration.monitoring.group_tag.empty()) smaller.emplace_back("monitoring.max_groups");
  smaller.emplace_back("window");
  return absl::StrCat(": declare a smaller ", absl::StrJoin(smaller, " or "),
                      ", delete models, or raise the limit");
}

void Compare(const char* field, const auto& was, const auto& is, Parts& parts) {
  if (was != is) parts.push_back(absl::StrCat(field, " is ", was, ", declared ", is));
}

// Describes the fields in which two declarations of one name differ.
std::string DescribeDifference(const ModelDeclaration& existing, const ModelDeclaration& declared) {
  if (existing.kind.index() != declared.kind.index()) {
    return absl::StrCat("kind is ", FieldName(KindOf(existing)), ", declared ",
                        FieldName(KindOf(declared)));
  }
  Parts parts;
  const auto compare = [&parts](const char* field, const auto& before, const auto& after) {
    Compare(field, before, after, parts);
  };
  KindOf(existing).Compare(existing, declared, parts);
  if (existing.feature_names != declared.feature_names) parts.emplace_back("feature_names differ");
  compare("window", existing.window, declared.window);
  compare("labels_come_with_predictions", existing.labels_come_with_predictions,
          declared.labels_come_with_predictions);
  const Monitoring& monitoring = existing.monitoring;
  const Monitoring& other = declared.monitoring;
  compare("monitoring.disabled", monitoring.disabled, other.disabled);
  compare("monitoring.min_observations", monitoring.min_observations, other.min_observations);
  compare("monitoring.group_tag", Shown(monitoring.group_tag), Shown(other.group_tag));
  compare("monitoring.max_groups", monitoring.max_groups, other.max_groups);
  compare("monitoring.min_group_observations", monitoring.min_group_observations,
          other.min_group_observations);
  const v1::ModelUpdate update = DescribeUpdate(existing, declared);
  for (const v1::ModelUpdate::Change& change : update.changes()) {
    compare(change.path().c_str(), Shown(change.old_value()), Shown(change.new_value()));
  }
  // An update cannot add or remove a label grace.
  const bool updatable = (existing.max_pending > 0) == (declared.max_pending > 0);
  if (updatable && update.changes_size() == static_cast<int>(parts.size())) {
    parts.emplace_back("change this with UpdateModel (calibctl model update)");
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace

ModelRegistry::ModelRegistry(const Limits& limits, ThreadPool& writers, CheckOwned check_owned)
    : limits_(limits),
      writers_(writers),
      check_owned_(std::move(check_owned)),
      reserved_(std::make_shared<ReservedBytes>()) {}

absl::Status ModelRegistry::Create(ModelDeclaration declaration, bool may_create,
                                   const Found& found) {
  const std::string name = declaration.name.ToString();
  const std::lock_guard lock(mutex_);
  CALIBD_RETURN_IF_ERROR(Check());
  const auto existing = models_.find(name);
  if (existing != models_.end()) {
    const std::shared_ptr<const ModelDeclaration> declared = existing->second->declaration();
    if (*declared == declaration || existing->second->original() == declaration) {
      found(existing->second, false);
      return absl::OkStatus();
    }
    return ModelError(absl::StatusCode::kAlreadyExists, "MODEL_DIFFERS", name,
                      absl::StrCat(name, " exists with another declaration: ",
                                   DescribeDifference(*declared, declaration)));
  }
  if (!may_create) return ModelNotFoundError(name);
  if (models_.size() >= limits_.max_models) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "TOO_MANY_MODELS",
        absl::StrCat("there are ", models_.size(), " models, and the limit is ", limits_.max_models,
                     " (calibd --max-models): delete a model or raise the limit"));
  }
  CALIBD_RETURN_IF_ERROR(CheckRoom(declaration));
  const std::shared_ptr<Model> model =
      Add(next_id_, std::move(declaration), std::chrono::system_clock::now());
  ++next_id_;
  try {
    found(model, true);
  } catch (...) {
    // Restores the state before the call.
    models_.erase(name);
    throw;
  }
  return absl::OkStatus();
}

absl::Status ModelRegistry::CheckRoom(const ModelDeclaration& declaration,
                                      std::size_t reserved_memory,
                                      std::size_t reserved_disk) const {
  const auto exceeds = [](std::size_t needed, std::size_t reserved, std::size_t limit) {
    return needed > limit || reserved > limit - needed;
  };
  const std::size_t memory = MemoryOf(declaration);
  if (const std::size_t reserved = reserved_->memory - reserved_memory;
      exceeds(memory, reserved, limits_.state_memory_bytes)) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "STATE_MEMORY_EXHAUSTED",
        absl::StrCat("the model may need ", memory, " bytes, and ", reserved, " of ",
                     limits_.state_memory_bytes, " are reserved (calibd --state-memory-bytes)",
                     RoomAdvice(declaration)));
  }
  const std::size_t disk = DiskUse(declaration);
  if (const std::size_t reserved = reserved_->disk - reserved_disk;
      exceeds(disk, reserved, limits_.disk_bytes)) {
    return MakeError(absl::StatusCode::kResourceExhausted, "DISK_EXHAUSTED",
                     absl::StrCat("the model may need ", disk, " bytes of disk, and ", reserved,
                                  " of ", limits_.disk_bytes, " are reserved (calibd --disk-bytes)",
                                  RoomAdvice(declaration)));
  }
  return absl::OkStatus();
}

std::shared_ptr<Model> ModelRegistry::Restore(std::int64_t id, ModelDeclaration declaration,
                                              ModelSnapshot::Time create_time) {
  const std::lock_guard lock(mutex_);
  next_id_ = id + 1;
  return Add(id, std::move(declaration), create_time);
}

absl::Status ModelRegistry::Reserve(Model& model, const ModelDeclaration& updated) {
  const std::lock_guard lock(mutex_);
  Reservation& reservation = *model.reservation();
  const std::size_t memory = std::max(reservation.memory(), MemoryOf(updated));
  const std::size_t disk = std::max(reservation.disk(), DiskUse(updated));
  if (memory == reservation.memory() && disk == reservation.disk()) return absl::OkStatus();
  if (restored_) {
    CALIBD_RETURN_IF_ERROR(CheckRoom(updated, reservation.memory(), reservation.disk()));
  }
  reservation.Set(memory, disk);
  return absl::OkStatus();
}

void ModelRegistry::ReserveIds(std::int64_t next_id) {
  const std::lock_guard lock(mutex_);
  next_id_ = std::max(next_id_, next_id);
}

void ModelRegistry::FinishRestoring() {
  const std::lock_guard lock(mutex_);
  restored_ = true;
}

absl::Status ModelRegistry::CheckRestored() const {
  const std::lock_guard lock(mutex_);
  return Check();
}

absl::Status ModelRegistry::Check() const {
  if (check_owned_) CALIBD_RETURN_IF_ERROR(check_owned_());
  return restored_ ? absl::OkStatus() : StartingError();
}

std::shared_ptr<Model> ModelRegistry::Add(std::int64_t id, ModelDeclaration declaration,
                                          ModelSnapshot::Time create_time) {
  auto reservation = std::make_unique<Reservation>(reserved_);
  reservation->Set(MemoryOf(declaration), DiskUse(declaration));
  const std::string name = declaration.name.ToString();
  auto model = std::make_shared<Model>(id, std::move(declaration), create_time, limits_.producers,
                                       writers_, std::move(reservation));
  models_.emplace(name, model);
  return model;
}

absl::StatusOr<std::shared_ptr<Model>> ModelRegistry::Find(const ModelName& name) const {
  const std::string key = name.ToString();
  const std::lock_guard lock(mutex_);
  CALIBD_RETURN_IF_ERROR(Check());
  const auto found = models_.find(key);
  if (found == models_.end()) return ModelNotFoundError(key);
  return found->second;
}

void ModelRegistry::Remove(const Model& model) {
  // Destroyed after the lock is released.
  std::shared_ptr<Model> removed;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model.declaration()->name.ToString());
  if (found != models_.end() && found->second.get() == &model) {
    removed = std::move(found->second);
    models_.erase(found);
  }
}

absl::StatusOr<std::vector<std::shared_ptr<Model>>> ModelRegistry::List(const std::string& after,
                                                                        std::size_t limit) const {
  std::vector<std::shared_ptr<Model>> models;
  const std::lock_guard lock(mutex_);
  CALIBD_RETURN_IF_ERROR(Check());
  for (auto it = models_.upper_bound(after); it != models_.end() && models.size() < limit; ++it) {
    models.push_back(it->second);
  }
  return models;
}

}  // namespace calibd::server
