#include "core/prompts/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::prompts {
namespace {

using ::latentd::testing::StatusIs;
using ::nlohmann::json;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr double kLess = 1 / 1.1;

Piece Plain(const std::string& text) { return {text}; }
Piece Break(const std::string& text, double weight = 1) { return {text, weight, true}; }

std::string Repeated(absl::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

struct Case {
  const char* prompt;
  std::vector<Piece> pieces;
};

void ExpectPieces(Syntax syntax, const std::vector<Case>& cases) {
  for (const auto& [prompt, pieces] : cases) {
    SCOPED_TRACE(prompt);
    const auto parsed = ParsePrompt(prompt, syntax);
    ASSERT_OK(parsed);
    ASSERT_THAT(*parsed, SizeIs(pieces.size()));
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ((*parsed)[i].text, pieces[i].text);
      EXPECT_DOUBLE_EQ((*parsed)[i].weight, pieces[i].weight);
      EXPECT_EQ((*parsed)[i].after_break, pieces[i].after_break);
    }
  }
}

struct RefusedCase {
  const char* prompt;
  const char* why;
};

void ExpectRefused(Syntax syntax, const std::vector<RefusedCase>& cases) {
  for (const auto& [prompt, why] : cases) {
    EXPECT_THAT(ParsePrompt(prompt, syntax), StatusIs(kInvalidArgument, HasSubstr(why))) << prompt;
  }
}

TEST(ParsePromptTest, WithoutASyntaxThePromptIsLiteral) {
  ExpectPieces(Syntax::kNone, {{"(a:1.2) [b] c++ BREAK \\( <lora:x:1>",
                                {Plain("(a:1.2) [b] c++ BREAK \\( <lora:x:1>")}},
                               {"", {Plain("")}}});
}

TEST(ParsePromptTest, BracketsOfA1111Weigh) {
  ExpectPieces(Syntax::kA1111,
               {{"", {Plain("")}},
                {"a cat", {Plain("a cat")}},
                {"a (cat) b", {Plain("a "), {"cat", 1.1}, Plain(" b")}},
                {"a [cat] b", {Plain("a "), {"cat", kLess}, Plain(" b")}},
                {"(cat:1.5)", {{"cat", 1.5}}},
                {"(cat : +1.5 )(dog:-1)(x:.5)", {{"cat ", 1.5}, {"dog", -1}, {"x", 0.5}}},
                {"((a) b:2)", {{"a", 1.1 * 2}, {" b", 2}}},
                {"(([a]))", {{"a", kLess * 1.1 * 1.1}}},
                {"a (cat:1) b", {Plain("a cat b")}},
                {"(a)(b)", {{"ab", 1.1}}}});
}

TEST(ParsePromptTest, UnclosedBracketsOfA1111CloseAtTheEnd) {
  ExpectPieces(Syntax::kA1111, {{"(a", {{"a", 1.1}}},
                                {"((a", {{"a", 1.1 * 1.1}}},
                                {"[a", {{"a", kLess}}},
                                {"a (b", {Plain("a "), {"b", 1.1}}},
                                {"(a [b)", {{"a ", 1.1}, {"b", 1.1 * kLess}}},
                                {"a) b]", {Plain("a) b]")}},
                                {"a:1.2)", {Plain("a:1.2)")}}});
}

TEST(ParsePromptTest, EscapesOfA1111AreText) {
  ExpectPieces(Syntax::kA1111, {{"\\(a\\) \\[b\\] \\\\", {Plain("(a) [b] \\")}},
                                {"(\\(a\\):1.2)", {{"(a)", 1.2}}},
                                {"a\\", {Plain("a")}},
                                {"a \\b", {Plain("a b")}}});
}

TEST(ParsePromptTest, BreakOfA1111BeginsAPiece) {
  ExpectPieces(Syntax::kA1111, {{"a BREAK b", {Plain("a"), Break("b")}},
                                {"a BREAK BREAK b", {Plain("a"), Break(""), Break("b")}},
                                {"BREAK a", {Plain(""), Break("a")}},
                                {"a\nBREAK", {Plain("a"), Break("")}},
                                {"(a BREAK b:1.5)", {{"a", 1.5}, Break("b", 1.5)}},
                                {"a BREAKS bREAK break", {Plain("a BREAKS bREAK break")}},
                                {"\xC3\x89"
                                 "BREAK BREAK\xC3\xA9",
                                 {Plain("\xC3\x89"
                                        "BREAK BREAK\xC3\xA9")}},
                                {"a\xEF\xBC\x8C"
                                 "BREAK b",
                                 {Plain("a\xEF\xBC\x8C"), Break("b")}}});
}

TEST(ParsePromptTest, RefusesByNameWhatOfA1111IsNoWeight) {
  const char* changes = "it changes the prompt during the run";
  const char* alternates = "it takes another prompt in each step";
  ExpectRefused(Syntax::kA1111, {{"a [b:c:0.5]", changes},
                                 {"a [b:0.5]", changes},
                                 {"a [b::0.5]", changes},
                                 {"a [b:1.2]", "a weight is written (text:1.2)"},
                                 {"[a (b) : 10 ]", changes},
                                 {"a [b|c]", "has \"[b|c]\": it takes another prompt"},
                                 {"[a [b]|c]", alternates},
                                 {"a AND b", "AND draws several prompts"},
                                 {"a <lora:x:0.8> b", "has \"<lora:x:0.8>\": prompts load no"},
                                 {"<hypernet:x", "\"<hypernet:x\""},
                                 {"(a:1.2.3)", "has \":1.2.3)\": the weight is no number"},
                                 {"(a:.)", "no number"}});
  ExpectPieces(Syntax::kA1111, {{"a | b", {Plain("a | b")}},
                                {"[(a|b)]", {{"a|b", 1.1 * kLess}}},
                                {"[a|b", {{"a|b", kLess}}},
                                {"[a: b]", {{"a: b", kLess}}},
                                {"[16]", {{"16", kLess}}},
                                {"[(a:0.5)]", {{"a", 0.5 * kLess}}},
                                {"SAND AND_ hand", {Plain("SAND AND_ hand")}}});
}

TEST(ParsePromptTest, BracketsOfComfyUiWeigh) {
  ExpectPieces(Syntax::kComfyUi, {{"", {Plain("")}},
                                  {"a (cat) b", {Plain("a "), {"cat", 1.1}, Plain(" b")}},
                                  {"(cat:1.5)", {{"cat", 1.5}}},
                                  {"(cat: 1e1 )", {{"cat", 10}}},
                                  {"((a) b)", {{"a", 1.1 * 1.1}, {" b", 1.1}}},
                                  {"((a:1.5) b:2)", {{"a", 1.5}, {" b", 2}}},
                                  {"((a):2)", {{"a", 2 * 1.1}}},
                                  {"(a:b)", {{"a:b", 1.1}}},
                                  {"(:1.5)", {{":1.5", 1.1}}},
                                  {"[a] BREAK a|b", {Plain("[a] BREAK a|b")}},
                                  {"\\(a\\) (\\(b\\):2)", {Plain("(a) "), {"(b)", 2}}}});
}

TEST(ParsePromptTest, UnmatchedBracketsOfComfyUiAreTextOrCount) {
  ExpectPieces(Syntax::kComfyUi, {{"(a", {Plain("(a")}},
                                  {"a (b", {Plain("a "), Plain("(b")}},
                                  {"a) b", {Plain("a) b")}},
                                  {") (a) b", {Plain(") (a) b")}},
                                  {"((a)", {{"(a", 1.1}}}});
}

TEST(ParsePromptTest, RefusesByNameWhatOfComfyUiIsNoWeight) {
  ExpectRefused(Syntax::kComfyUi,
                {{"a, embedding:bad-hands, b", "has \"embedding:bad-hands\": textual inversions"},
                 {"(embedding:x:1.2)", "has \"embedding:x\""},
                 {"(a:inf)", "no finite number"},
                 {"(a:nan)", "no finite number"},
                 {"(a:1e300)", "no finite number"}});
  ExpectPieces(Syntax::kComfyUi, {{"anembedding:x", {Plain("anembedding:x")}}});
}

TEST(ParsePromptTest, MakesThePiecesOfCompel) {
  std::ifstream file(::latentd::testing::SourcePath("tests/core/prompts/compel_cases.json"),
                     std::ios::binary);
  const json cases = json::parse(file);
  ASSERT_GT(cases.size(), 50u);
  for (const json& one : cases) {
    std::vector<Piece> pieces;
    for (const json& piece : one["pieces"]) pieces.push_back({piece[0], piece[1]});
    const std::string prompt = one["prompt"];
    const auto parsed = ParsePrompt(prompt, Syntax::kCompel);
    ASSERT_OK(parsed);
    EXPECT_THAT(*parsed, ElementsAreArray(pieces)) << prompt;
  }
}

TEST(ParsePromptTest, RefusesByNameWhatOfCompelIsNoWeight) {
  ExpectRefused(Syntax::kCompel,
                {{R"(("a", "b").blend(0.6, 0.4))", "has \".blend(\""},
                 {R"(("a", "b").and())", ".and("},
                 {"a cat.swap(dog)", ".swap("},
                 {"a withLora(x, 0.5)", "withLora("},
                 {"(a)99999999999999999999999999999999999999999", "larger than any number"}});
}

TEST(ParsePromptTest, NestsABoundedNumberOfBrackets) {
  for (const Syntax syntax : {Syntax::kA1111, Syntax::kComfyUi, Syntax::kCompel}) {
    SCOPED_TRACE(static_cast<int>(syntax));
    const auto nested = [&](int depth) {
      return ParsePrompt(absl::StrCat(Repeated("(", depth), "a", Repeated(")", depth)), syntax);
    };
    const auto most = nested(kMaxNesting);
    ASSERT_OK(most);
    EXPECT_THAT(*most, SizeIs(1));
    EXPECT_EQ(most->front().text, "a");
    EXPECT_THAT(nested(kMaxNesting + 1),
                StatusIs(kInvalidArgument, HasSubstr("nests more than 100 brackets")));
  }
}

// Each of these took exponential or quadratic time in a simpler parser.
TEST(ParsePromptTest, TakesTimeInProportionToTheText) {
  const std::string brackets = Repeated("(a ", kMaxNesting);
  for (const std::string& prompt :
       {Repeated("a ", 30000), Repeated("(a)+ ", 12000), Repeated("\"", 60000),
        Repeated("(\"a ", 15000), absl::StrCat(brackets, Repeated("(a) ", 15000)),
        absl::StrCat(Repeated("(", 99), Repeated("[a:(b)", 9000))}) {
    for (const Syntax syntax : {Syntax::kA1111, Syntax::kComfyUi, Syntax::kCompel}) {
      const auto parsed = ParsePrompt(prompt, syntax);
      if (parsed.ok()) continue;
      EXPECT_THAT(parsed, StatusIs(kInvalidArgument, HasSubstr("nests")));
    }
  }
}

TEST(ParsePromptTest, RefusesAWeightThatIsLargerThanAnyNumber) {
  ExpectRefused(Syntax::kA1111, {{"((((a:9999999999):9999999999):9999999999):9999999999)",
                                  "has \"a\": its weight is larger than any number"}});
}

}  // namespace
}  // namespace latentd::prompts
