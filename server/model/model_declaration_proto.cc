#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibd/convert/kernel.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

v1::Model SettingsToProto(const ModelDeclaration& declaration) {
  v1::Model model;
  // 0 for forecasts.
  model.set_row_sum_tolerance(declaration.row_sum_tolerance);
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
  const InferenceOutput& output = declaration.inference_output;
  if (output != InferenceOutput()) {
    v1::InferenceOutput& inference = *model.mutable_inference_output();
    inference.set_name(output.name);
    inference.set_transform(output.transform);
    inference.set_baseline_name(output.baseline_name);
    std::vector<std::string> column_classes(output.columns.size());
    for (std::size_t k = 0; k < output.columns.size(); ++k) {
      column_classes[output.columns[k]] = declaration.class_names[k];
    }
    inference.mutable_column_classes()->Add(column_classes.begin(), column_classes.end());
  }
  return model;
}

v1::Model ToProto(const ModelDeclaration& declaration) {
  v1::Model model = SettingsToProto(declaration);
  model.set_name(declaration.name.ToString());
  model.set_window(static_cast<std::int32_t>(declaration.window));
  model.mutable_feature_names()->Add(declaration.feature_names.begin(),
                                     declaration.feature_names.end());
  if (declaration.forecast.has_value()) {
    *model.mutable_forecast() = ToProto(*declaration.forecast);
    if (declaration.decision.has_value()) {
      *model.mutable_decision() = ToProto(*declaration.decision);
    }
    return model;
  }
  model.set_class_count(static_cast<std::int32_t>(declaration.class_count));
  model.mutable_class_names()->Add(declaration.class_names.begin(), declaration.class_names.end());
  *model.mutable_kernel() = convert::KernelToProto(declaration.kernel);
  if (declaration.kernel.matrix == nullptr) {
    *model.mutable_bandwidth() =
        convert::BandwidthToProto(declaration.kernel.rule.bandwidth, declaration.warmup);
  }
  for (const Lens& lens : declaration.lenses) {
    if (!lens.is_canonical()) *model.add_lenses() = convert::ToProto(lens);
  }
  for (const std::size_t block_size : declaration.block_sizes) {
    model.add_block_sizes(static_cast<std::int32_t>(block_size));
  }
  model.set_baseline(declaration.baseline);
  return model;
}

}  // namespace calibd::server
