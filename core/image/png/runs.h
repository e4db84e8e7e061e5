// Runs in bytes: what repeats the byte before it, or the pixel.
//
// Thread-safe: free functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace latentd::image {

// `length` bytes from `at` on, each equal to the one `distance` before it.
struct Run {
  size_t at = 0;
  size_t length = 0;
  int distance = 1;

  bool operator==(const Run&) const = default;
};

struct Runs {
  std::vector<Run> runs;                 // in order, apart from each other
  std::array<uint32_t, 256> literals{};  // how often each byte comes outside the runs
};

// Every run of a byte (distance 1) or of three (distance 3) that covers a whole piece of eight
// bytes where the search passes by: all that are longer than 16, some from 8 on.
//
// A pure function of the bytes, not of where they lie.
Runs FindRuns(absl::Span<const uint8_t> bytes);

}  // namespace latentd::image
