#include "core/base/files/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/files/unique_json.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr size_t kMaxBytes = 1 << 20;

absl::StatusOr<nlohmann::json> Parse(absl::string_view text) {
  return ParseJsonObject(text, "a.json", kMaxBytes);
}

std::string Nested(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += i % 2 == 0 ? R"({"a":)" : "[";
  text += "1";
  for (int i = depth; i-- > 0;) text += i % 2 == 0 ? "}" : "]";
  return text;
}

TEST(ParseJsonObjectTest, GivesWhatIsThere) {
  const std::string text =
      R"({"a":null,"b":[true,-1,18446744073709551615,1.5,"\u00fc\n",{"c":[]},[[2],{}]],"d":{"e":{}}})";
  ASSERT_OK_AND_ASSIGN(const nlohmann::json object, Parse(text));
  EXPECT_EQ(object, nlohmann::json::parse(text));
  ASSERT_OK_AND_ASSIGN(const nlohmann::json empty, Parse(" {} "));
  EXPECT_TRUE(empty.is_object() && empty.empty());
}

TEST(ParseJsonObjectTest, TakesTheLastOfFieldsOfOneName) {
  const std::string text = R"({"a":{"b":1},"c":2,"a":[3]})";
  ASSERT_OK_AND_ASSIGN(const nlohmann::json object, Parse(text));
  EXPECT_EQ(object, nlohmann::json::parse(text));
}

TEST(ParseUniqueJsonObjectTest, NamesWhatIsThereTwiceInOneObject) {
  const auto parse = [](absl::string_view text) {
    return ParseUniqueJsonObject(text, "the body", kMaxBytes);
  };
  for (const char* text : {R"({"a":1,"b":2,"a":1})", R"({"c":[{"a":null,"b":1,"\u0061":2}]})"}) {
    EXPECT_THAT(parse(text), StatusIs(kInvalid, "the body has a twice in one object")) << text;
  }
  const std::string each = R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})";
  ASSERT_OK_AND_ASSIGN(const nlohmann::json object, parse(each));
  EXPECT_EQ(object, nlohmann::json::parse(each));
}

TEST(ParseUniqueJsonObjectTest, CountsWhatAClientSays) {
  const auto text = [](size_t values) {
    std::string list;
    for (size_t i = 2; i < values; ++i) list += i % 2 == 0 ? "[]," : "0,";
    return absl::StrCat("{\"a\":[", list, "{}]}");
  };
  EXPECT_OK(ParseUniqueJsonObject(text(kMaxJsonValues), "the body", kMaxBytes));
  EXPECT_THAT(
      ParseUniqueJsonObject(text(kMaxJsonValues + 1), "the body", kMaxBytes),
      StatusIs(kInvalid, absl::StrCat("the body has more than ", kMaxJsonValues, " values")));
  EXPECT_OK(ParseJsonObject(text(kMaxJsonValues + 1), "a.json", kMaxBytes));
}

TEST(ParseJsonObjectTest, SaysWhereTextIsNotJson) {
  for (const char* text : {"", "nonsense", "{", R"({"a": 1)", R"({"a": 1,})", "{}x", "{\"\xff\":1}",
                           R"({"a": 1e999})", R"({"a": NaN})"}) {
    EXPECT_THAT(Parse(text),
                StatusIs(kInvalid, StartsWith("a.json is not JSON: it goes wrong at byte")))
        << text;
  }
}

TEST(ParseJsonObjectTest, RefusesWhatIsNoObject) {
  for (const char* text : {"7", "-7", "1.5", "\"a\"", "null", "true", "[1]", "[{}]"}) {
    EXPECT_THAT(Parse(text), StatusIs(kInvalid, "a.json is JSON, but not an object {...}")) << text;
  }
}

TEST(ParseJsonObjectTest, RefusesDepthWithoutUsingTheStack) {
  ASSERT_OK_AND_ASSIGN(const nlohmann::json object, Parse(Nested(kMaxJsonDepth)));
  EXPECT_EQ(object, nlohmann::json::parse(Nested(kMaxJsonDepth)));
  const std::string complaint = absl::StrCat("a.json is nested more than ", kMaxJsonDepth, " deep");
  for (const int depth : {kMaxJsonDepth + 1, 10'000}) {
    EXPECT_THAT(Parse(Nested(depth)), StatusIs(kInvalid, complaint));
    // Before it is seen that nothing is closed.
    EXPECT_THAT(Parse("{\"a\":" + std::string(depth, '[')), StatusIs(kInvalid, complaint));
  }
}

TEST(ParseJsonObjectTest, RefusesMoreThanTheLimit) {
  EXPECT_OK(ParseJsonObject("{}", "a.json", 2));
  EXPECT_THAT(ParseJsonObject("{} ", "a.json", 2),
              StatusIs(kInvalid, "a.json has 3 bytes; at most 2 are read"));
}

TEST(ParseJsonObjectTest, AgreesWithNlohmannOnDamagedText) {
  const std::string text =
      R"({"a":[1,{"b":null,"c":"d"},[]],"e":{"f":-2.5e3,"g":true},"h":"i\"j"})";
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 2; ++i) damaged[random() % damaged.size()] = text[random() % text.size()];
    const auto expected = nlohmann::json::parse(damaged, nullptr, /*allow_exceptions=*/false);
    const absl::StatusOr<nlohmann::json> object = Parse(damaged);
    ASSERT_EQ(object.ok(), expected.is_object()) << damaged;
    if (!object.ok()) continue;
    ASSERT_EQ(*object, expected) << damaged;
  }
}

TEST(ReadJsonObjectTest, NamesTheFile) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("a.json");
  EXPECT_THAT(ReadJsonObject(path, 9), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  testing::WriteFile(path, R"({"a": 1})");
  ASSERT_OK_AND_ASSIGN(const nlohmann::json object, ReadJsonObject(path, 9));
  EXPECT_EQ(object, (nlohmann::json{{"a", 1}}));
  EXPECT_THAT(ReadJsonObject(path, 7), StatusIs(kInvalid, AllOf(HasSubstr(path), HasSubstr("7"))));
  testing::WriteFile(path, "[]");
  EXPECT_THAT(ReadJsonObject(path, 9), StatusIs(kInvalid, StartsWith(path + " is JSON, but")));
}

}  // namespace
}  // namespace latentd
