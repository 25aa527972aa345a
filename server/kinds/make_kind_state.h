#ifndef CALIBD_SERVER_KINDS_MAKE_KIND_STATE_H_
#define CALIBD_SERVER_KINDS_MAKE_KIND_STATE_H_

#include <memory>

#include "server/kinds/kind_state.h"

namespace calibd::server {

// Makes the state of a model of any kind.
[[nodiscard]] std::unique_ptr<KindState> MakeKindState(
    std::shared_ptr<const ModelDeclaration> declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_MAKE_KIND_STATE_H_
