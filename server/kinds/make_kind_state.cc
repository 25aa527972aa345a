#include "server/kinds/make_kind_state.h"

#include <utility>

#include "server/kinds/classes/class_state.h"
#include "server/kinds/numbers/number_state.h"

namespace calibd::server {

std::unique_ptr<KindState> MakeKindState(std::shared_ptr<const ModelDeclaration> declaration) {
  return declaration->numbers() != nullptr ? MakeNumberState(std::move(declaration))
                                           : MakeClassState(std::move(declaration));
}

}  // namespace calibd::server
