// The numbers of rows that steps have graphs for, at each size: this is the one place that says so.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Eight rows of 1024x1024, of which two fill a large GPU already (docs/performance.md).
inline constexpr int kDefaultSharedPixels = 8 * 1024 * 1024;

// Thread-compatible.
struct StepRows {
  std::vector<int> counts;  // numbers of rows of all sizes together, each once
  // Limit of an evaluation that pictures share: its rows x width x height, of pictures, and x
  // frames of videos.
  int64_t max_shared_pixels = kDefaultSharedPixels;
  // Steps of one picture of two rows have graphs for two devices too, of a row each.
  bool split = false;
  // Steps have full and shallow graphs too, for images with feature_cache_interval.
  bool feature_cache = false;

  // Numbers of `counts` for steps of that size, ascending: 1 and 2, which one picture may need
  // by itself, at every size; of more those that have max_shared_pixels at most.
  std::vector<int> At(Size size) const;
};

}  // namespace latentd::pipeline
