#include "core/tokenizer/clip_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/tokenizer/byte_pair_model.h"
#include "core/tokenizer/clip_vocabulary.h"
#include "core/tokenizer/merge_list.h"
#include "core/tokenizer/token_finder.h"
#include "core/tokenizer/tokenizer_config.h"
#include "core/tokenizer/tokenizer_json.h"
#include "core/tokenizer/unicode.h"
#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/word_split.h"

namespace latentd::tokenizer {
namespace {

using AddedIds = absl::flat_hash_map<std::string, int64_t>;

// The content of a folder's files, of either kind.
struct Parts {
  Vocabulary vocabulary;
  MergeList merges;
  TokenizerConfig config;
};

// Also true for a link that leads nowhere, so that opening it can say where it leads.
bool IsThere(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

absl::Status CheckDirectoryIsThere(const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(directory,
                   " is not a folder; a tokenizer's folder with "
                   "tokenizer.json, or vocab.json and merges.txt, is needed"));
}

absl::Status CheckVocabularyFiles(const std::string& directory) {
  for (const char* name : {"vocab.json", "merges.txt"}) {
    if (IsThere(absl::StrCat(directory, "/", name))) continue;
    return absl::NotFoundError(
        absl::StrCat(directory, "/", name,
                     " is missing; vocab.json and merges.txt, or tokenizer.json, are needed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Parts> ReadVocabularyFiles(const std::string& directory, const FileReader& read) {
  RETURN_IF_ERROR(CheckVocabularyFiles(directory));
  const std::string path = absl::StrCat(directory, "/vocab.json");
  ASSIGN_OR_RETURN(const nlohmann::json ids, ReadJsonObject(path, kMaxFileBytes, read));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Parse(ids, path));
  const std::string merges_path = absl::StrCat(directory, "/merges.txt");
  ASSIGN_OR_RETURN(const std::string text, read(merges_path, kMaxFileBytes));
  ASSIGN_OR_RETURN(MergeList merges, ParseMergesText(text, merges_path));
  ASSIGN_OR_RETURN(TokenizerConfig config,
                   ReadTokenizerConfig(directory, nullptr, ClipTokenizer::kMaxLength, read));
  return Parts{std::move(vocabulary), std::move(merges), std::move(config)};
}

absl::StatusOr<Parts> ReadWholeFile(const std::string& directory, const std::string& path,
                                    const FileReader& read) {
  ASSIGN_OR_RETURN(const std::string text, read(path, kMaxFileBytes));
  absl::StatusOr<TokenizerJson> whole = ParseTokenizerJson(text, path);
  if (!whole.ok()) {
    if (!CheckVocabularyFiles(directory).ok()) return whole.status();
    return absl::InvalidArgumentError(absl::StrCat(
        whole.status().message(), "; without it, vocab.json and merges.txt beside it are read"));
  }
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Parse(whole->vocabulary, path));
  ASSIGN_OR_RETURN(MergeList merges, ParseMerges(whole->merges, path));
  ASSIGN_OR_RETURN(TokenizerConfig config,
                   ReadTokenizerConfig(directory, &*whole, ClipTokenizer::kMaxLength, read));
  return Parts{std::move(vocabulary), std::move(merges), std::move(config)};
}

// A tokenizer.json is preferred, as in transformers 5, which does not mind one that is no file
// where it has the others.
absl::StatusOr<Parts> ReadParts(const std::string& directory, const FileReader& read) {
  RETURN_IF_ERROR(CheckDirectoryIsThere(directory));
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  std::error_code ignored;
  const bool preferred = std::filesystem::is_regular_file(path, ignored);
  const bool alone = IsThere(path) && !CheckVocabularyFiles(directory).ok();
  return preferred || alone ? ReadWholeFile(directory, path, read)
                            : ReadVocabularyFiles(directory, read);
}

// Ids for the added tokens: the vocabulary's, or the next free ones.
absl::StatusOr<AddedIds> NumberAddedTokens(const TokenizerConfig& config,
                                           const Vocabulary& vocabulary) {
  AddedIds ids;
  int64_t next = vocabulary.size();
  for (const AddedToken& token : config.added_tokens) {
    if (const auto id = vocabulary.Find(token.content)) {
      ids[token.content] = *id;
      next = std::max(next, *id + 1);
    } else if (token.may_be_new) {
      if (ids.try_emplace(token.content, next).second) ++next;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          vocabulary.path(), " lacks the special token \"", Excerpt(token.content), "\""));
    }
  }
  return ids;
}

// OK iff the merges make every token of the vocabulary that is no single byte and is not added: a
// list that was cut short still gives ids, but those of other texts.
absl::Status CheckMerges(const std::string& name, const BytePairModel& pairs,
                         const Vocabulary& vocabulary, const AddedIds& added) {
  const absl::flat_hash_set<int64_t> reachable = pairs.ReachableIds();
  std::map<int64_t, std::string> missing;
  for (const auto& [token, id] : vocabulary.ids()) {
    if (!reachable.contains(id) && !added.contains(token)) missing[id] = token;
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " makes no token ", Excerpt(missing.begin()->second), " (one of ",
                   missing.size(), " of ", vocabulary.path(),
                   " that it does not make): it is cut short or belongs to another vocabulary"));
}

std::vector<bool> WordEnds(const Vocabulary& vocabulary) {
  std::vector<bool> ends(static_cast<size_t>(vocabulary.largest_id()) + 1, false);
  for (const auto& [token, id] : vocabulary.ids()) {
    ends[static_cast<size_t>(id)] = absl::EndsWith(token, "</w>");
  }
  return ends;
}

enum class Stage : uint8_t { kVerbatim, kNormalized };

TokenFinder MakeFinder(const TokenizerConfig& config, const AddedIds& ids, Stage stage) {
  // The last flags count for several tokens with one content.
  absl::flat_hash_map<std::string, const AddedToken*> last;
  for (const AddedToken& token : config.added_tokens) last[token.content] = &token;
  std::vector<TokenFinder::Token> tokens;
  for (const AddedToken& token : config.added_tokens) {
    if (last[token.content] != &token) continue;
    if (token.normalized != (stage == Stage::kNormalized)) continue;
    if (token.special && config.split_special_tokens) continue;
    std::u32string text = DecodeUtf8(token.content);
    if (token.normalized) text = Normalize(std::move(text));
    tokens.push_back({std::move(text), ids.at(token.content), token.single_word});
  }
  return TokenFinder(std::move(tokens));
}

// Parts that do not depend on the configuration.
struct ClipTables {
  Vocabulary vocabulary;
  std::shared_ptr<const BytePairModel> pairs;
};

absl::StatusOr<ClipTables> MakeClipTables() {
  ASSIGN_OR_RETURN(const MergeList merges, ParseMergesText(ClipMerges(), "CLIP's vocabulary"));
  Vocabulary vocabulary = VocabularyOf(merges);
  // No byte is unknown.
  ASSIGN_OR_RETURN(BytePairModel pairs,
                   BytePairModel::Create(merges, vocabulary, vocabulary.largest_id()));
  return ClipTables{std::move(vocabulary), std::make_shared<const BytePairModel>(std::move(pairs))};
}

// As the tokenizer folders of SDXL base have it: tests/core/tokenizer/built_in_test.cc.
TokenizerConfig ClipConfig(absl::string_view pad_token) {
  TokenizerConfig config;
  config.pad_token = std::string(pad_token);
  config.max_length = ClipTokenizer::kMaxLength;
  config.added_tokens = {{.content = config.start_token, .normalized = true, .special = true},
                         {.content = config.end_token, .special = true},
                         {.content = config.pad_token, .special = true}};
  return config;
}

}  // namespace

struct ClipTokenizer::Tables {
  std::shared_ptr<const BytePairModel> pairs;
  TokenFinder verbatim;
  TokenFinder normalized;
  int max_length;
  int64_t start_id;
  int64_t end_id;
  int64_t pad_id;
  int64_t vocabulary_size;
  std::vector<bool> word_ends;  // by id

  static std::unique_ptr<const Tables> Of(std::shared_ptr<const BytePairModel> pairs,
                                          const Vocabulary& vocabulary,
                                          const TokenizerConfig& config, const AddedIds& ids) {
    int64_t largest_id = vocabulary.largest_id();
    for (const auto& [content, id] : ids) largest_id = std::max(largest_id, id);
    return std::unique_ptr<const Tables>(new Tables{
        .pairs = std::move(pairs),
        .verbatim = MakeFinder(config, ids, Stage::kVerbatim),
        .normalized = MakeFinder(config, ids, Stage::kNormalized),
        .max_length = config.max_length,
        .start_id = ids.at(config.start_token),
        .end_id = ids.at(config.end_token),
        .pad_id = ids.at(config.pad_token),
        .vocabulary_size = largest_id + 1,
        .word_ends = WordEnds(vocabulary),
    });
  }

  // Appends the ids of a text without its start and end.
  void EncodeText(absl::string_view text, std::vector<int64_t>& ids) const {
    const std::u32string characters = DecodeUtf8(text);
    for (const TokenFinder::Piece& piece : verbatim.Split(characters)) {
      if (piece.id) {
        ids.push_back(*piece.id);
      } else {
        EncodePiece(std::u32string(piece.text), ids);
      }
    }
  }

  void EncodePiece(std::u32string text, std::vector<int64_t>& ids) const {
    text = Normalize(std::move(text));
    for (const TokenFinder::Piece& piece : normalized.Split(text)) {
      if (piece.id) {
        ids.push_back(*piece.id);
      } else {
        SplitWords(piece.text,
                   [&](std::u32string_view word) { pairs->EncodeWord(EncodeUtf8(word), ids); });
      }
    }
  }
};

absl::StatusOr<std::unique_ptr<const ClipTokenizer>> ClipTokenizer::Load(
    const std::string& directory, const FileReader& read) {
  ASSIGN_OR_RETURN(const Parts parts, ReadParts(directory, read));
  const auto& [vocabulary, merges, config] = parts;
  ASSIGN_OR_RETURN(const AddedIds ids, NumberAddedTokens(config, vocabulary));
  ASSIGN_OR_RETURN(BytePairModel pairs,
                   BytePairModel::Create(merges, vocabulary, ids.at(config.unknown_token)));
  RETURN_IF_ERROR(CheckMerges(merges.name, pairs, vocabulary, ids));
  return std::unique_ptr<const ClipTokenizer>(new ClipTokenizer(Tables::Of(
      std::make_shared<const BytePairModel>(std::move(pairs)), vocabulary, config, ids)));
}

absl::StatusOr<std::unique_ptr<const ClipTokenizer>> ClipTokenizer::BuiltIn(
    absl::string_view pad_token) {
  static const auto& clip = *new absl::StatusOr<ClipTables>(MakeClipTables());
  RETURN_IF_ERROR(clip.status());
  const TokenizerConfig config = ClipConfig(pad_token);
  ASSIGN_OR_RETURN(const AddedIds ids, NumberAddedTokens(config, clip->vocabulary));
  return std::unique_ptr<const ClipTokenizer>(
      new ClipTokenizer(Tables::Of(clip->pairs, clip->vocabulary, config, ids)));
}

ClipTokenizer::ClipTokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}

ClipTokenizer::~ClipTokenizer() = default;

Encoding ClipTokenizer::Encode(absl::string_view text) const {
  Encoding encoding;
  encoding.ids.push_back(tables_->start_id);
  tables_->EncodeText(text, encoding.ids);
  const auto most = static_cast<size_t>(tables_->max_length) - 1;
  if (encoding.ids.size() > most) {
    encoding.dropped = static_cast<int64_t>(encoding.ids.size() - most);
    encoding.ids.resize(most);
    encoding.ids.shrink_to_fit();
  }
  encoding.ids.push_back(tables_->end_id);
  return encoding;
}

std::vector<int64_t> ClipTokenizer::Tokenize(absl::string_view text) const {
  std::vector<int64_t> ids;
  tables_->EncodeText(text, ids);
  return ids;
}

bool ClipTokenizer::EndsWord(int64_t id) const {
  const auto& ends = tables_->word_ends;
  return id >= 0 && id < static_cast<int64_t>(ends.size()) && ends[static_cast<size_t>(id)];
}

Encoding ClipTokenizer::EncodePadded(absl::string_view text) const {
  Encoding encoding = Encode(text);
  encoding.ids.resize(tables_->max_length, tables_->pad_id);
  return encoding;
}

int ClipTokenizer::max_length() const { return tables_->max_length; }
int64_t ClipTokenizer::start_id() const { return tables_->start_id; }
int64_t ClipTokenizer::end_id() const { return tables_->end_id; }
int64_t ClipTokenizer::pad_id() const { return tables_->pad_id; }
int64_t ClipTokenizer::vocabulary_size() const { return tables_->vocabulary_size; }

}  // namespace latentd::tokenizer
