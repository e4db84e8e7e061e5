#include "core/tokenizer/byte_pair_model.h"

#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "core/tokenizer/unicode.h"

namespace latentd::tokenizer {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

absl::Status MissingToken(absl::string_view what, absl::string_view token,
                          const Vocabulary& vocabulary) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", Excerpt(token), "\", which is not in ", vocabulary.path()));
}

}  // namespace

std::array<std::string, 256> ByteNames() {
  std::array<std::string, 256> names;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    names[byte] = EncodeUtf8(std::u32string(1, printable ? static_cast<char32_t>(byte) : next++));
  }
  return names;
}

// One word while it is being merged: its symbols as a linked list over an array, and the pairs that
// may be merged in a heap, best rank first, the leftmost of equals first.
class WordMerger {
 public:
  WordMerger(absl::string_view word, const BytePairModel& model) : model_(model) {
    const auto size = static_cast<int32_t>(word.size());
    symbols_.reserve(word.size());
    for (int32_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(word[i]);
      const bool last = i + 1 == size;
      symbols_.push_back(
          {last ? model.last_ids_[byte] : model.inner_ids_[byte], i - 1, last ? kNone : i + 1});
    }
    for (int32_t i = 0; i + 1 < size; ++i) Offer(i);
  }

  void MergeAll() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (IsCurrent(best)) Merge(best);
    }
  }

  void AppendIds(std::vector<int64_t>& ids) const {
    for (int32_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next) {
      ids.push_back(symbols_[i].id);
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kMerged = -1;  // the id of a symbol that went into the one before it

  struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
  };

  struct Candidate {
    int32_t rank;
    int32_t position;
    int32_t id;

    bool operator<(const Candidate& other) const {  // std::priority_queue puts the largest first
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  void Offer(int32_t position) {
    const int32_t next = symbols_[position].next;
    if (next == kNone) return;
    const BytePairModel::Merge* merge = model_.Find(symbols_[position].id, symbols_[next].id);
    if (merge != nullptr) candidates_.push({merge->rank, position, merge->id});
  }

  // True if the pair is still as it was when it became a candidate.
  bool IsCurrent(const Candidate& candidate) const {
    const Symbol& symbol = symbols_[candidate.position];
    if (symbol.id == kMerged || symbol.next == kNone) return false;
    const BytePairModel::Merge* merge = model_.Find(symbol.id, symbols_[symbol.next].id);
    return merge != nullptr && merge->id == candidate.id;
  }

  void Merge(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.position];
    Symbol& right = symbols_[left.next];
    left.id = candidate.id;
    left.next = right.next;
    right.id = kMerged;
    if (left.next != kNone) symbols_[left.next].previous = candidate.position;
    if (left.previous != kNone) Offer(left.previous);
    Offer(candidate.position);
  }

  const BytePairModel& model_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

absl::StatusOr<BytePairModel> BytePairModel::Create(const MergeList& list,
                                                    const Vocabulary& vocabulary,
                                                    int64_t unknown_id) {
  BytePairModel model;
  model.NameBytes(vocabulary, unknown_id);
  for (const MergeList::Merge& merge : list.merges) {
    const absl::Status added = model.AddMerge(merge, vocabulary);
    if (!added.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(list.NameOf(merge.number), " ", added.message()));
    }
  }
  return model;
}

void BytePairModel::NameBytes(const Vocabulary& vocabulary, int64_t unknown_id) {
  const std::array<std::string, 256> names = ByteNames();
  for (int byte = 0; byte < 256; ++byte) {
    const std::string last = absl::StrCat(names[byte], kWordEnd);
    inner_ids_[byte] = static_cast<int32_t>(vocabulary.Find(names[byte]).value_or(unknown_id));
    last_ids_[byte] = static_cast<int32_t>(vocabulary.Find(last).value_or(unknown_id));
  }
}

absl::Status BytePairModel::AddMerge(const MergeList::Merge& merge, const Vocabulary& vocabulary) {
  const auto left = vocabulary.Find(merge.left);
  if (!left) return MissingToken("merges", merge.left, vocabulary);
  const auto right = vocabulary.Find(merge.right);
  if (!right) return MissingToken("merges", merge.right, vocabulary);
  const std::string joined = absl::StrCat(merge.left, merge.right);
  const auto id = vocabulary.Find(joined);
  if (!id) return MissingToken("makes", joined, vocabulary);
  // The last rank of a pair that comes twice counts.
  merges_[PairKey(static_cast<int32_t>(*left), static_cast<int32_t>(*right))] = {
      next_rank_++, static_cast<int32_t>(*id)};
  return absl::OkStatus();
}

absl::flat_hash_set<int64_t> BytePairModel::ReachableIds() const {
  absl::flat_hash_set<int64_t> ids(inner_ids_.begin(), inner_ids_.end());
  ids.insert(last_ids_.begin(), last_ids_.end());
  for (const auto& [pair, merge] : merges_) ids.insert(merge.id);
  return ids;
}

const BytePairModel::Merge* BytePairModel::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairModel::EncodeWord(absl::string_view word, std::vector<int64_t>& ids) const {
  WordMerger merger(word, *this);
  merger.MergeAll();
  merger.AppendIds(ids);
}

}  // namespace latentd::tokenizer
