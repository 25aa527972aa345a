#include "server/model/inference_output.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "server/base/errors.h"

namespace calibd::server {
namespace {

// Returns the column of each class.
std::vector<std::size_t> ColumnsOf(const v1::InferenceOutput& declared,
                                   const std::vector<std::string>& names,
                                   std::vector<Violation>& violations) {
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
    Violate(violations, "model.inference_output.column_classes", "has ",
            declared.column_classes_size(), " names, expected the model's class_names, each once");
  }
  return result;
}

// The output of a model without classes has the values of its predictions as they are.
void CheckUntransformed(const v1::InferenceOutput& declared, std::vector<Violation>& violations) {
  if (declared.transform() > v1::InferenceOutput::NONE) {
    Violate(violations, "model.inference_output.transform", "is ",
            v1::InferenceOutput::Transform_Name(declared.transform()),
            ", expected NONE because the model has no classes");
  }
  if (declared.column_classes_size() > 0) {
    Violate(violations, "model.inference_output.column_classes", "has ",
            declared.column_classes_size(),
            " names, expected none because the model has no classes");
  }
}

}  // namespace

InferenceOutput CheckInferenceOutput(const v1::InferenceOutput& declared,
                                     const ModelDeclaration& declaration,
                                     std::vector<Violation>& violations) {
  InferenceOutput output{.name = declared.name(),
                         .transform = declared.transform(),
                         .baseline_name = declared.baseline_name()};
  const bool has_baseline = declaration.has_baseline();
  if (!output.baseline_name.empty() && (!has_baseline || output.baseline_name == output.name)) {
    Violate(violations, "model.inference_output.baseline_name", "is ", Quoted(output.baseline_name),
            has_baseline ? ", expected another output than that of the model"
                         : ", expected none because the model has no baseline");
  }
  const ClassesSpec* const classes = declaration.classes();
  if (!v1::InferenceOutput::Transform_IsValid(output.transform)) {
    Violate(violations, "model.inference_output.transform", "is ", output.transform,
            ", expected 0..", v1::InferenceOutput::Transform_MAX);
  } else if (classes == nullptr) {
    CheckUntransformed(declared, violations);
  } else if (output.transform == v1::InferenceOutput::SIGMOID && classes->count != 2) {
    Violate(violations, "model.inference_output.transform", "is SIGMOID with ", classes->count,
            " classes, expected 2 classes");
  }
  if (classes != nullptr && declared.column_classes_size() > 0) {
    output.columns = ColumnsOf(declared, classes->names, violations);
  }
  return output;
}

}  // namespace calibd::server
