#include "server/state/update_declaration.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/errors.h"
#include "server/kinds/kind_table.h"
#include "server/state/check_declaration.h"

namespace calibd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::FieldMaskUtil;
using google::protobuf::util::TimeUtil;

constexpr std::size_t kShownValueBytes = 80;

// Copies the fields of the mask, also those that are unset.
void CopyFields(const v1::Model& from, const google::protobuf::FieldMask& mask, v1::Model& to) {
  FieldMaskUtil::MergeOptions options;
  options.set_replace_message_fields(true);
  FieldMaskUtil::MergeMessageTo(from, mask, options, &to);
}

// Returns the value of the field with this path as text; empty if it is unset.
std::string ValueText(const v1::Model& model, const std::string& path) {
  const Message* message = &model;
  const FieldDescriptor* field = nullptr;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (const std::string& name : names) {
    if (field != nullptr) message = &message->GetReflection()->GetMessage(*message, field);
    field = message->GetDescriptor()->FindFieldByName(name);
  }
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::string text;
  if (!reflection.HasField(*message, field)) return text;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    text = reflection.GetString(*message, field);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    text = TimeUtil::ToString(
        static_cast<const google::protobuf::Duration&>(reflection.GetMessage(*message, field)));
  } else {
    google::protobuf::TextFormat::PrintFieldValueToString(*message, field, -1, &text);
  }
  std::size_t size = std::min(text.size(), kShownValueBytes);
  // A character of UTF-8 is not cut.
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80) --size;
  text.resize(size);
  return text;
}

}  // namespace

absl::StatusOr<ModelDeclaration> UpdateDeclaration(const ModelDeclaration& declaration,
                                                   const DeclarationUpdate& update,
                                                   std::size_t model_memory_bytes,
                                                   std::size_t model_disk_bytes) {
  const auto& paths = update.mask.paths();
  const auto monitored = std::ranges::find_if(
      paths, [](const std::string& path) { return path.starts_with("monitoring."); });
  if (declaration.monitoring.disabled && monitored != paths.end()) {
    return InvalidFieldError(absl::StrCat("model.", *monitored),
                             "cannot be updated, because monitoring is disabled");
  }
  for (const std::string& path : paths) {
    const auto* const field =
        v1::Model::descriptor()->FindFieldByName(path.substr(0, path.find('.')));
    const bool of_kind = field != nullptr && field->containing_oneof() != nullptr;
    if (of_kind && field->number() != KindOf(declaration).field()) {
      return InvalidFieldError(
          absl::StrCat("model.", path),
          absl::StrCat("cannot be updated, because the model has no ", field->name()));
    }
  }
  v1::Model model = SettingsToProto(declaration);
  CopyFields(update.model, update.mask, model);
  return CheckSettings(declaration, model, model_memory_bytes, model_disk_bytes);
}

DeclarationUpdate UpdateTo(const ModelDeclaration& declaration, google::protobuf::FieldMask mask) {
  DeclarationUpdate update{.model = {}, .mask = std::move(mask)};
  CopyFields(SettingsToProto(declaration), update.mask, update.model);
  return update;
}

v1::ModelUpdate DescribeUpdate(const ModelDeclaration& before, const ModelDeclaration& after) {
  v1::ModelUpdate update;
  const v1::Model was = SettingsToProto(before);
  const v1::Model is = SettingsToProto(after);
  for (const std::string& path : UpdatableFields()) {
    google::protobuf::FieldMask mask;
    mask.add_paths(path);
    if (UpdateTo(before, mask).model.SerializeAsString() ==
        UpdateTo(after, mask).model.SerializeAsString()) {
      continue;
    }
    v1::ModelUpdate::Change& change = *update.add_changes();
    change.set_path(path);
    change.set_old_value(ValueText(was, path));
    change.set_new_value(ValueText(is, path));
  }
  const MonitorRestart restart = RestartOf(before.monitoring, after.monitoring);
  if (restart == MonitorRestart::kEvidence) update.add_restarts(v1::ModelUpdate::EVIDENCE);
  if (restart != MonitorRestart::kNothing) {
    update.add_restarts(v1::ModelUpdate::DRIFT_DETECTORS);
    const bool has_groups = !after.monitoring.group_tag.empty();
    if (has_groups) update.add_restarts(v1::ModelUpdate::GROUPS);
  }
  const bool has_new_level =
      before.monitoring.significance_level != after.monitoring.significance_level;
  if (has_new_level) update.add_restarts(v1::ModelUpdate::ERROR);
  if (after.monitoring.reference_rows == 0) return update;
  if (before.monitoring.reference_rows != after.monitoring.reference_rows) {
    update.add_restarts(v1::ModelUpdate::REFERENCE);
  } else if (has_new_level) {
    update.add_restarts(v1::ModelUpdate::REFERENCE_BETS);
  }
  return update;
}

}  // namespace calibd::server
