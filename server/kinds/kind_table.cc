#include "server/kinds/kind_table.h"

#include <algorithm>
#include <array>
#include <span>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/kinds/classes/class_predictions.h"
#include "server/kinds/labels/label_predictions.h"
#include "server/kinds/numbers/number_predictions.h"

namespace calibd::server {
namespace {

// All kinds, in the order of the alternatives of ModelDeclaration::kind.
using Kinds =
    std::array<const PredictionKind*, std::variant_size_v<decltype(ModelDeclaration::kind)>>;

const Kinds& AllKinds() noexcept {
  static const Kinds kKinds{&ClassPredictions(), &NumberPredictions(), &LabelPredictions()};
  return kKinds;
}

}  // namespace

const char* NameOf(WindowCall call) noexcept {
  switch (call) {
    case WindowCall::kTest:
      return "a test";
    case WindowCall::kRecalibration:
      return "a recalibration";
    case WindowCall::kErrorEstimate:
      return "an estimate";
    case WindowCall::kComparison:
      return "a comparison";
    case WindowCall::kInferenceEvent:
      return "an answer of a model server";
    case WindowCall::kEvaluation:
      return "an evaluation of the window";
  }
  return "";
}

const PredictionKind& KindOf(const ModelDeclaration& declaration) noexcept {
  return *AllKinds()[declaration.kind.index()];
}

const PredictionKind* FindKind(const v1::Model& model) noexcept {
  const auto found = std::ranges::find(AllKinds(), model.kind_case(), &PredictionKind::field);
  return found == AllKinds().end() ? nullptr : *found;
}

absl::Status CheckCall(const ModelDeclaration& declaration, WindowCall call) {
  return KindOf(declaration).CheckCall(declaration, call);
}

absl::Status CheckLabelNames(const std::string& field,
                             const google::protobuf::RepeatedPtrField<std::string>& labels,
                             const ModelDeclaration& declaration) {
  const PredictionKind& kind = KindOf(declaration);
  const std::span<const std::string> names = kind.label_names(declaration);
  if (!labels.empty() && names.empty()) {
    return InvalidFieldError(field, absl::StrCat("has ", labels.size(), " names, but the model ",
                                                 kind.does(), ", expected none"));
  }
  for (int i = 0; i < labels.size(); ++i) {
    if (std::ranges::find(names, labels[i]) != names.end()) continue;
    return InvalidFieldError(
        absl::StrCat(field, "[", i, "]"),
        absl::StrCat("is ", Quoted(labels[i]), ", expected one of the ", names.size(),
                     " labels of the model, such as ", Quoted(names.front())));
  }
  return absl::OkStatus();
}

const std::string& FieldName(const PredictionKind& kind) {
  return v1::Model::descriptor()->FindFieldByNumber(kind.field())->name();
}

std::string KindFields() {
  std::string fields;
  for (const PredictionKind* const kind : AllKinds()) {
    absl::StrAppend(&fields, fields.empty() ? "" : ", ", FieldName(*kind));
  }
  return fields;
}

}  // namespace calibd::server
