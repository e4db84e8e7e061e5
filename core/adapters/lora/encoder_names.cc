#include "core/adapters/lora/encoder_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace latentd::adapters {
namespace {

constexpr absl::string_view kTextModel = "text_model.";
constexpr absl::string_view kLayers = "text_model.encoder.layers.";

struct Spelled {
  absl::string_view transformers, other;
};

// As diffusers' attention processors called them.
constexpr Spelled kProcessors[] = {{".self_attn.q_proj", ".self_attn.to_q"},
                                   {".self_attn.k_proj", ".self_attn.to_k"},
                                   {".self_attn.v_proj", ".self_attn.to_v"},
                                   {".self_attn.out_proj", ".self_attn.to_out"}};

// In a layer of OpenCLIP.
constexpr Spelled kOpenClip[] = {{".layer_norm1", ".ln_1"},
                                 {".layer_norm2", ".ln_2"},
                                 {".mlp.fc1", ".mlp.c_fc"},
                                 {".mlp.fc2", ".mlp.c_proj"},
                                 {".self_attn.out_proj", ".attn.out_proj"}};

// The path of the layer's part in OpenCLIP; empty: the module is in no layer.
std::string InResblock(absl::string_view module, const Spelled& part) {
  if (!absl::ConsumePrefix(&module, kLayers)) return "";
  if (!absl::ConsumeSuffix(&module, part.transformers)) return "";
  return absl::StrCat("transformer.resblocks.", module, part.other);
}

std::string OpenClipSpelling(absl::string_view module) {
  if (module == "text_model.final_layer_norm") return "ln_final";
  for (const Spelled& part : kOpenClip) {
    std::string path = InResblock(module, part);
    if (!path.empty()) return path;
  }
  return "";
}

}  // namespace

std::vector<std::string> EncoderSpellings(absl::string_view module) {
  std::vector<std::string> spellings = {std::string(module)};
  for (const Spelled& part : kProcessors) {
    absl::string_view layer = module;
    if (!absl::ConsumeSuffix(&layer, part.transformers)) continue;
    spellings.push_back(absl::StrCat(layer, part.other));
  }
  for (size_t i = 0, count = spellings.size(); i < count; ++i) {
    absl::string_view bare = spellings[i];
    if (absl::ConsumePrefix(&bare, kTextModel)) spellings.emplace_back(bare);
  }
  std::string open_clip = OpenClipSpelling(module);
  if (!open_clip.empty()) spellings.push_back(std::move(open_clip));
  return spellings;
}

std::string OpenClipProjection(absl::string_view module) {
  return InResblock(module, {".self_attn.q_proj", ".attn.in_proj"});
}

}  // namespace latentd::adapters
