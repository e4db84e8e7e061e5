#include "core/weights/containers/recognize/unet_paths.h"

#include "absl/strings/str_cat.h"

namespace latentd::weights {

const UnetSpelling kLdmSpelling = {.conv_in = "input_blocks.0.0",
                                   .conv_norm_out = "out.0",
                                   .conv_out = "out.2",
                                   .time_linear_1 = "time_embed.0",
                                   .time_linear_2 = "time_embed.2",
                                   .time_cond_proj = "time_embed.cond_proj",
                                   .add_linear_1 = "label_emb.0.0",
                                   .add_linear_2 = "label_emb.0.2",
                                   .norm1 = "in_layers.0",
                                   .conv1 = "in_layers.2",
                                   .time_emb_proj = "emb_layers.1",
                                   .norm2 = "out_layers.0",
                                   .conv2 = "out_layers.3",
                                   .conv_shortcut = "skip_connection"};

namespace {

constexpr UnetSpelling kDiffusers = {.conv_in = "conv_in",
                                     .conv_norm_out = "conv_norm_out",
                                     .conv_out = "conv_out",
                                     .time_linear_1 = "time_embedding.linear_1",
                                     .time_linear_2 = "time_embedding.linear_2",
                                     .time_cond_proj = "time_embedding.cond_proj",
                                     .add_linear_1 = "add_embedding.linear_1",
                                     .add_linear_2 = "add_embedding.linear_2",
                                     .norm1 = "norm1",
                                     .conv1 = "conv1",
                                     .time_emb_proj = "time_emb_proj",
                                     .norm2 = "norm2",
                                     .conv2 = "conv2",
                                     .conv_shortcut = "conv_shortcut"};

// More are in no network that is served; they end a walk over names that a file may have made up.
constexpr int kMostModules = 256;

std::string IfThere(const PartTensors& tensors, std::string path) {
  return tensors.HasUnder(path) ? std::move(path) : std::string();
}

// One of the lists of latent diffusion: layers and samplers in one sequence, in which a sampler
// ends a block.
template <typename Module>
std::vector<UnetPaths::Block> WalkLdm(const PartTensors& tensors, absl::string_view list, int first,
                                      const Module& read) {
  std::vector<UnetPaths::Block> blocks(1);
  for (int i = first; i < kMostModules; ++i) {
    const std::string path = absl::StrCat(list, ".", i);
    if (!tensors.HasUnder(path)) break;
    read(path, blocks.back());
    if (!blocks.back().sampler.empty()) blocks.emplace_back();
  }
  // A list that ends in a sampler has no block behind it.
  if (blocks.back().layers.empty()) blocks.pop_back();
  return blocks;
}

UnetPaths LdmPaths(const PartTensors& tensors) {
  UnetPaths paths = {.spelling = kLdmSpelling, .down = {}, .middle = {}, .up = {}};
  const auto down = [&](const std::string& path, UnetPaths::Block& block) {
    block.sampler = IfThere(tensors, path + ".0.op");
    if (!block.sampler.empty()) return;
    block.layers.push_back({path + ".0", IfThere(tensors, path + ".1")});
  };
  const auto up = [&](const std::string& path, UnetPaths::Block& block) {
    // The sampler follows the residual block, or the transformer behind it.
    const bool is_plain = tensors.HasUnder(path + ".1.conv");
    block.layers.push_back({path + ".0", is_plain ? std::string() : IfThere(tensors, path + ".1")});
    block.sampler = is_plain ? path + ".1.conv" : IfThere(tensors, path + ".2.conv");
  };
  paths.down = WalkLdm(tensors, "input_blocks", 1, down);
  paths.up = WalkLdm(tensors, "output_blocks", 0, up);
  if (tensors.HasUnder("middle_block.0")) {
    paths.middle.push_back({"middle_block.0", IfThere(tensors, "middle_block.1")});
  }
  if (tensors.HasUnder("middle_block.2")) paths.middle.push_back({"middle_block.2", ""});
  return paths;
}

// Lists that diffusers has for each block: resnets, attentions, and a sampler.
std::vector<UnetPaths::Block> WalkDiffusers(const PartTensors& tensors, absl::string_view list,
                                            absl::string_view sampler) {
  std::vector<UnetPaths::Block> blocks;
  for (int i = 0; i < kMostModules; ++i) {
    const std::string path = absl::StrCat(list, ".", i);
    if (!tensors.HasUnder(path)) break;
    UnetPaths::Block& block = blocks.emplace_back();
    for (int j = 0; j < kMostModules; ++j) {
      const std::string resnet = absl::StrCat(path, ".resnets.", j);
      if (!tensors.HasUnder(resnet)) break;
      block.layers.push_back({resnet, IfThere(tensors, absl::StrCat(path, ".attentions.", j))});
    }
    block.sampler = IfThere(tensors, absl::StrCat(path, ".", sampler, ".0.conv"));
  }
  return blocks;
}

UnetPaths DiffusersPaths(const PartTensors& tensors) {
  UnetPaths paths = {.spelling = kDiffusers,
                     .down = WalkDiffusers(tensors, "down_blocks", "downsamplers"),
                     .middle = {},
                     .up = WalkDiffusers(tensors, "up_blocks", "upsamplers")};
  if (tensors.HasUnder("mid_block.resnets.0")) {
    paths.middle.push_back({"mid_block.resnets.0", IfThere(tensors, "mid_block.attentions.0")});
  }
  if (tensors.HasUnder("mid_block.resnets.1")) paths.middle.push_back({"mid_block.resnets.1", ""});
  return paths;
}

}  // namespace

std::optional<UnetPaths> FindUnetPaths(const PartTensors& tensors) {
  if (tensors.HasUnder("input_blocks")) return LdmPaths(tensors);
  if (tensors.HasUnder("down_blocks")) return DiffusersPaths(tensors);
  return std::nullopt;
}

}  // namespace latentd::weights
