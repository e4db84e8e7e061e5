// Factors by blocks of a UNet, as diffusers' trees have them: {"up": {"block_0": [0, 1, 0]}}. Plain
// data and pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::pipeline {

struct BlockScale {
  std::string block;  // "down", "mid", "up", or a block of the first and last: "up.block_0"
  std::vector<double> values;  // one for all of its transformers, or one for each

  bool operator==(const BlockScale&) const = default;
};

// True for the names that blocks of some UNet have.
bool IsBlockName(absl::string_view block);

// "up.block_0=0/1/0+mid=0.5"; empty without any.
std::string TextOf(absl::Span<const BlockScale> scales);

}  // namespace latentd::pipeline
