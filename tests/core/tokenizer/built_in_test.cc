// The tokenizer that latentd ships is that of the tokenizer folders of Stable Diffusion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "core/tokenizer/clip_vocabulary.h"
#include "core/tokenizer/unicode.h"
#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::tokenizer {
namespace {

using ::latentd::testing::SourcePath;
using ::latentd::testing::StatusIs;
using ::nlohmann::json;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kEndToken[] = "<|endoftext|>";
constexpr int64_t kStartOfText = 49406;
constexpr int64_t kEndOfText = 49407;

std::vector<std::string> MergeLines() {
  std::vector<std::string> lines = absl::StrSplit(ClipMerges(), '\n');
  lines.erase(lines.begin());  // the heading
  lines.pop_back();            // behind the last line's end
  return lines;
}

// CLIP's vocab.json, made as OpenAI's code makes it.
json ClipVocabulary() {
  std::vector<std::string> tokens;
  const auto append = [&](char32_t first, char32_t last) {
    for (char32_t c = first; c <= last; ++c) tokens.push_back(EncodeUtf8(std::u32string(1, c)));
  };
  append('!', '~');
  append(0xA1, 0xAC);
  append(0xAE, 0xFF);
  append(0x100, 0x143);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(tokens[byte] + "</w>");
  for (std::string line : MergeLines()) tokens.push_back(line.erase(line.find(' '), 1));
  tokens.insert(tokens.end(), {"<|startoftext|>", kEndToken});
  json ids = json::object();
  for (const std::string& token : tokens) ids[token] = ids.size();
  return ids;
}

// A folder of CLIP's own vocabulary with the other files of the demo checkpoint's.
class ClipFolder : public TokenizerFolder {
 public:
  ClipFolder() {
    Write("vocab.json", ClipVocabulary().dump());
    Write("merges.txt", ClipMerges());
  }
};

// The same as transformers 5 saves it: one tokenizer.json.
void TurnIntoSaved(ClipFolder& folder) {
  json saved = TokenizerFolder::Saved("tokenizer");
  saved["model"]["vocab"] = ClipVocabulary();
  saved["model"]["merges"] = json::array();
  for (const std::string& line : MergeLines()) {
    saved["model"]["merges"].push_back(
        absl::StrSplit(line, ' ').operator std::vector<std::string>());
  }
  for (json& token : saved["added_tokens"]) {
    token["id"] = saved["model"]["vocab"][token["content"].get<std::string>()];
  }
  folder.TurnInto(saved.dump());
}

json ReadCases(const std::string& path) {
  return json::parse(std::ifstream(SourcePath(path), std::ios::binary));
}

// Everything that the tests of tokenizers encode.
std::set<std::string> AllTexts() {
  std::set<std::string> texts = {"hi!!!", "a!b ! c", "<|STARTOFTEXT|> a", "a <|StartOfText|>!"};
  for (const json& row : ReadCases("tests/golden/tokens/clip.json")) texts.insert(row["text"]);
  for (const json& group : ReadCases("tests/core/tokenizer/cases.json")) {
    for (const json& row : group["cases"]) texts.insert(row["text"]);
  }
  return texts;
}

void ExpectTheIdsOfTransformers(const ClipTokenizer& tokenizer) {
  const json rows = ReadCases("tests/golden/tokens/clip.json");
  ASSERT_THAT(rows, SizeIs(Gt(20u)));
  for (const json& row : rows) {
    const Encoding encoding = tokenizer.Encode(row["text"].get<std::string>());
    EXPECT_THAT(encoding.ids, ElementsAreArray(row["ids"].get<std::vector<int64_t>>()))
        << row["text"];
    EXPECT_EQ(encoding.dropped, row["dropped"]) << row["text"];
  }
}

TEST(BuiltInTest, GivesTheIdsOfTransformers) {
  ASSERT_OK_AND_ASSIGN(const auto built_in, ClipTokenizer::BuiltIn(kEndToken));
  ExpectTheIdsOfTransformers(*built_in);
}

TEST(BuiltInTest, FoldersOfTheSameVocabularyGiveThemToo) {
  ClipFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto two_files, ClipTokenizer::Load(folder.path()));
  ExpectTheIdsOfTransformers(*two_files);
  TurnIntoSaved(folder);
  ASSERT_OK_AND_ASSIGN(const auto whole, ClipTokenizer::Load(folder.path()));
  ExpectTheIdsOfTransformers(*whole);
}

// "content": a token as older versions of transformers write it.
json Normalized(const std::string& content) {
  return {{"content", content}, {"lstrip", false}, {"normalized", true}, {"rstrip", false}};
}

// The configuration files of a tokenizer folder on the Hub.
struct HubFolder {
  std::string pad_token;
  std::map<std::string, json> files;
  bool ends_in_capitals = false;  // its end token counts in capitals too
};

HubFolder SdxlFirst() {
  const json tokens = {{"bos_token", Normalized("<|startoftext|>")},
                       {"eos_token", Normalized(kEndToken)},
                       {"pad_token", kEndToken},
                       {"unk_token", Normalized(kEndToken)}};
  json config = tokens;
  config["model_max_length"] = 77;
  return {kEndToken, {{"tokenizer_config.json", config}, {"special_tokens_map.json", tokens}}};
}

HubFolder SdxlSecond() {
  json end = Normalized(kEndToken);
  end["normalized"] = false;
  json pad = end;
  pad["content"] = "!";
  pad["special"] = true;
  const json config = {{"added_tokens_decoder",
                        {{"0", pad}, {"49406", Normalized("<|startoftext|>")}, {"49407", end}}},
                       {"bos_token", "<|startoftext|>"},
                       {"eos_token", kEndToken},
                       {"model_max_length", 77},
                       {"pad_token", "!"},
                       {"unk_token", kEndToken}};
  return {"!", {{"tokenizer_config.json", config}}};
}

HubFolder StableDiffusion2() {
  HubFolder folder = SdxlFirst();
  folder.pad_token = "!";
  folder.files["special_tokens_map.json"]["pad_token"] = "!";
  folder.ends_in_capitals = true;
  return folder;
}

bool HasEndInCapitals(const std::string& text) {
  std::string rest = text;
  for (size_t at; (at = rest.find(kEndToken)) != rest.npos;) rest.erase(at, sizeof(kEndToken) - 1);
  return absl::StrContains(absl::AsciiStrToLower(rest), kEndToken);
}

class HubFolders : public ::testing::TestWithParam<HubFolder (*)()> {};

TEST_P(HubFolders, GiveTheSame) {
  const HubFolder hub = GetParam()();
  ClipFolder folder;
  folder.Remove("special_tokens_map.json");
  for (const auto& [name, content] : hub.files) folder.Write(name, content.dump());
  ASSERT_OK_AND_ASSIGN(const auto loaded, ClipTokenizer::Load(folder.path()));
  ASSERT_OK_AND_ASSIGN(const auto built_in, ClipTokenizer::BuiltIn(hub.pad_token));
  EXPECT_EQ(built_in->start_id(), loaded->start_id());
  EXPECT_EQ(built_in->end_id(), loaded->end_id());
  EXPECT_EQ(built_in->pad_id(), loaded->pad_id());
  EXPECT_EQ(built_in->max_length(), loaded->max_length());
  EXPECT_EQ(built_in->vocabulary_size(), loaded->vocabulary_size());
  for (const std::string& text : AllTexts()) {
    if (hub.ends_in_capitals && HasEndInCapitals(text)) continue;
    EXPECT_EQ(built_in->EncodePadded(text).ids, loaded->EncodePadded(text).ids) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, HubFolders,
                         ::testing::Values(&SdxlFirst, &SdxlSecond, &StableDiffusion2));

TEST(BuiltInTest, HasAllTokensOfClip) {
  ASSERT_OK_AND_ASSIGN(const auto built_in, ClipTokenizer::BuiltIn(kEndToken));
  EXPECT_EQ(built_in->vocabulary_size(), 49408);
  EXPECT_EQ(built_in->start_id(), kStartOfText);
  EXPECT_EQ(built_in->end_id(), kEndOfText);
  EXPECT_EQ(built_in->pad_id(), kEndOfText);
  EXPECT_EQ(built_in->max_length(), 77);
}

// "!!!" is one token but where "!" is the pad token.
TEST(BuiltInTest, CutsThePadTokenOutVerbatim) {
  ASSERT_OK_AND_ASSIGN(const auto first, ClipTokenizer::BuiltIn(kEndToken));
  ASSERT_OK_AND_ASSIGN(const auto second, ClipTokenizer::BuiltIn("!"));
  EXPECT_THAT(first->Encode("star!!!").ids, ElementsAre(kStartOfText, 1565, 995, kEndOfText));
  EXPECT_THAT(second->Encode("star!!!").ids, ElementsAre(kStartOfText, 1565, 0, 0, 0, kEndOfText));
  EXPECT_EQ(second->pad_id(), 0);
}

TEST(BuiltInTest, NamesAPadTokenThatTheVocabularyLacks) {
  EXPECT_THAT(ClipTokenizer::BuiltIn("[PAD]"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"[PAD]\"")));
}

}  // namespace
}  // namespace latentd::tokenizer
