#include "calibd/text/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace calibd {
namespace {

TEST(PrintableTest, AcceptsVisibleText) {
  for (const char* text : {"", "EU-west 1", "Zürich", "日本", "\U0001F600", "نام‌ها",
                           "\U0001F468\u200D\U0001F469", "\xed\x9f\xbf", "\ue000", "\ufffd"}) {
    EXPECT_EQ(FindUnprintable(text), std::nullopt) << text;
    EXPECT_EQ(EscapeUnprintable(text), text);
  }
}

TEST(PrintableTest, NamesTheCodePointAndItsPlace) {
  const auto expect = [](std::string_view text, const std::string& code_point,
                         const std::string& escaped) {
    EXPECT_EQ(FindUnprintable("a" + std::string(text) + "b"),
              "has " + code_point + " at byte 1, expected printable characters");
    EXPECT_EQ(EscapeUnprintable("a" + std::string(text) + "b"), "a" + escaped + "b");
  };
  expect(std::string_view("\0", 1), "U+0000", "\\u0000");
  expect("\n", "U+000A", "\\n");
  expect("\r", "U+000D", "\\r");
  expect("\x1b", "U+001B", "\\u001b");
  expect("\x7f", "U+007F", "\\u007f");
  expect("\u0080", "U+0080", "\\u0080");
  expect("\u0085", "U+0085", "\\u0085");
  expect("\u009f", "U+009F", "\\u009f");
  expect("\u061c", "U+061C", "\\u061c");
  expect("\u200e", "U+200E", "\\u200e");
  expect("\u200f", "U+200F", "\\u200f");
  expect("\u2028", "U+2028", "\\u2028");
  expect("\u2029", "U+2029", "\\u2029");
  expect("\u202a", "U+202A", "\\u202a");
  expect("\u202e", "U+202E", "\\u202e");
  expect("\u2066", "U+2066", "\\u2066");
  expect("\u2069", "U+2069", "\\u2069");
  expect("\ufeff", "U+FEFF", "\\ufeff");
  expect("\uffff", "U+FFFF", "\\uffff");
  expect("\U000E0041", "U+E0041", "\\U000e0041");
  expect("\U0010FFFE", "U+10FFFE", "\\U0010fffe");
  // The neighbours of the C1 and bidirectional controls.
  EXPECT_EQ(FindUnprintable("~\u00a0\u200c\u200d\u2027\u202f\u2070"), std::nullopt);
}

TEST(PrintableTest, RefusesBytesThatAreNotUtf8) {
  // A lone continuation byte, overlong forms, surrogates, too large code points, truncated ones.
  for (const char* text : {"\x80", "\xff", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                           "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3",
                           "\xe2\x82", "\xf0\x9f\x98", "\xe2\x82\x41"}) {
    EXPECT_FALSE(IsUtf8(text));
    EXPECT_EQ(FindUnprintable("ab" + std::string(text)), "is not valid UTF-8 at byte 2");
    EXPECT_TRUE(IsUtf8(EscapeUnprintable(text)));
    EXPECT_EQ(FindUnprintable(EscapeUnprintable(text)), std::nullopt);
  }
  EXPECT_EQ(EscapeUnprintable("\xe2\x82\x41\xc3\xa9\xff"), "\\xe2\\x82A\u00e9\\xff");
}

}  // namespace
}  // namespace calibd
