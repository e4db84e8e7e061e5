#include "core/pipeline/plan/block_scales.h"

#include <cstddef>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/networks/cross_attentions.h"

namespace latentd::pipeline {
namespace {

using networks::Unet2dConditionConfig;

struct UnetBlock {
  std::string name;  // in scales: "down.block_1"
  std::string path;  // its module's: "down_blocks.1"
  size_t transformers = 0;

  // True if the scale is for it: by its own name, or by that of its side.
  bool is_of(absl::string_view scale) const {
    return name == scale || absl::StartsWith(name, absl::StrCat(scale, "."));
  }
};

void AddSide(absl::string_view side,
             const std::vector<Unet2dConditionConfig::Transformers>& transformers,
             std::vector<UnetBlock>& blocks) {
  for (size_t i = 0; i < transformers.size(); ++i) {
    blocks.push_back({absl::StrCat(side, ".block_", i), absl::StrCat(side, "_blocks.", i),
                      transformers[i].size()});
  }
}

std::vector<UnetBlock> BlocksOf(const Unet2dConditionConfig& unet) {
  using Middle = Unet2dConditionConfig::MiddleBlock;
  std::vector<UnetBlock> blocks;
  AddSide("down", unet.down_transformers, blocks);
  blocks.push_back({"mid", "mid_block", unet.middle == Middle::kCrossAttention ? size_t{1} : 0});
  AddSide("up", unet.up_transformers, blocks);
  return blocks;
}

// "down.block_1 (2 transformers), mid (1 transformer)"
std::string ServedText(const std::vector<UnetBlock>& blocks) {
  std::vector<std::string> texts;
  for (const UnetBlock& block : blocks) {
    if (block.transformers == 0) continue;
    texts.push_back(absl::StrCat(block.name, " (", block.transformers,
                                 block.transformers == 1 ? " transformer)" : " transformers)"));
  }
  return absl::StrJoin(texts, ", ");
}

// Sets the factors of a block; false: they are not as many as it has transformers.
bool SetScales(const UnetBlock& block, const std::vector<double>& values,
               std::map<std::string, double>& factors) {
  if (values.size() != 1 && values.size() != block.transformers) return false;
  for (size_t i = 0; i < block.transformers; ++i) {
    factors[absl::StrCat(block.path, ".attentions.", i)] = values[values.size() == 1 ? 0 : i];
  }
  return true;
}

// Sets the factors of all blocks that the scale is for. `own` is its field.
void Apply(const std::vector<UnetBlock>& blocks, const BlockScale& scale, const std::string& own,
           std::map<std::string, double>& factors, std::vector<FieldViolation>& violations,
           std::vector<std::string>& warnings) {
  bool is_there = false, has_effect = false;
  for (const UnetBlock& block : blocks) {
    if (!block.is_of(scale.block)) continue;
    is_there = true;
    if (block.transformers == 0) continue;
    has_effect = true;
    if (SetScales(block, scale.values, factors)) continue;
    return violations.push_back(
        {own + ".values",
         absl::StrCat("must be one number, or ", block.transformers, " for the ",
                      "transformers of ", block.name, ", are ", scale.values.size())});
  }
  if (!is_there) {
    violations.push_back(
        {own + ".block", absl::StrCat("the model's UNet has no block ", scale.block,
                                      "; those with attention to text are ", ServedText(blocks))});
  } else if (!has_effect) {
    warnings.push_back(absl::StrCat(own, " has no effect: ", scale.block,
                                    " of the model's UNet has no attention to text, as ",
                                    ServedText(blocks), " have"));
  }
}

// Factors of all transformers, by the paths of their modules: "up_blocks.0.attentions.1".
absl::StatusOr<std::map<std::string, double>> TransformerScales(
    const Unet2dConditionConfig& unet, absl::Span<const BlockScale> scales,
    const std::string& field, std::vector<std::string>& warnings) {
  const std::vector<UnetBlock> blocks = BlocksOf(unet);
  std::map<std::string, double> factors;
  for (const UnetBlock& block : blocks) SetScales(block, {0}, factors);
  std::vector<FieldViolation> violations;
  for (const bool of_blocks : {false, true}) {
    for (size_t i = 0; i < scales.size(); ++i) {
      if (absl::StrContains(scales[i].block, '.') != of_blocks) continue;
      Apply(blocks, scales[i], absl::StrCat(field, "[", i, "]"), factors, violations, warnings);
    }
  }
  if (!violations.empty()) return InvalidFields(violations);
  return factors;
}

}  // namespace

absl::StatusOr<std::vector<double>> AttentionScales(const Unet2dConditionConfig& unet,
                                                    absl::Span<const BlockScale> scales,
                                                    const std::string& field,
                                                    std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const auto factors, TransformerScales(unet, scales, field, warnings));
  std::vector<double> all;
  for (const networks::CrossAttention& attention : networks::CrossAttentionsOf(unet)) {
    const std::string& path = attention.path;
    all.push_back(factors.at(path.substr(0, path.find(".transformer_blocks"))));
  }
  return all;
}

}  // namespace latentd::pipeline
