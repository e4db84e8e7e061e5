#include "core/base/text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace latentd {
namespace {

// Bytes near the borders of UTF-8's ranges.
std::string NearBorders(std::mt19937& random, int size) {
  static constexpr unsigned char kBytes[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1,
                                             0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5};
  std::string text;
  for (int i = 0; i < size; ++i) text += static_cast<char>(kBytes[random() % sizeof(kBytes)]);
  return text;
}

TEST(Utf8Test, KnowsWhatIsUtf8) {
  for (const char* good : {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
    EXPECT_EQ(ToUtf8(good), good);
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xFF", "a\xC3(b"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
    EXPECT_TRUE(IsUtf8(ToUtf8(bad))) << bad;
  }
}

TEST(Utf8Test, OnlyWhatIsNotUtf8IsEscaped) {
  EXPECT_EQ(ToUtf8("/models/caf\xE9"), "/models/caf\\xe9");
  EXPECT_EQ(ToUtf8("caf\xC3\xA9 caf\xE9"), "caf\xC3\xA9 caf\\xe9");
  EXPECT_EQ(ToUtf8("\xE2\x82"), "\\xe2\\x82");
  EXPECT_EQ(ToUtf8("\xE2\x82\xC3\xA9"), "\\xe2\\x82\xC3\xA9");
  EXPECT_EQ(ToUtf8("\xED\xA0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(ToUtf8(std::string("a\0\n\\\xFF", 5)), std::string("a\0\n\\\\xff", 8));
}

TEST(Utf8Test, NamesThatDifferStayDifferent) { EXPECT_NE(ToUtf8("\xE8"), ToUtf8("\xE9")); }

TEST(Utf8Test, AnyBytesBecomeUtf8) {
  std::mt19937 random(20260607);
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = NearBorders(random, i % 9);
    EXPECT_TRUE(IsUtf8(ToUtf8(bytes)));
    EXPECT_EQ(ToUtf8(bytes) == bytes, IsUtf8(bytes));
  }
}

}  // namespace
}  // namespace latentd
