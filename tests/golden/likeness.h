// How alike the pictures look that a case draws in a lesser precision, over several seeds.
//
// One picture is one draw of a chaotic path: rounding differences of its first steps are multiplied
// by those that follow, so another order of addition, which other instructions or another number of
// threads have, is another draw. What the arithmetic loses shows in the median of several.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/golden/command_line.h"
#include "tests/golden/losses.h"
#include "tests/golden/report.h"

namespace latentd::golden {

// The median of a case's pictures has to be at least this like diffusers' in float32, ...
inline constexpr double kLeastMedianSimilarity = 0.99;
// ... and not to lose (1 - SSIM) more than so many times what diffusers' median does. In fp16, and
// TF32, diffusers runs the VAE in float32, and the median moves more. ...
inline constexpr double kMedianLossFactor = kNetworkLossFactor;
inline constexpr double kMedianLossFactorOfFp16 = 2;
// Each picture has to be at least this like it. README.md says what they were measured
// by.
inline constexpr double kLeastSimilarity = 0.95;

struct Likeness {
  double median = 0;  // for an even number, the lesser of the two in the middle
  double worst = 0;
};

// REQUIRES: at least one. Each is that of a picture (core/image/pixels/similarity.h).
Likeness LikenessOf(std::vector<double> similarities);

// Measures that judge a case: its median and its worst, beside diffusers'; its worst alone if
// diffusers was not measured on it. The median may lose `loss_factor` times diffusers'.
std::vector<Measure> MeasureLikeness(const std::vector<double>& similarities,
                                     const std::optional<Likeness>& of_diffusers,
                                     double loss_factor);

// The seeds that a case is judged over, and what diffusers keeps over the same.
class LikenessCases {
 public:
  // likeness.json and likeness/diffusers.json, of the precision that the options ask for; of TF32
  // what diffusers keeps in fp16. REQUIRES: not IsExact().
  static absl::StatusOr<LikenessCases> Read(const Options& options);

  // Beside the case's own. Empty for a case that is judged by its own pictures alone.
  std::vector<uint64_t> SeedsOf(const std::string& name) const;
  // diffusers' picture in float32 of one of these.
  std::string PicturePath(const std::string& name, uint64_t seed) const;

  // Over the case's own pictures, as one, and those of these seeds. Nothing where there are none.
  std::optional<Likeness> OfDiffusers(const std::string& name) const;

 private:
  LikenessCases(std::string folder, nlohmann::json seeds, nlohmann::json kept)
      : folder_(std::move(folder)), seeds_(std::move(seeds)), kept_(std::move(kept)) {}

  std::string folder_;
  nlohmann::json seeds_, kept_;  // by case
};

}  // namespace latentd::golden
