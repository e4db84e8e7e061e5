// The line of text in a picture that says how to make it again, in the spelling of AUTOMATIC1111's
// web UI, which image tools read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace latentd::image {

struct PictureParameters {
  std::string prompt;
  std::string negative_prompt;  // empty: no such line
  int steps = 0;
  std::string sampler;        // "Euler a", "DPM++ 2M"
  std::string schedule_type;  // "Karras"; empty: left out
  double cfg_scale = 0;
  uint64_t seed = 0;
  int width = 0;
  int height = 0;
  std::string model;  // empty: left out
  std::optional<double> denoising_strength;
  std::optional<int> clip_skip;
  std::string refiner;  // the refiner's name; empty: left out
  std::optional<double> refiner_switch_at;
  std::vector<std::pair<std::string, std::string>> extra;  // name and value, after the rest
  std::string version;                                     // "latentd 0.1.0"; empty: left out
};

// "PROMPT\nNegative prompt: NEGATIVE\nSteps: 20, Sampler: Euler, CFG scale: 4, Seed: 7, Size:
// 256x256, ...". A value with a comma, a colon or a line break is written as a JSON string.
std::string ParametersText(const PictureParameters& parameters);

}  // namespace latentd::image
