#include "core/pipeline/graphs/precision.h"

#include <string>

#include "absl/strings/match.h"
#include "core/pipeline/graphs/f8_policy.h"

namespace latentd::pipeline {

using device::DType;

DType DTypeOf(const ComponentDTypes& wanted, absl::string_view component) {
  const auto found = wanted.find(std::string(component));
  return found == wanted.end() ? DType::kF32 : found->second;
}

graph::Precision F8Precision(absl::string_view component) {
  graph::Precision precision{DType::kBF16};
  if (!absl::StartsWith(component, "unet")) return precision;
  for (const absl::string_view weights : F8Linears()) precision.f8_weights.emplace_back(weights);
  return precision;
}

graph::Precision PrecisionOf(const ComponentDTypes& wanted, absl::string_view component,
                             const VaeConfig& vae) {
  if (DTypeOf(wanted, component) == DType::kF8E4M3) return F8Precision(component);
  const graph::Precision asked{DTypeOf(wanted, component)};
  const auto* kl = std::get_if<networks::AutoencoderKlConfig>(&vae);
  if (asked.dtype != DType::kF16 || kl == nullptr || !kl->force_upcast) return asked;
  if (component == "vae_encoder") return {};
  if (component != "vae_decoder") return asked;
  return {DType::kF16,
          {"vae/decoder.up_blocks.", "vae/decoder.conv_norm_out.", "vae/decoder.conv_out."}};
}

}  // namespace latentd::pipeline
