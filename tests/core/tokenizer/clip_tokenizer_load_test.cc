#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_replace.h"
#include "core/base/files/files.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/status_matchers.h"

namespace latentd::tokenizer {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

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

TEST(ClipTokenizerLoadTest, NeedsTokenizerJsonOrTheTwoOthers) {
  TokenizerFolder folder;
  folder.Remove("vocab.json");
  folder.Remove("merges.txt");
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kNotFound, AllOf(HasSubstr("vocab.json is missing"),
                                        HasSubstr("or tokenizer.json, are needed"))));
}

// As transformers does; the other files would be refused.
TEST(ClipTokenizerLoadTest, PrefersTokenizerJson) {
  TokenizerFolder folder;
  folder.Write("tokenizer.json", TokenizerFolder::Saved("tokenizer").dump());
  folder.Write("vocab.json", "damaged");
  folder.Write("merges.txt", "damaged");
  EXPECT_OK(ClipTokenizer::Load(folder.path()));
}

TEST(ClipTokenizerLoadTest, SaysThatItWouldReadTheOthersWithoutTokenizerJson) {
  TokenizerFolder folder;
  folder.Write("tokenizer.json", "{}");
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr(folder.path() + "/tokenizer.json: model is null"),
                                       HasSubstr("without it, vocab.json and merges.txt"))));
}

TEST(ClipTokenizerLoadTest, DoesNotMindATokenizerJsonThatIsNoFileBesideTheOthers) {
  TokenizerFolder folder;
  std::filesystem::create_symlink("no/such/blob", folder.path() + "/tokenizer.json");
  EXPECT_OK(ClipTokenizer::Load(folder.path()));
  folder.Remove("merges.txt");
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kNotFound, HasSubstr("a symbolic link to no/such/blob")));
}

TEST(ClipTokenizerLoadTest, ReadsEveryFileByTheReader) {
  std::set<std::string> names;
  const FileReader note = [&](const std::string& path, size_t max_bytes) {
    auto text = ReadFile(path, max_bytes);
    if (text.ok()) names.insert(std::filesystem::path(path).filename());
    return text;
  };
  TokenizerFolder folder;
  ASSERT_OK(ClipTokenizer::Load(folder.path(), note));
  EXPECT_THAT(names, UnorderedElementsAre("vocab.json", "merges.txt", "tokenizer_config.json",
                                          "special_tokens_map.json"));
  names.clear();
  folder.TurnInto(TokenizerFolder::Saved("tokenizer").dump());
  ASSERT_OK(ClipTokenizer::Load(folder.path(), note));
  EXPECT_THAT(names, UnorderedElementsAre("tokenizer.json", "tokenizer_config.json",
                                          "special_tokens_map.json"));
}

TEST(ClipTokenizerLoadTest, TakesAFolderWithoutConfiguration) {
  TokenizerFolder folder;
  folder.Remove("tokenizer_config.json");
  folder.Remove("special_tokens_map.json");
  EXPECT_OK(ClipTokenizer::Load(folder.path()));
}

// A mistake in one file, and the text of the error beside the file's name.
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
     R"({"added_tokens_decoder": {"1": {"content": "a", "single_word": 1}}})", "single_word is 1"},
    {"special_tokens_map.json", R"({"pad_token": 3})", "pad_token is 3"},
    {"special_tokens_map.json", R"({"pad_token": {"lstrip": true}})", "content"},
    {"special_tokens_map.json", R"({"pad_token": ""})", "not empty"},
    {"special_tokens_map.json", R"({"pad_token": {"content": "a", "normalized": "yes"}})",
     "normalized"},
    {"special_tokens_map.json", R"({"extra_special_tokens": "a"})", "a list of tokens"},
    {"added_tokens.json", R"({"<x>": "700"})", "\"<x>\""},
};
INSTANTIATE_TEST_SUITE_P(Configuration, BadFiles, ::testing::ValuesIn(kConfigurations));

const BadFile kTokenizerJsonTexts[] = {
    {"tokenizer.json", "", "is not JSON"},
    {"tokenizer.json", "[]", "not an object"},
    {"tokenizer.json", "{\"model\": {\"type\": \"BPE\"", "is not JSON"},
    {"tokenizer.json", Nested(10000), "nested more than 64 deep"},
    {"tokenizer.json", std::string((32 << 20) + 1, ' '), "longer than"},
};
INSTANTIATE_TEST_SUITE_P(TokenizerJson, BadFiles, ::testing::ValuesIn(kTokenizerJsonTexts));

// A change of what transformers saves, as RFC 7396 has it, and what the error has to say.
struct BadChange {
  const char* patch;
  const char* complaint;
};

class BadTokenizerJsons : public ::testing::TestWithParam<BadChange> {};

TEST_P(BadTokenizerJsons, AreRefusedWithTheReason) {
  TokenizerFolder folder;
  folder.TurnInto(
      TokenizerFolder::Saved("tokenizer", nlohmann::json::parse(GetParam().patch)).dump());
  EXPECT_THAT(ClipTokenizer::Load(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr(folder.path() + "/tokenizer.json"),
                                       HasSubstr(GetParam().complaint))));
}

const BadChange kOtherKinds[] = {
    {R"({"model": {"type": "Unigram"}})", "model.type is \"Unigram\"; CLIP's, \"BPE\""},
    {R"({"model": {"type": "WordPiece"}})", "model.type is \"WordPiece\""},
    {R"({"model": {"type": "WordLevel"}})", "model.type is \"WordLevel\""},
    {R"({"model": {"end_of_word_suffix": null}})", "end_of_word_suffix is null; CLIP's, \"</w>\""},
    {R"({"model": {"end_of_word_suffix": ""}})", "end_of_word_suffix is \"\""},
    {R"({"model": {"continuing_subword_prefix": "##"}})", "continuing_subword_prefix is \"##\""},
    {R"({"normalizer": null})", "normalizer is none; CLIP's normalizer (NFC"},
    {R"({"normalizer": {"normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}})",
     "normalizer is NFKC, Lowercase; CLIP's"},
    {R"({"normalizer": {"normalizers": [{"type": "NFC"}]}})", "normalizer is NFC;"},
    {R"({"normalizer": {"normalizers": ["NFC", 3]}})", "normalizer is something else, something"},
    {R"({"normalizer": {"normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern":
        {"Regex": "a"}, "content": " "}, {"type": "Lowercase"}]}})",
     "normalizer is NFC, Replace a, Lowercase;"},
    {R"({"normalizer": {"type": "BertNormalizer"}})", "normalizer is BertNormalizer;"},
    {R"({"pre_tokenizer": {"type": "Whitespace"}})", "pre_tokenizer is Whitespace; CLIP's"},
    {R"({"pre_tokenizer": null})", "pre_tokenizer is none; CLIP's pre-tokenizer"},
    {R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})", "add_prefix_space"},
    {R"({"pre_tokenizer": {"pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"},
        "behavior": "Removed", "invert": true}, {"type": "ByteLevel", "add_prefix_space": false}]}})",
     "pre_tokenizer is Split \\p{N}{1,3}, ByteLevel; CLIP's"},
    {R"({"padding": {"direction": "Left"}})", "padding_side is \"left\"; \"right\""},
    {R"({"truncation": {"direction": "Left"}})", "truncation_side is \"left\""},
};
INSTANTIATE_TEST_SUITE_P(OtherKinds, BadTokenizerJsons, ::testing::ValuesIn(kOtherKinds));

const BadChange kDamaged[] = {
    {R"({"model": null})", "model is null"},
    {R"({"model": [1]})", "model is [1]"},
    {R"({"model": {"vocab": null}})", "model.vocab is null; an object"},
    {R"({"model": {"vocab": [["a", 0]]}})", "model.vocab is [["},
    {R"({"model": {"vocab": {"a</w>": -1}}})", "the id of \"a</w>\" is -1"},
    {R"({"model": {"vocab": {"<|endoftext|>": null}}, "added_tokens": []})",
     "lacks the special token \"<|endoftext|>\""},
    {R"({"model": {"merges": null}})", "model.merges is null; a list"},
    {R"({"model": {"merges": {"a": "b"}}})", "a list of pairs"},
    {R"({"model": {"merges": []}})", "model.merges makes no token"},
    {R"({"model": {"merges": ["a b c"]}})", "model.merges[0] is \"a b c\""},
    {R"({"model": {"merges": [["a"]]}})", "model.merges[0] is [\"a\"]; a pair"},
    {R"({"model": {"merges": [["a", ""]]}})", "a pair of tokens"},
    {R"({"model": {"merges": [["a", 1]]}})", "a pair of tokens"},
    {R"({"model": {"merges": [3]}})", "model.merges[0] is 3"},
    {R"({"model": {"merges": [["a", "nosuchtoken"]]}})",
     "model.merges[0] merges \"nosuchtoken\", which is not in"},
    {R"({"model": {"merges": [["!", "#"]]}})", "makes \"!#\", which is not in"},
    {R"({"added_tokens": {"a": 1}})", "added_tokens is {"},
    {R"({"added_tokens": ["a"]})", "added_tokens[0] is \"a\"; a token with an id"},
    {R"({"added_tokens": [{"content": "a"}]})", "a token with an id"},
    {R"({"added_tokens": [{"id": 1}]})", "content"},
    {R"({"added_tokens": [{"id": 1, "content": "a", "special": 1}]})", "special is 1"},
};
INSTANTIATE_TEST_SUITE_P(Damaged, BadTokenizerJsons, ::testing::ValuesIn(kDamaged));

TEST(ClipTokenizerLoadTest, NamesATokenizerJsonThatWasCutShort) {
  const std::string whole = TokenizerFolder::Saved("tokenizer").dump();
  for (size_t size = 0; size < whole.size(); size += 97) {
    TokenizerFolder folder;
    folder.TurnInto(whole.substr(0, size));
    EXPECT_THAT(ClipTokenizer::Load(folder.path()),
                StatusIs(kInvalid, HasSubstr("tokenizer.json is not JSON")));
  }
}

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
