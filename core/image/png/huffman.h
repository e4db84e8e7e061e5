// Prefix codes as deflate has them (RFC 1951, 3.2.2): the lengths of its words say all of a code.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace latentd::image {

// The longest word that deflate can tell of.
inline constexpr int kLongestWord = 15;

// How many bits each symbol's word has in a code for symbols that come so often: few for the
// frequent, none over `limit`, 0 for what never comes. The code is as short as any if no word of
// the shortest code is longer than `limit`, and near to it otherwise. Its words leave no sequence
// of bits without meaning, unless a single symbol comes: that has one bit.
//
// Equal frequencies give equal lengths, on every machine.
//
// REQUIRES: as many lengths as frequencies, at most 2^16; at most 2^limit symbols come;
// 1 <= limit <= kLongestWord.
void ChooseWordLengths(absl::Span<const uint32_t> frequencies, int limit,
                       absl::Span<uint8_t> lengths);

// The words of these lengths, their first bit lowest, as deflate writes them; 0 where the length is
// 0. REQUIRES: as many words as lengths; lengths are as ChooseWordLengths gives them.
void AssignWords(absl::Span<const uint8_t> lengths, absl::Span<uint16_t> words);

}  // namespace latentd::image
