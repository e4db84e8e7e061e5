#include "core/tokenizer/clip_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::tokenizer {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kStart = 626;
constexpr int64_t kEnd = 627;
constexpr int64_t kExclamation = 0;

std::unique_ptr<const ClipTokenizer> LoadDemo(const std::string& name = "tokenizer") {
  auto tokenizer = ClipTokenizer::Load(TokenizerFolder::Demo(name).string());
  EXPECT_OK(tokenizer);
  return *std::move(tokenizer);
}

const json& Groups() {
  static const json& groups = *new json(json::parse(std::ifstream(
      ::latentd::testing::SourcePath("tests/core/tokenizer/cases.json"), std::ios::binary)));
  return groups;
}

// A group of cases.json: one tokenizer and what transformers makes of texts with it.
class TransformersCases : public ::testing::TestWithParam<size_t> {};

void WriteConfiguration(const json& files, TokenizerFolder& folder) {
  if (files.is_null()) return;
  for (const char* name : {"tokenizer_config", "special_tokens_map", "added_tokens"}) {
    const std::string file = absl::StrCat(name, ".json");
    folder.Remove(file);
    if (files.contains(name)) folder.Write(file, files[name].dump());
  }
}

void WriteTokenizerJson(const json& group, TokenizerFolder& folder) {
  if (!group.contains("saved")) return;
  const std::string saved = TokenizerFolder::Saved(group["folder"], group["saved"]).dump();
  if (group["beside"].get<bool>()) {
    folder.Write("tokenizer.json", saved);
  } else {
    folder.TurnInto(saved);
  }
}

void ExpectTheSameIds(const TokenizerFolder& folder, const json& group) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, ClipTokenizer::Load(folder.path()));
  EXPECT_EQ(tokenizer->pad_id(), group["pad_id"]);
  ASSERT_THAT(group["cases"], Not(SizeIs(0)));
  for (const json& expected : group["cases"]) {
    const Encoding encoding = tokenizer->Encode(expected["text"].get<std::string>());
    EXPECT_THAT(encoding.ids, ElementsAreArray(expected["ids"].get<std::vector<int64_t>>()))
        << expected["text"];
    EXPECT_EQ(encoding.dropped, expected["dropped"]) << expected["text"];
  }
}

TEST_P(TransformersCases, HaveTheSameIds) {
  const json& group = Groups().at(GetParam());
  TokenizerFolder folder(group["folder"].get<std::string>());
  WriteConfiguration(group["files"], folder);
  WriteTokenizerJson(group, folder);
  ExpectTheSameIds(folder, group);
  if (!group.value("same_saved", false)) return;
  folder.TurnInto(TokenizerFolder::Saved(group["folder"]).dump());
  ExpectTheSameIds(folder, group);
}

INSTANTIATE_TEST_SUITE_P(All, TransformersCases, ::testing::Range(size_t{0}, Groups().size()));

TEST(TransformersCasesTest, AreAlsoOfTokenizerJson) {
  size_t same = 0, saved = 0;
  for (const json& group : Groups()) {
    same += group.value("same_saved", false);
    saved += group.contains("saved");
  }
  EXPECT_EQ(same, 2u);
  EXPECT_GT(saved, 10u);
}

TEST(ClipTokenizerTest, GivesAnEmptyTextItsTwoEnds) {
  EXPECT_THAT(LoadDemo()->Encode("").ids, ElementsAre(kStart, kEnd));
}

TEST(ClipTokenizerTest, FillsUpWithThePadTokenOfTheFolder) {
  const Encoding first = LoadDemo("tokenizer")->EncodePadded("");
  const Encoding second = LoadDemo("tokenizer_2")->EncodePadded("");
  ASSERT_THAT(first.ids, SizeIs(77));
  ASSERT_THAT(second.ids, SizeIs(77));
  EXPECT_THAT(std::vector<int64_t>(first.ids.begin() + 2, first.ids.end()), Each(kEnd));
  EXPECT_THAT(std::vector<int64_t>(second.ids.begin() + 2, second.ids.end()), Each(kExclamation));
}

TEST(ClipTokenizerTest, CutsBeforeTheEndTokenAndCountsWhatWasDropped) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a ";
  const Encoding encoding = LoadDemo()->EncodePadded(text);
  ASSERT_THAT(encoding.ids, SizeIs(77));
  EXPECT_EQ(encoding.ids.front(), kStart);
  EXPECT_NE(encoding.ids[75], kEnd);
  EXPECT_EQ(encoding.ids.back(), kEnd);
  EXPECT_EQ(encoding.dropped, 25);
}

TEST(ClipTokenizerTest, TakesIllFormedBytesAsReplacementCharacters) {
  const auto tokenizer = LoadDemo();
  const std::string bad =
      "a\xFF"
      "b\xC3(\xE2\x82 \xED\xA0\x80\xF0\x9F";
  const std::string replaced = "a\uFFFDb\uFFFD(\uFFFD \uFFFD\uFFFD\uFFFD\uFFFD";
  EXPECT_EQ(tokenizer->Encode(bad).ids, tokenizer->Encode(replaced).ids);
}

// Merging or reordering in quadratic time would take hours here.
TEST(ClipTokenizerTest, TakesOneWordOfAMegabyte) {
  const auto tokenizer = LoadDemo();
  std::string letters(1 << 20, 'a');
  std::string marks = "a";
  for (int i = 0; i < 1 << 18; ++i) marks += "\u0301\u0323";
  for (const std::string& text : {letters, marks, std::string(1 << 20, '!')}) {
    const Encoding encoding = tokenizer->Encode(text);
    EXPECT_THAT(encoding.ids, SizeIs(77));
    EXPECT_THAT(encoding.dropped, Gt(1000));
  }
}

TEST(ClipTokenizerTest, EncodesFromSeveralThreadsAtOnce) {
  const auto tokenizer = LoadDemo();
  const std::string text = "a large yellow star on a purple background";
  const std::vector<int64_t> expected = tokenizer->Encode(text).ids;
  std::vector<std::vector<int64_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = tokenizer->Encode(text).ids;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, Each(expected));
}

TEST(ClipTokenizerTest, SaysWhichIdsCanComeOut) {
  const auto tokenizer = LoadDemo("tokenizer_2");
  EXPECT_EQ(tokenizer->start_id(), kStart);
  EXPECT_EQ(tokenizer->end_id(), kEnd);
  EXPECT_EQ(tokenizer->pad_id(), kExclamation);
  EXPECT_EQ(tokenizer->vocabulary_size(), kEnd + 1);
  EXPECT_EQ(tokenizer->max_length(), 77);
}

}  // namespace
}  // namespace latentd::tokenizer
