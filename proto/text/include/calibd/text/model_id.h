#ifndef CALIBD_TEXT_MODEL_ID_H_
#define CALIBD_TEXT_MODEL_ID_H_

#include <string>
#include <string_view>

namespace calibd {

// True if the text matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$, as the ids in the name of a model
// must.
[[nodiscard]] bool IsModelId(std::string_view text) noexcept;

// Returns the text if it is an id and does not begin with "x--"; otherwise its escaped form, see
// Model.name in model_service.proto, which is an id unless it is too long.
[[nodiscard]] std::string EscapeModelId(std::string_view text);

}  // namespace calibd

#endif  // CALIBD_TEXT_MODEL_ID_H_
