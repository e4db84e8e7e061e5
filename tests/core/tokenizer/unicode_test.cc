#include "core/tokenizer/unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::tokenizer {
namespace {

TEST(DecodeUtf8Test, DecodesEveryLength) {
  EXPECT_EQ(DecodeUtf8("a\u00E9\u20AC\U0001F600"), U"a\u00E9\u20AC\U0001F600");
}

TEST(DecodeUtf8Test, DecodesTheEndsOfEveryRange) {
  const std::u32string ends = {0x7F,   0x80,   0x7FF,   0x800,    0xD7FF,
                               0xE000, 0xFFFF, 0x10000, 0x10FFFF, 0};
  EXPECT_EQ(DecodeUtf8(EncodeUtf8(ends)), ends);
}

// The examples of the Unicode standard 15, tables 3-8 to 3-11.
TEST(DecodeUtf8Test, ReplacesEachMaximalIllFormedPart) {
  EXPECT_EQ(DecodeUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(DecodeUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(DecodeUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB");
  EXPECT_EQ(DecodeUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), U"\uFFFD\uFFFD\uFFFD\uFFFDA");
}

TEST(DecodeUtf8Test, ReplacesASequenceThatEndsTooEarly) {
  EXPECT_EQ(DecodeUtf8("a\xF0\x9F\x98"), U"a\uFFFD");
  EXPECT_EQ(DecodeUtf8(std::string("\xE2\x00", 2)), std::u32string({0xFFFD, 0}));
}

TEST(NormalizeTest, Composes) {
  EXPECT_EQ(Normalize(U"e\u0301"), U"\u00E9");
  EXPECT_EQ(Normalize(U"\u1112\u1161\u11AB"), U"\uD55C");
  EXPECT_EQ(Normalize(U"\u212B"), U"\u00E5");
}

TEST(NormalizeTest, OrdersMarksByClassAndKeepsEqualOnes) {
  EXPECT_EQ(Normalize(U"q\u0307\u0323"), U"q\u0323\u0307");
  EXPECT_EQ(Normalize(U"q\u0301\u0300"), U"q\u0301\u0300");
}

TEST(NormalizeTest, LeavesMarksAloneThatUnicode9DoesNotKnow) {
  EXPECT_EQ(Normalize(U"a\u08CA\u0323"), U"a\u08CA\u0323");
  EXPECT_EQ(Normalize(U"e\u1ACE\u0301"), U"e\u1ACE\u0301");
  EXPECT_EQ(Normalize(U"\U00011935\U00011930"), U"\U00011935\U00011930");
  EXPECT_EQ(Normalize(U"\U00011938"), U"\U00011938");
}

TEST(NormalizeTest, CollapsesSpace) {
  EXPECT_EQ(Normalize(U" \t\u00A0a\u3000\u0085\r\nb\u2028"), U" a b ");
}

TEST(NormalizeTest, LowersEachCharacterForItself) {
  EXPECT_EQ(Normalize(U"\u03A3\u0391\u03A3"), U"\u03C3\u03B1\u03C3");
  EXPECT_EQ(Normalize(U"\u0130"), U"i\u0307");
  EXPECT_EQ(Normalize(U"\u1E9E\u00DF"), U"\u00DF\u00DF");
  EXPECT_EQ(Normalize(U"\U00010D50\uA7DC"), U"\U00010D70\u019B");
}

TEST(ClassifyTest, KnowsSpaceFromWhatOnlyLooksLikeIt) {
  const std::u32string_view spaces =
      U" \t\v\f\r\n\u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000";
  for (const char32_t c : spaces) {
    EXPECT_EQ(Classify(c), CharacterClass::kSpace) << std::hex << uint32_t{c};
  }
  const std::u32string_view others = U"\u001C\u200B\u180E\uFEFF\u2060";
  for (const char32_t c : others) {
    EXPECT_EQ(Classify(c), CharacterClass::kOther) << std::hex << uint32_t{c};
  }
}

TEST(ClassifyTest, KnowsLettersNumbersAndTheRest) {
  for (const char32_t c : {U'a', U'\u01C5', U'\u02B0', U'\u4E00', U'\U0002EBF0', U'\U00010D4A'}) {
    EXPECT_EQ(Classify(c), CharacterClass::kLetter) << std::hex << uint32_t{c};
  }
  for (const char32_t c : {U'0', U'\u0663', U'\u2167', U'\u00BD', U'\U00010D40'}) {
    EXPECT_EQ(Classify(c), CharacterClass::kNumber) << std::hex << uint32_t{c};
  }
  for (const char32_t c : {U'!', U'\u0301', U'\U0001F600', U'\u0378', U'\U0010FFFF', U'\0'}) {
    EXPECT_EQ(Classify(c), CharacterClass::kOther) << std::hex << uint32_t{c};
  }
}

TEST(IsWordCharacterTest, IsTrueOfWhatWordsAreMadeOf) {
  const std::u32string_view parts =
      U"aZ9_\u00E9\u0301\u0903\u0488\u0663\u2167\u203F\u200D\u24B6\U0001F170\U00010D40";
  for (const char32_t c : parts) EXPECT_TRUE(IsWordCharacter(c)) << std::hex << uint32_t{c};
  const std::u32string_view others = U" -'!\u00B2\u2460\u200B\u2028\U0001F14A\U0001F18A\U0001F600";
  for (const char32_t c : others) EXPECT_FALSE(IsWordCharacter(c)) << std::hex << uint32_t{c};
}

}  // namespace
}  // namespace latentd::tokenizer
