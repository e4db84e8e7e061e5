// Byte-pair encoding: a word's bytes, joined pair by pair in the order in which the merges rank the
// pairs (R. Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tokenizer/merge_list.h"
#include "core/tokenizer/vocabulary.h"

namespace latentd::tokenizer {

// The end of a token that is the last of its word.
inline constexpr absl::string_view kWordEnd = "</w>";

// The printable character that stands for each byte in a vocabulary (GPT-2's bytes_to_unicode):
// itself where Latin-1 prints something, else the next free one from U+0100 on.
std::array<std::string, 256> ByteNames();

// Frozen after Create; thread-safe.
class BytePairModel {
 public:
  // INVALID_ARGUMENT names the merge that joins or makes a token that `vocabulary` lacks.
  static absl::StatusOr<BytePairModel> Create(const MergeList& list, const Vocabulary& vocabulary,
                                              int64_t unknown_id);

  // The ids that words can become: those of single bytes, and what the merges make.
  absl::flat_hash_set<int64_t> ReachableIds() const;

  // Appends the ids of one word. A byte that the vocabulary has no token for counts as the unknown
  // token. Takes n log n time.
  void EncodeWord(absl::string_view word, std::vector<int64_t>& ids) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;  // the joined token's
  };

  BytePairModel() = default;
  void NameBytes(const Vocabulary& vocabulary, int64_t unknown_id);
  absl::Status AddMerge(const MergeList::Merge& merge, const Vocabulary& vocabulary);
  const Merge* Find(int32_t left, int32_t right) const;

  std::array<int32_t, 256> inner_ids_;           // id of a byte inside a word
  std::array<int32_t, 256> last_ids_;            // id of a word's last byte ("</w>" follows)
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by the ids of left and right
  int32_t next_rank_ = 0;

  friend class WordMerger;
};

}  // namespace latentd::tokenizer
