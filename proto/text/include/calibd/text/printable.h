#ifndef CALIBD_TEXT_PRINTABLE_H_
#define CALIBD_TEXT_PRINTABLE_H_

#include <optional>
#include <string>
#include <string_view>

namespace calibd {

// Text is printable if it is valid UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF)
// and has no control characters, line or paragraph separators, bidirectional controls, other
// invisible format characters, or noncharacters. The zero-width joiner and non-joiner are
// printable: scripts and emoji need them. The set is fixed and follows no version of Unicode, so
// that what was once accepted stays valid.

[[nodiscard]] bool IsUtf8(std::string_view text) noexcept;

// Describes the first unprintable part of the text, such as "has U+202E at byte 5, expected
// printable characters"; unset if the text is printable. Cost: O(size).
[[nodiscard]] std::optional<std::string> FindUnprintable(std::string_view text);

// Returns the text with its unprintable parts replaced: bytes that are not UTF-8 by "\xff",
// characters by "\n", "\r", "\t" or "\u202e". Cost: O(size).
[[nodiscard]] std::string EscapeUnprintable(std::string_view text);

}  // namespace calibd

#endif  // CALIBD_TEXT_PRINTABLE_H_
