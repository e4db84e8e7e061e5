#include "client/options/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/options/files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MATCHER_P(Are, prompts, "are those prompts") {
  *result_listener << arg.status().ToString();
  return arg.ok() && ::testing::ExplainMatchResult(prompts, *arg, result_listener);
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class PromptsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Read(const std::string& text, bool per_line = false) {
    const std::string path = folder_.path() + "/prompts.txt";
    const absl::Status written = WriteFile(path, text, Overwrite::kReplace);
    if (!written.ok()) return written;
    return ReadPrompts({.words = {}, .file = path, .per_line = per_line});
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(PromptsTest, EachWordIsOne) {
  EXPECT_THAT(ReadPrompts({.words = {"a star", "a heart"}}), Are(ElementsAre("a star", "a heart")));
  EXPECT_THAT(ReadPrompts({.words = {""}}), Are(ElementsAre("")));  // the empty prompt
}

TEST_F(PromptsTest, AreAskedForInTheWordsOfTheCommand) {
  EXPECT_THAT(ReadPrompts({}), StatusIs(kInvalid, HasSubstr("latent generate")));
  EXPECT_THAT(ReadPrompts({.ask = "say what to encode"}), StatusIs(kInvalid, "say what to encode"));
  EXPECT_THAT(ReadPrompts({.needed = false, .ask = "unasked"}), Are(ElementsAre("")));
}

TEST_F(PromptsTest, AFileIsOneWithoutTheNewlineAtItsEnd) {
  EXPECT_THAT(Read("a star\n"), Are(ElementsAre("a star")));
  EXPECT_THAT(Read("a star\r\n"), Are(ElementsAre("a star")));
  EXPECT_THAT(Read("a star"), Are(ElementsAre("a star")));
  EXPECT_THAT(Read("a star,\nred\n\n"), Are(ElementsAre("a star,\nred\n")));
  EXPECT_THAT(Read("\xEF\xBB\xBF\xC3\xA9toile\n"), Are(ElementsAre("\xC3\xA9toile")));
}

TEST_F(PromptsTest, OrHasOneInEachLine) {
  EXPECT_THAT(Read("a star\r\n\n  \na heart", /*per_line=*/true),
              Are(ElementsAre("a star", "a heart")));
}

TEST_F(PromptsTest, WhatIsNoTextIsRefused) {
  for (const std::string& text : {std::string("caf\xE9"), std::string("a\0 \0s\0", 6)}) {
    EXPECT_THAT(Read(text), StatusIs(kInvalid, HasSubstr("prompts.txt is not text in UTF-8")));
  }
  EXPECT_THAT(Read(std::string((size_t{16} << 20) + 1, 'x')),
              StatusIs(kInvalid, HasSubstr("more than 16 MiB")));
}

TEST_F(PromptsTest, ThereHasToBeOne) {
  for (const bool per_line : {false, true}) {
    EXPECT_THAT(Read("\n", per_line), StatusIs(kInvalid, HasSubstr("has no prompt")));
    EXPECT_THAT(Read("", per_line), StatusIs(kInvalid, HasSubstr("has no prompt")));
  }
  EXPECT_THAT(ReadPrompts({}), StatusIs(kInvalid, HasSubstr("latent generate \"a red star\"")));
  EXPECT_FALSE(ReadPrompts({.words = {}, .file = folder_.path() + "/none"}).ok());
}

TEST_F(PromptsTest, AndOneSource) {
  EXPECT_THAT(ReadPrompts({.words = {"a"}, .file = "b"}),
              StatusIs(kInvalid, HasSubstr("not both")));
  EXPECT_THAT(ReadPrompts({.words = {"-", "b"}}), StatusIs(kInvalid, HasSubstr("standard input")));
  EXPECT_THAT(ReadPrompts({.words = {"a"}, .file = "", .per_line = true}),
              StatusIs(kInvalid, HasSubstr("--prompt-per-line")));
}

TEST_F(PromptsTest, OnePromptWithoutItsQuotesIsSeen) {
  EXPECT_TRUE(LookLikeOne({"a", "red", "star"}));
  EXPECT_FALSE(LookLikeOne({"star"}));
  EXPECT_FALSE(LookLikeOne({"a star", "heart"}));
}

}  // namespace
}  // namespace latentd::client
