#include "core/networks/cross_attentions.h"

#include "absl/strings/str_cat.h"

namespace latentd::networks {
namespace {

using Block = Unet2dConditionConfig::Block;

void AddTransformer(const std::string& path, const Block& block, int64_t layers, bool is_middle,
                    std::vector<CrossAttention>& all) {
  const int64_t features = block.channels / block.heads * block.heads;
  for (int64_t i = 0; i < layers; ++i) {
    all.push_back({absl::StrCat(path, ".transformer_blocks.", i, ".attn2"), features, is_middle});
  }
}

void AddBlock(const std::string& path, const Block& block,
              const Unet2dConditionConfig::Transformers& transformers,
              std::vector<CrossAttention>& all) {
  for (size_t i = 0; i < transformers.size(); ++i) {
    AddTransformer(absl::StrCat(path, ".attentions.", i), block, transformers[i],
                   /*is_middle=*/false, all);
  }
}

}  // namespace

std::vector<CrossAttention> CrossAttentionsOf(const Unet2dConditionConfig& config) {
  const size_t count = config.blocks.size();
  std::vector<CrossAttention> all;
  for (size_t i = 0; i < count; ++i) {
    AddBlock(absl::StrCat("down_blocks.", i), config.blocks[i], config.down_transformers[i], all);
  }
  if (config.middle == Unet2dConditionConfig::MiddleBlock::kCrossAttention) {
    AddTransformer("mid_block.attentions.0", config.blocks.back(), config.middle_transformer_layers,
                   /*is_middle=*/true, all);
  }
  for (size_t i = 0; i < count; ++i) {
    AddBlock(absl::StrCat("up_blocks.", i), config.blocks[count - 1 - i], config.up_transformers[i],
             all);
  }
  return all;
}

}  // namespace latentd::networks
