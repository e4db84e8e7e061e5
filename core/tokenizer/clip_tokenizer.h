// CLIP's byte-pair encoding, equal to what transformers' CLIPTokenizer makes of the same files.
//
// A text goes through these stages:
//   1. added tokens ("<|endoftext|>", in SDXL's second tokenizer also "!") are cut out verbatim;
//   2. the rest is normalised: NFC, white space collapsed, lower case; tokens added as "normalized"
//      are cut out of that;
//   3. what is left is split into words: a contraction, a run of letters, one digit, or a run of
//      anything else;
//   4. each word's UTF-8 bytes are merged by the ranks of the merges.
// Time and memory grow as n log n with the text, also for one word of a megabyte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file_reader.h"

namespace latentd::tokenizer {

struct Encoding {
  std::vector<int64_t> ids;  // with the start and the end token, at most max_length() of them
  int64_t dropped = 0;       // how many tokens of the text did not fit
};

// Frozen once it is made; all methods may be called from any thread.
class ClipTokenizer {
 public:
  // The longest sequence that any CLIP text encoder takes.
  static constexpr int kMaxLength = 77;

  // Reads a checkpoint's tokenizer folder: tokenizer.json or, where that is not, vocab.json and
  // merges.txt; and, where they are, tokenizer_config.json, special_tokens_map.json and
  // added_tokens.json. Every error names the file and what is wrong with it: NOT_FOUND for a
  // missing one, INVALID_ARGUMENT for the rest.
  static absl::StatusOr<std::unique_ptr<const ClipTokenizer>> Load(
      const std::string& directory, const FileReader& read = ReadFile);

  // The tokenizer of a checkpoint that comes without one: CLIP's own vocabulary, which is compiled
  // in, as the tokenizer folders of Stable Diffusion 1, 2 and XL configure it. `pad_token` is
  // "<|endoftext|>", or "!" where they say so (SDXL's second, Stable Diffusion 2's), which is then
  // cut out of texts verbatim. INVALID_ARGUMENT: a pad token that the vocabulary lacks.
  //
  // All of them share one table of merges, which is made with the first and stays.
  static absl::StatusOr<std::unique_ptr<const ClipTokenizer>> BuiltIn(absl::string_view pad_token);

  ~ClipTokenizer();

  // Takes any bytes: each ill-formed UTF-8 sequence counts as U+FFFD.
  Encoding Encode(absl::string_view text) const;

  // The same without the start and the end token, and however many.
  std::vector<int64_t> Tokenize(absl::string_view text) const;

  // As Encode, filled up to exactly max_length() ids with the pad token.
  Encoding EncodePadded(absl::string_view text) const;

  // True for tokens at the end of a word.
  bool EndsWord(int64_t id) const;

  // model_max_length of tokenizer_config.json, at most kMaxLength.
  int max_length() const;
  int64_t start_id() const;
  int64_t end_id() const;
  int64_t pad_id() const;
  // One more than the largest id that can come out: the text encoder's embedding needs as many
  // rows.
  int64_t vocabulary_size() const;

 private:
  struct Tables;
  explicit ClipTokenizer(std::unique_ptr<const Tables> tables);

  const std::unique_ptr<const Tables> tables_;
};

}  // namespace latentd::tokenizer
