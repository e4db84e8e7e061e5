#include "core/adapters/control_net/ldm_names.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace latentd::adapters {
namespace {

using networks::Unet2dConditionConfig;

struct Renaming {
  absl::string_view ldm, diffusers;
};

// Beginnings of names that each network has once.
constexpr Renaming kOnce[] = {{"time_embed.0.", "time_embedding.linear_1."},
                              {"time_embed.2.", "time_embedding.linear_2."},
                              {"label_emb.0.0.", "add_embedding.linear_1."},
                              {"label_emb.0.2.", "add_embedding.linear_2."},
                              {"input_blocks.0.0.", "conv_in."},
                              {"middle_block.1.", "mid_block.attentions.0."},
                              {"middle_block_out.0.", "controlnet_mid_block."}};
constexpr Renaming kInResnet[] = {
    {"in_layers.0.", "norm1."},          {"in_layers.2.", "conv1."},
    {"emb_layers.1.", "time_emb_proj."}, {"out_layers.0.", "norm2."},
    {"out_layers.3.", "conv2."},         {"skip_connection.", "conv_shortcut."}};

constexpr absl::string_view kLdmPrefix = "control_model.";
constexpr absl::string_view kLdmHint = "input_hint_block.";
constexpr absl::string_view kLdmZero = "zero_convs.";

// The name with its beginning replaced by the first that it has; itself where it has none.
template <size_t count>
std::string Renamed(absl::string_view name, const Renaming (&table)[count]) {
  for (const auto& [ldm, diffusers] : table) {
    if (absl::ConsumePrefix(&name, ldm)) return absl::StrCat(diffusers, name);
  }
  return std::string(name);
}

// Takes "12." from the front; -1, and nothing, where there is no number.
int64_t TakeNumber(absl::string_view& name) {
  const size_t dot = name.find('.');
  int64_t number = -1;
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(name.substr(0, dot), &number)) return -1;
  name.remove_prefix(dot + 1);
  return number;
}

class LdmControlNames {
 public:
  LdmControlNames(const weights::TensorMap& tensors, const Unet2dConditionConfig& unet)
      : unet_(unet) {
    for (const auto& [name, tensor] : tensors) {
      absl::string_view rest = name;
      absl::ConsumePrefix(&rest, kLdmPrefix);
      if (absl::ConsumePrefix(&rest, kLdmHint)) last_hint_ = std::max(last_hint_, TakeNumber(rest));
    }
  }

  bool is_ldm() const { return last_hint_ >= 0; }

  std::string ToDiffusers(absl::string_view name) const {
    absl::ConsumePrefix(&name, kLdmPrefix);
    absl::string_view rest = name;
    if (absl::ConsumePrefix(&rest, kLdmHint)) return Hint(rest);
    if (absl::ConsumePrefix(&rest, kLdmZero)) return Zero(rest);
    for (const absl::string_view resnet : {"0.", "2."}) {
      rest = name;
      if (!absl::ConsumePrefix(&rest, absl::StrCat("middle_block.", resnet))) continue;
      return absl::StrCat("mid_block.resnets.", resnet == "0." ? 0 : 1, ".",
                          Renamed(rest, kInResnet));
    }
    std::string once = Renamed(name, kOnce);
    if (once != name) return once;
    rest = name;
    return absl::ConsumePrefix(&rest, "input_blocks.") ? Block(rest) : once;
  }

 private:
  // Convolutions have even numbers, with an activation behind each.
  std::string Hint(absl::string_view rest) const {
    const int64_t number = TakeNumber(rest);
    const std::string module = number == 0            ? "conv_in"
                               : number == last_hint_ ? "conv_out"
                                                      : absl::StrCat("blocks.", number / 2 - 1);
    return absl::StrCat("controlnet_cond_embedding.", module, ".", rest);
  }

  static std::string Zero(absl::string_view rest) {
    const int64_t number = TakeNumber(rest);
    TakeNumber(rest);  // each is a list of one
    return absl::StrCat("controlnet_down_blocks.", number, ".", rest);
  }

  // Blocks are counted together, each block's layers and its downsampling.
  std::string Block(absl::string_view rest) const {
    int64_t place = TakeNumber(rest) - 1;
    size_t block = 0;
    while (block + 1 < unet_.blocks.size() && place > unet_.blocks[block].layers) {
      place -= unet_.blocks[block].layers + 1;
      ++block;
    }
    const std::string path = absl::StrCat("down_blocks.", block, ".");
    const int64_t kind = TakeNumber(rest);
    if (kind == 1) return absl::StrCat(path, "attentions.", place, ".", rest);
    if (absl::ConsumePrefix(&rest, "op.")) return absl::StrCat(path, "downsamplers.0.conv.", rest);
    return absl::StrCat(path, "resnets.", place, ".", Renamed(rest, kInResnet));
  }

  const Unet2dConditionConfig& unet_;
  int64_t last_hint_ = -1;
};

}  // namespace

weights::TensorMap WithDiffusersNames(const weights::TensorMap& tensors,
                                      const Unet2dConditionConfig& unet) {
  const LdmControlNames names(tensors, unet);
  if (!names.is_ldm()) return tensors;
  weights::TensorMap renamed;
  for (const auto& [name, tensor] : tensors) renamed.emplace(names.ToDiffusers(name), tensor);
  return renamed;
}

}  // namespace latentd::adapters
