// A Comparison is what two servers drew of the same requests and how alike it is; here as a table,
// as JSON, and as a page with the pictures side by side. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::client {

// A picture beside the one that it is compared with (core/image/pixels/similarity.h).
struct Similarity {
  double ssim = 0;         // 1: they are equal
  double psnr = 0;         // decibels; infinite where they are equal
  int largest_change = 0;  // most that a byte differs by
};

// INVALID_ARGUMENT where they have not one size, or one that is too small to compare.
absl::StatusOr<Similarity> Compare(const image::Image& a, const image::Image& b);

struct ComparedPicture {
  std::string prompt;
  uint64_t seed = 0;
  std::string file_a, file_b;  // PNG
  Similarity similarity;
  // Yardsticks: the first server's picture beside its own with fewer steps, and with another seed.
  std::optional<Similarity> fewer_steps, other_seed;
  std::map<int, Similarity> previews;  // by the step that they are of
};

struct Comparison {
  std::string server_a, server_b;
  int steps = 0, fewer_steps = 0;         // numbers of the pictures and of that yardstick
  std::vector<ComparedPicture> pictures;  // one at least
};

// The least and the median (of an even number, the lesser of the two in the middle).
struct Spread {
  double median = 0, worst = 0;
};
// REQUIRES: one at least.
Spread SpreadOf(std::vector<double> values);

// Lines for people, each with its end.
std::string ComparisonTable(const Comparison& comparison);

// {"servers": [a, b], "ssim": {"median", "worst"}, "psnr": {...}, "pictures": [{"prompt", "seed",
// "ssim", "psnr", ...}]}; a PSNR that is infinite is null. Ends without a newline.
std::string ComparisonJson(const Comparison& comparison);

// HTML without anything from elsewhere: the table, and the pictures, the least alike first.
std::string ComparisonPage(const Comparison& comparison);

}  // namespace latentd::client
