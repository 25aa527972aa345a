#ifndef CALIBD_SERVER_API_EVALUATE_FORECASTS_H_
#define CALIBD_SERVER_API_EVALUATE_FORECASTS_H_

#include "absl/status/status.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/api/api.h"
#include "server/api/call.h"

namespace calibd::server {

// Api::Evaluate of a model that forecasts a number. request: its window is checked.
[[nodiscard]] absl::Status EvaluateForecastModel(const ApiParts& parts,
                                                 const v1::EvaluateRequest& request,
                                                 const Reply<v1::EvaluateResponse>& reply,
                                                 const std::shared_ptr<Model>& model);

// Api::RunTest of such a model: the test of the form "distribution". request: its window is
// checked.
[[nodiscard]] absl::Status TestForecastModel(const ApiParts& parts,
                                             const v1::RunTestRequest& request,
                                             const Reply<v1::RunTestResponse>& reply,
                                             const std::shared_ptr<Model>& model);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_EVALUATE_FORECASTS_H_
