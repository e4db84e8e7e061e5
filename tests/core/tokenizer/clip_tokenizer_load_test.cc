#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "core/base/files.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/status_matchers.h"

namespace latentd::tokenizer {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

TEST(ClipTokenizerLoadTest, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(ClipTokenizer::Load("/no/such/tokenizer"),
              StatusIs(kNotFound, AllOf(HasSubstr("/no/such/tokenizer"), HasSubstr("vocab.json"))));
}

TEST(ClipTokenizerLoadTest, NamesAMissingFile) {
  for (const char* file : {"vocab.json", "merges.txt"}) {
    TokenizerFolder folder;
    folder.Remove(file);
    EXPECT_THAT(ClipTokenizer::Load(folder.path()),
                StatusIs(kNotFound, HasSubstr(folder.path() + "/" + file + " is missing")));
  }
}

TEST(ClipTokenizerLoadTest, SaysWhatIsNeededBesideATokenizerJson) {
  TokenizerFolder folder;
  folder.Remove("vocab.json");
  folder.Write("tokenizer.json", "{}");
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kNotFound, AllOf(HasSubstr("tokenizer.json alone is not read"),
                                        HasSubstr("merges.txt"))));
}

TEST(ClipTokenizerLoadTest, TakesAFolderWithoutConfiguration) {
  TokenizerFolder folder;
  folder.Remove("tokenizer_config.json");
  folder.Remove("special_tokens_map.json");
  EXPECT_OK(ClipTokenizer::Load(folder.path()));
}

// What is wrong with one file, and what the error has to say beside the file's name.
struct BadFile {
  const char* name;
  std::string content;
  const char* complaint;
};

class BadFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreNamedWithTheReason) {
  TokenizerFolder folder;
  folder.Write(GetParam().name, GetParam().content);
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr(folder.path() + "/" + GetParam().name),
                                       HasSubstr(GetParam().complaint))));
}

std::string Nested(int depth) { return "{\"a\":" + std::string(depth, '['); }

const BadFile kVocabularies[] = {
    {"vocab.json", "", "is not JSON"},
    {"vocab.json", "{\"a\": 1", "is not JSON"},
    {"vocab.json", "{\"\xFF\": 1}", "is not JSON"},
    {"vocab.json", "[1, 2]", "not an object"},
    {"vocab.json", Nested(10000), "nested more than 64 deep"},
    {"vocab.json", std::string((32 << 20) + 1, ' '), "longer than"},
    {"vocab.json", R"({"a": -1})", "is -1"},
    {"vocab.json", R"({"a": 1.5})", "is 1.5"},
    {"vocab.json", R"({"a": "1"})", "a whole number"},
    {"vocab.json", R"({"a": 4294967296})", "is 4294967296"},
    {"vocab.json", R"({"a": 1})", "lacks the special token \"<|startoftext|>\""},
    {"vocab.json", R"({"<|startoftext|>": 1})", "lacks the special token \"<|endoftext|>\""},
};
INSTANTIATE_TEST_SUITE_P(Vocabulary, BadFiles, ::testing::ValuesIn(kVocabularies));

const BadFile kMerges[] = {
    {"merges.txt", "#version: 0.2\na b c\n", "line 2 is \"a b c\""},
    {"merges.txt", "a\n", "two tokens"},
    {"merges.txt", "a \n", "two tokens"},
    {"merges.txt", "a nosuchtoken\n", "merges \"nosuchtoken\", which is not in"},
    {"merges.txt", "! #\n", "makes \"!#\", which is not in"},
    {"merges.txt", "", "it is cut short or belongs to another vocabulary"},
    {"merges.txt", "#version: 0.2\n", "merges.txt makes no token"},
};
INSTANTIATE_TEST_SUITE_P(Merges, BadFiles, ::testing::ValuesIn(kMerges));

const BadFile kConfigurations[] = {
    {"tokenizer_config.json", "nonsense", "is not JSON"},
    {"tokenizer_config.json", Nested(10000), "nested more than 64 deep"},
    {"tokenizer_config.json", R"({"model_max_length": "77"})", "model_max_length is \"77\""},
    {"tokenizer_config.json", R"({"model_max_length": 1})", "at least 2"},
    {"tokenizer_config.json", R"({"padding_side": "left"})", "padding_side"},
    {"tokenizer_config.json", R"({"truncation_side": "left"})", "truncation_side"},
    {"tokenizer_config.json", R"({"split_special_tokens": 1})", "true or false"},
    {"tokenizer_config.json", R"({"added_tokens_decoder": [1]})", "added_tokens_decoder"},
    {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})",
     "added_tokens_decoder[x]"},
    {"tokenizer_config.json", R"({"added_tokens_decoder": {"1": "a"}})", "added_tokens_decoder[1]"},
    {"tokenizer_config.json",
     R"({"added_tokens_decoder": {"1": {"content": "a", "single_word": true}}})", "single_word"},
    {"special_tokens_map.json", R"({"pad_token": 3})", "pad_token is 3"},
    {"special_tokens_map.json", R"({"pad_token": {"lstrip": true}})", "content"},
    {"special_tokens_map.json", R"({"pad_token": ""})", "not empty"},
    {"special_tokens_map.json", R"({"pad_token": {"content": "a", "normalized": "yes"}})",
     "normalized"},
    {"special_tokens_map.json", R"({"extra_special_tokens": "a"})", "a list of tokens"},
    {"added_tokens.json", R"({"<x>": "700"})", "\"<x>\""},
};
INSTANTIATE_TEST_SUITE_P(Configuration, BadFiles, ::testing::ValuesIn(kConfigurations));

TEST(ClipTokenizerLoadTest, NamesASpecialTokenThatTheVocabularyLacks) {
  TokenizerFolder folder;
  folder.Write("special_tokens_map.json", R"({"pad_token": "[PAD]"})");
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr("vocab.json"), HasSubstr("\"[PAD]\""))));
}

TEST(ClipTokenizerLoadTest, TakesMergesWithWindowsLineEnds) {
  TokenizerFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto original, ClipTokenizer::Load(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string merges, ReadFile(folder.path() + "/merges.txt", 1 << 20));
  folder.Write("merges.txt", absl::StrReplaceAll(merges, {{"\n", "\r\n"}}));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, ClipTokenizer::Load(folder.path()));
  const std::string text = "a large yellow star";
  EXPECT_EQ(tokenizer->Encode(text).ids, original->Encode(text).ids);
}

}  // namespace
}  // namespace latentd::tokenizer
