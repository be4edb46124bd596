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

}  // namespace
}  // namespace lzy
