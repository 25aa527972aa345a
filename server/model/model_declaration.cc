#include "server/model/model_declaration.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibd/convert/kernel.h"

namespace calibd::server {

bool operator==(const ClassesSpec& a, const ClassesSpec& b) {
  const bool equal_matrix = a.kernel.matrix == nullptr || b.kernel.matrix == nullptr
                                ? a.kernel.matrix == b.kernel.matrix
                                : *a.kernel.matrix == *b.kernel.matrix;
  return a.count == b.count && a.names == b.names && a.kernel.rule == b.kernel.rule &&
         equal_matrix && a.lenses == b.lenses && a.block_sizes == b.block_sizes &&
         a.row_sum_tolerance == b.row_sum_tolerance && a.baseline == b.baseline;
}

namespace {

// names: of the classes, if there are columns.
v1::InferenceOutput ToProto(const InferenceOutput& output, std::span<const std::string> names) {
  v1::InferenceOutput proto;
  proto.set_name(output.name);
  proto.set_transform(output.transform);
  proto.set_baseline_name(output.baseline_name);
  std::vector<std::string> column_classes(output.columns.size());
  for (std::size_t k = 0; k < output.columns.size(); ++k) {
    column_classes[output.columns[k]] = names[k];
  }
  proto.mutable_column_classes()->Add(column_classes.begin(), column_classes.end());
  return proto;
}

// warmup: of the declaration.
void ToProto(const ClassesSpec& spec, std::size_t warmup, v1::Classes& classes) {
  classes.set_count(static_cast<std::int32_t>(spec.count));
  classes.mutable_names()->Add(spec.names.begin(), spec.names.end());
  *classes.mutable_kernel() = convert::KernelToProto(spec.kernel);
  if (spec.kernel.matrix == nullptr) {
    *classes.mutable_bandwidth() = convert::BandwidthToProto(spec.kernel.rule.bandwidth, warmup);
  }
  for (const Lens& lens : spec.lenses) {
    if (!lens.is_canonical()) *classes.add_lenses() = convert::ToProto(lens);
  }
  for (const std::size_t block_size : spec.block_sizes) {
    classes.add_block_sizes(static_cast<std::int32_t>(block_size));
  }
  classes.set_baseline(spec.baseline);
}

}  // namespace

v1::Model SettingsToProto(const ModelDeclaration& declaration) {
  v1::Model model;
  if (declaration.max_pending > 0) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(declaration.label_grace);
    model.mutable_label_grace()->set_seconds(seconds.count());
    model.mutable_label_grace()->set_nanos(static_cast<std::int32_t>(
        std::chrono::nanoseconds(declaration.label_grace - seconds).count()));
    model.set_max_pending(static_cast<std::int32_t>(declaration.max_pending));
    model.set_labels_come_with_predictions(declaration.labels_come_with_predictions);
  }
  *model.mutable_monitoring() = ToProto(declaration.monitoring);
  model.set_description(declaration.description);
  const ClassesSpec* const classes = declaration.classes();
  if (classes != nullptr) {
    model.mutable_classes()->set_row_sum_tolerance(classes->row_sum_tolerance);
  }
  if (declaration.inference_output != InferenceOutput()) {
    *model.mutable_inference_output() =
        ToProto(declaration.inference_output, classes != nullptr
                                                  ? std::span<const std::string>(classes->names)
                                                  : std::span<const std::string>());
  }
  return model;
}

v1::Model ToProto(const ModelDeclaration& declaration) {
  v1::Model model = SettingsToProto(declaration);
  model.set_name(declaration.name.ToString());
  model.set_window(static_cast<std::int32_t>(declaration.window));
  model.mutable_feature_names()->Add(declaration.feature_names.begin(),
                                     declaration.feature_names.end());
  if (const ClassesSpec* const classes = declaration.classes()) {
    ToProto(*classes, declaration.warmup, *model.mutable_classes());
  } else if (const NumbersSpec* const numbers = declaration.numbers()) {
    *model.mutable_forecast() = ToProto(numbers->forecast);
    if (numbers->decision.has_value()) {
      *model.mutable_forecast()->mutable_decision() = ToProto(*numbers->decision);
    }
  } else if (const LabelsSpec* const labels = declaration.labels()) {
    model.mutable_labels()->mutable_names()->Add(labels->names.begin(), labels->names.end());
  }
  return model;
}

}  // namespace calibd::server
