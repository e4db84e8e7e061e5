#include "server/config/lora_flag.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "server/config/flag_values.h"

namespace latentd::server::config {
namespace {

constexpr size_t kMostWeights = 2;
// Far beyond any that draws a picture, and within float32 with any scale that files have.
constexpr double kGreatestWeight = 1e6;

// False for NaN, too.
bool IsWeight(double weight) { return std::abs(weight) <= kGreatestWeight; }

// Takes a number behind the last colon off the path.
bool TakeWeight(std::string& path, double& weight) {
  const size_t colon = path.rfind(':');
  if (colon == std::string::npos) return false;
  if (!absl::SimpleAtod(path.substr(colon + 1), &weight)) return false;
  path.resize(colon);
  return true;
}

}  // namespace

absl::StatusOr<pipeline::LoraFile> ToLora(absl::string_view flag, const std::string& text) {
  pipeline::LoraFile lora{.path = text};
  std::vector<double> weights;  // the last one first
  double weight = 1;
  while (weights.size() < kMostWeights && TakeWeight(lora.path, weight)) weights.push_back(weight);
  if (!weights.empty()) {
    lora.unet_weight = weights.back();
    lora.text_encoder_weight = weights.front();
  }
  const bool has_weights = IsWeight(lora.unet_weight) && IsWeight(lora.text_encoder_weight);
  if (has_weights && !lora.path.empty() && !absl::StrContains(lora.path, ".safetensors:")) {
    return lora;
  }
  return WrongValue(
      flag, text,
      "FILE[:WEIGHT[:TEXT_ENCODER_WEIGHT]], such as film.safetensors:0.8, with "
      "weights from -1000000 to 1000000; a comma, or another flag, divides it from the next");
}

}  // namespace latentd::server::config
