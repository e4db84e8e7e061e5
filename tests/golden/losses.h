// Losses of diffusers itself in a lesser precision, against its own float32 results (losses.json,
// which make.py wrote): the scale of latentd's loss in that precision.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tests/golden/command_line.h"

namespace latentd::golden {

// latentd may lose this many times what diffusers does: one draw of rounding errors against
// another. A picture's go through twenty and more evaluations, of which each multiplies what it was
// given; a video's are few, and diffusers rounds its latents after each.
inline constexpr double kNetworkLossFactor = 1.25;
inline constexpr double kPictureLossFactor = 4;
inline constexpr double kVideoLossFactor = 1.25;

class Losses {
 public:
  // Reads those of the options' precision; for TF32 those of fp16, whose mantissa is as long.
  // REQUIRES: not IsExact().
  static absl::StatusOr<Losses> Read(const Options& options);

  // The loss of one output of one case: "outputs" of a network, "latents" and "pixels" of an
  // image or a video; and "ssim", an image's likeness (core/image/pixels/similarity.h). Nothing if
  // diffusers was not measured.
  std::optional<double> Of(const std::string& name, const std::string& what) const;

 private:
  explicit Losses(nlohmann::json by_case) : by_case_(std::move(by_case)) {}

  nlohmann::json by_case_;
};

}  // namespace latentd::golden
