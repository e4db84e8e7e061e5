#include "core/image/png/huffman.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace latentd::image {
namespace {

// How many words there are of each length.
using LengthCounts = std::array<uint32_t, kLongestWord + 1>;

// The symbols that come, the rarest first; of equally rare ones the first first.
std::vector<uint64_t> Sorted(absl::Span<const uint32_t> frequencies) {
  std::vector<uint64_t> sorted;
  sorted.reserve(frequencies.size());
  for (size_t symbol = 0; symbol < frequencies.size(); ++symbol) {
    if (frequencies[symbol] > 0) sorted.push_back(uint64_t{frequencies[symbol]} << 16 | symbol);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

uint64_t Weight(uint64_t sorted) { return sorted >> 16; }
uint16_t Symbol(uint64_t sorted) { return static_cast<uint16_t>(sorted); }

// Huffman's tree over leaves of rising weight. Nodes come to be in the order of their weights, so
// that the two lightest of all are always at the front of the leaves or of the nodes.
class Tree {
 public:
  // REQUIRES: at least two leaves.
  explicit Tree(absl::Span<const uint64_t> leaves)
      : leaves_(leaves), weights_(leaves.size() - 1), parents_(2 * leaves.size() - 2) {
    for (size_t node = 0; node < weights_.size(); ++node) {
      weights_[node] = TakeLightest(node);
      weights_[node] += TakeLightest(node);
    }
  }

  // Number of words by their lengths; longer ones count as of `limit` bits.
  LengthCounts CountLengths(int limit) const {
    std::vector<int> depths(weights_.size());
    for (size_t node = weights_.size() - 1; node-- > 0;) {
      depths[node] = depths[parents_[leaves_.size() + node]] + 1;
    }
    LengthCounts counts{};
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      ++counts[std::min(depths[parents_[leaf]] + 1, limit)];
    }
    return counts;
  }

 private:
  uint64_t TakeLightest(size_t parent) {
    const bool leaf = next_leaf_ < leaves_.size() &&
                      (next_node_ == parent || Weight(leaves_[next_leaf_]) <= weights_[next_node_]);
    parents_[leaf ? next_leaf_ : leaves_.size() + next_node_] = parent;
    return leaf ? Weight(leaves_[next_leaf_++]) : weights_[next_node_++];
  }

  absl::Span<const uint64_t> leaves_;
  std::vector<uint64_t> weights_;  // weights of the inner nodes
  std::vector<size_t> parents_;    // parents of leaves, then of the nodes but the root
  size_t next_leaf_ = 0;
  size_t next_node_ = 0;
};

// Words of a limited length may be too many for a code. Each turn makes of two words of `limit`
// bits a shorter one's children, whose own word goes to one of the two: one word of `limit` bits
// less is needed.
void MakeRoom(int limit, LengthCounts& counts) {
  uint64_t taken = 0;
  for (int length = 1; length <= limit; ++length) {
    taken += uint64_t{counts[length]} << (limit - length);
  }
  for (; taken > uint64_t{1} << limit; --taken) {
    int shorter = limit - 1;
    while (counts[shorter] == 0) --shorter;
    --counts[shorter];
    counts[shorter + 1] += 2;
    --counts[limit];
  }
}

uint16_t Reversed(uint32_t word, int length) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < length; ++bit) reversed |= (word >> bit & 1) << (length - 1 - bit);
  return static_cast<uint16_t>(reversed);
}

}  // namespace

void ChooseWordLengths(absl::Span<const uint32_t> frequencies, int limit,
                       absl::Span<uint8_t> lengths) {
  std::fill(lengths.begin(), lengths.end(), 0);
  const std::vector<uint64_t> sorted = Sorted(frequencies);
  if (sorted.size() == 1) lengths[Symbol(sorted[0])] = 1;
  if (sorted.size() < 2) return;
  LengthCounts counts = Tree(sorted).CountLengths(limit);
  MakeRoom(limit, counts);
  size_t next = 0;
  for (int length = limit; length > 0; --length) {
    for (uint32_t i = 0; i < counts[length]; ++i) {
      lengths[Symbol(sorted[next++])] = static_cast<uint8_t>(length);
    }
  }
}

void AssignWords(absl::Span<const uint8_t> lengths, absl::Span<uint16_t> words) {
  LengthCounts counts{};
  for (const uint8_t length : lengths) ++counts[length];
  counts[0] = 0;
  LengthCounts next{};
  for (int length = 1; length <= kLongestWord; ++length) {
    next[length] = (next[length - 1] + counts[length - 1]) << 1;
  }
  for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    const int length = lengths[symbol];
    words[symbol] = length == 0 ? 0 : Reversed(next[length]++, length);
  }
}

}  // namespace latentd::image
