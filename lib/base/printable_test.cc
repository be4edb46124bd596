#include "base/printable.h"

#include <gtest/gtest.h>

namespace lzy {
namespace {

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable("\x1b[2J\x7f\x01"), "\\x1b[2J\\x7f\\x01");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b"
            "2J");
}

TEST(Printable, OtherCharactersStay) {
  for (const char* text :
       {"", "plain", "with space", "umlaut-\xc3\xbc", "\xc2\xa0", "not utf-8 \xff\xc2", "back\\slash"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text));
  }
  EXPECT_FALSE(IsPrintable("a\n"));
}

TEST(AsUtf8, OtherBytesAreEscaped) {
  for (const char* text : {"", "plain\n", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x92\xbe"}) EXPECT_EQ(AsUtf8(text), text);
  EXPECT_EQ(AsUtf8("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(AsUtf8("\xc3("), "\\xc3(");
  // An overlong slash, a surrogate, and what lies above U+10FFFF.
  EXPECT_EQ(AsUtf8("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(AsUtf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(AsUtf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(ShellQuote, EveryByteCanBePasted) {
  EXPECT_EQ(ShellQuote("a b"), "'a b'");
  EXPECT_EQ(ShellQuote("\xc3\xbc"), "'\xc3\xbc'");
  EXPECT_EQ(ShellQuote("a'\n"), "$'a\\'\\n'");
  EXPECT_EQ(ShellQuote("a\\\xff"), "$'a\\\\\\xff'");
}

}  // namespace
}  // namespace lzy
