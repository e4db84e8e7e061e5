#include "core/networks/config/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<ConfigReader> Parse(const std::string& text) {
  return ConfigReader::Parse(text, "vae/config.json", "AutoencoderKL");
}

ConfigReader Reader(const std::string& text) {
  absl::StatusOr<ConfigReader> reader = Parse(text);
  EXPECT_OK(reader);
  return *std::move(reader);
}

TEST(ConfigReader, NamesTheFileThatIsNotJson) {
  EXPECT_THAT(Parse("not json"),
              StatusIs(kInvalid, AllOf(StartsWith("vae/config.json"), HasSubstr("not JSON"))));
  EXPECT_THAT(Parse(""), StatusIs(kInvalid, HasSubstr("not JSON")));
  EXPECT_THAT(Parse(R"({"a": 1)"), StatusIs(kInvalid, HasSubstr("not JSON")));
}

TEST(ConfigReader, RefusesWhatIsNoObject) {
  EXPECT_THAT(Parse("[1, 2]"), StatusIs(kInvalid, HasSubstr("object")));
  EXPECT_THAT(Parse("7"), StatusIs(kInvalid, HasSubstr("object")));
}

TEST(ConfigReader, RefusesTenThousandNestedListsWithoutUsingTheStack) {
  const std::string nested = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_THAT(Parse(R"({"block_out_channels": )" + nested + "}"),
              StatusIs(kInvalid, HasSubstr("nested more than")));
}

TEST(ConfigReader, RefusesMoreThanAMebibyte) {
  const std::string text = R"({"a": ")" + std::string(ConfigReader::kMaxBytes, 'x') + "\"}";
  EXPECT_THAT(Parse(text), StatusIs(kInvalid, HasSubstr("at most 1048576")));
}

TEST(ConfigReader, RefusesTheConfigOfAnotherClass) {
  ConfigReader reader = Reader(R"({"_class_name": "VQModel"})");
  EXPECT_THAT(reader.Finish(),
              StatusIs(kInvalid, AllOf(HasSubstr("VQModel"), HasSubstr("AutoencoderKL"))));
}

TEST(ConfigReader, GivesTheFallbackOfAnAbsentField) {
  ConfigReader reader = Reader("{}");
  EXPECT_EQ(reader.Integer("channels", 5, {}), 5);
  EXPECT_TRUE(reader.Boolean("flag", true));
  EXPECT_EQ(reader.Number("shift", 0.5), 0.5);
  EXPECT_EQ(reader.Choice("act", "silu", {"silu"}), "silu");
  EXPECT_EQ(reader.IntegerOrNull("maybe", {}), std::nullopt);
  EXPECT_THAT(reader.Integers("list", {1, 2}, {}), ElementsAre(1, 2));
  EXPECT_OK(reader.Finish());
}

TEST(ConfigReader, TakesNullForFalse) {
  ConfigReader reader = Reader(R"({"upcast_attention": null})");
  EXPECT_FALSE(reader.Boolean("upcast_attention", true));
  EXPECT_OK(reader.Finish());
}

TEST(ConfigReader, PassesOverAndTellsFieldsThatWereNotAskedFor) {
  ConfigReader reader = Reader(
      R"({"surprise": 2, "known": 1, "another": null, "harmless": {}, "_name_or_path": "x", "é": 1})");
  reader.Integer("known", 0, {});
  constexpr absl::string_view kHarmless[] = {"harmless"};
  EXPECT_OK(reader.Finish({{}, kHarmless}));
  EXPECT_THAT(reader.unknown_fields(), ElementsAre("another", "surprise", "\\xc3\\xa9"));
}

TEST(ConfigReader, CollectsAllMistakesInOneError) {
  ConfigReader reader = Reader(R"({"channels": "many", "flag": 1, "act": "mish", "extra": null})");
  reader.Integer("channels", 4, {1, 64});
  reader.Boolean("flag", false);
  reader.Choice("act", "silu", {"silu", "gelu"});
  EXPECT_THAT(
      reader.Finish(),
      StatusIs(kInvalid, AllOf(StartsWith("vae/config.json: "), HasSubstr("channels is \"many\""),
                               HasSubstr("from 1 to 64"), HasSubstr("flag is 1"),
                               HasSubstr("act is \"mish\"; supported: silu, gelu"),
                               Not(HasSubstr("extra")))));
}

TEST(ConfigReader, KeepsTheErrorShortHoweverManyMistakesThereAre) {
  ConfigReader reader = Reader("{}");
  for (int i = 0; i < 1000; ++i) reader.Mistake(absl::StrCat("field", i), "is not one");
  const absl::Status status = reader.Finish();
  EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("and 988 more")));
  EXPECT_LT(status.message().size(), 2000u);
}

TEST(ConfigReader, RefusesIntegersOutOfRangeAndFractions) {
  for (const char* value : {"0", "65", "1e300", "-9223372036854775808", "18446744073709551615",
                            "1.5", "true", "null"}) {
    ConfigReader reader = Reader(absl::StrCat(R"({"channels": )", value, "}"));
    EXPECT_EQ(reader.Integer("channels", 4, {1, 64}), 4) << value;
    EXPECT_THAT(reader.Finish(), StatusIs(kInvalid, HasSubstr("channels"))) << value;
  }
}

TEST(ConfigReader, TakesAnIntegerThatIsWrittenAsAFraction) {
  ConfigReader reader = Reader(R"({"freq_shift": 2.0})");
  EXPECT_EQ(reader.Integer("freq_shift", 0, {0, 8}), 2);
  EXPECT_OK(reader.Finish());
}

TEST(ConfigReader, TakesOneValueForAllBlocksOrOneForEach) {
  ConfigReader reader = Reader(R"({"one": 3, "each": [1, 2], "short": [1]})");
  EXPECT_THAT(reader.PerBlock("one", 8, 2, {}), ElementsAre(3, 3));
  EXPECT_THAT(reader.PerBlock("each", 8, 2, {}), ElementsAre(1, 2));
  EXPECT_THAT(reader.PerBlock("short", 8, 2, {}), ElementsAre(8, 8));
  EXPECT_THAT(reader.Finish(), StatusIs(kInvalid, HasSubstr("short has 1 elements")));
}

TEST(ConfigReader, TakesOneValueForAllLayersOrOneForEachBlockOrLayer) {
  ConfigReader reader = Reader(R"({"one": 3, "each": [1, [4, 5]], "short": [[1], 2]})");
  EXPECT_THAT(*reader.PerLayer("one", {1, 2}, {}), ElementsAre(ElementsAre(3), ElementsAre(3, 3)));
  EXPECT_THAT(*reader.PerLayer("each", {1, 2}, {}), ElementsAre(ElementsAre(1), ElementsAre(4, 5)));
  EXPECT_EQ(reader.PerLayer("absent", {1, 2}, {}), std::nullopt);
  reader.PerLayer("short", {2, 1}, {});
  EXPECT_THAT(reader.Finish(),
              StatusIs(kInvalid, HasSubstr("a list of 1 for a block of 2 layers")));
}

TEST(ConfigReader, RefusesListsThatAreEmptyOrLong) {
  const std::string many =
      "[1" + std::string(200, ' ') + ",2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]";
  ConfigReader reader = Reader(R"({"empty": [], "many": )" + many + "}");
  EXPECT_THAT(reader.Integers("empty", {7}, {}), ElementsAre(7));
  EXPECT_THAT(reader.Integers("many", {7}, {}), ElementsAre(7));
  EXPECT_THAT(reader.Finish(), StatusIs(kInvalid, AllOf(HasSubstr("empty"), HasSubstr("many"))));
}

TEST(ConfigReader, RefusedFieldsMayBeAbsentNullFalseOrEmpty) {
  ConfigReader reader = Reader(
      R"({"a": null, "b": false, "c": "timestep", "d": [], "e": {}, "f": 0, "g": [1], "h": ""})");
  constexpr absl::string_view kMustBeOff[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  const absl::Status status = reader.Finish({kMustBeOff, {}});
  EXPECT_THAT(status, StatusIs(kInvalid, AllOf(HasSubstr("c is \"timestep\""), HasSubstr("f is 0"),
                                               HasSubstr("g is a list"), HasSubstr("h is \"\""))));
  for (const char* off : {"a", "b", "d", "e", "i"}) {
    EXPECT_THAT(status, StatusIs(kInvalid, Not(HasSubstr(absl::StrCat("field ", off))))) << off;
  }
  EXPECT_THAT(reader.unknown_fields(), ElementsAre());
}

TEST(ConfigReader, ReadsASizeAsOneNumberOrTwo) {
  ConfigReader reader = Reader(R"({"square": 64, "tall": [96, 32], "none": null})");
  EXPECT_EQ(reader.SizeOrNull("square"), (ConfigReader::Size{64, 64}));
  EXPECT_EQ(reader.SizeOrNull("tall"), (ConfigReader::Size{96, 32}));
  EXPECT_EQ(reader.SizeOrNull("none"), std::nullopt);
  EXPECT_OK(reader.Finish());
}

}  // namespace
}  // namespace latentd::networks
