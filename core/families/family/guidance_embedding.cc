#include "core/families/family/guidance_embedding.h"

#include <cmath>

namespace latentd::families {
namespace {

constexpr char kInput[] = "timestep_cond";

}  // namespace

std::vector<float> GuidanceEmbedding(double guidance_scale, int64_t features) {
  const float w = static_cast<float>(guidance_scale - 1) * 1000.0f;
  const int64_t half = features / 2;
  const float step = std::log(10000.0f) / static_cast<float>(half - 1);
  std::vector<float> embedding(static_cast<size_t>(features));
  for (int64_t i = 0; i < half; ++i) {
    const float angle = w * std::exp(static_cast<float>(i) * -step);
    embedding[static_cast<size_t>(i)] = std::sin(angle);
    embedding[static_cast<size_t>(half + i)] = std::cos(angle);
  }
  return embedding;
}

graph::Value GuidanceInput(graph::GraphBuilder& builder, const ModelConfigs& configs,
                           int64_t rows) {
  if (!configs.embeds_guidance()) return graph::kNone;
  return builder.Input(kInput, device::DType::kF32, {rows, configs.unet.time_cond_proj_dim},
                       graph::Rate::kRequest);
}

void AddGuidance(const ModelConfigs& configs, const pipeline::PictureSpec& resolved,
                 RowInputs& row) {
  if (!configs.embeds_guidance()) return;
  row.request.push_back(
      {kInput, GuidanceEmbedding(*resolved.guidance_scale, configs.unet.time_cond_proj_dim)});
}

}  // namespace latentd::families
