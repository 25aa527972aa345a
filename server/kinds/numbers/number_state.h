#ifndef CALIBD_SERVER_KINDS_NUMBERS_NUMBER_STATE_H_
#define CALIBD_SERVER_KINDS_NUMBERS_NUMBER_STATE_H_

#include <memory>

#include "server/kinds/kind_state.h"

namespace calibd::server {

// The state of a model of forecasts: their cells and the monitor.
[[nodiscard]] std::unique_ptr<KindState> MakeNumberState(
    std::shared_ptr<const ModelDeclaration> declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_NUMBER_STATE_H_
