#include "core/adapters/lora/lora_keys.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace latentd::adapters {
namespace {

struct SuffixRow {
  absl::string_view suffix;
  Role role;
};

// None ends in another one of another role.
constexpr SuffixRow kSuffixes[] = {
    // kohya's scripts and LyCORIS
    {".lora_down.weight", Role::kDown},
    {".lora_up.weight", Role::kUp},
    {".lora_mid.weight", Role::kMid},
    // PEFT and diffusers
    {".lora_A.weight", Role::kDown},
    {".lora_B.weight", Role::kUp},
    {".lora_A", Role::kDown},
    {".lora_B", Role::kUp},
    {".lora_B.bias", Role::kUpBias},
    // diffusers before PEFT: modules, attention processors, text encoders
    {".lora.down.weight", Role::kDown},
    {".lora.up.weight", Role::kUp},
    {"_lora.down.weight", Role::kDown},
    {"_lora.up.weight", Role::kUp},
    {".lora_linear_layer.down.weight", Role::kDown},
    {".lora_linear_layer.up.weight", Role::kUp},
    {".alpha", Role::kAlpha},
    {".scale", Role::kScale},
    {".dora_scale", Role::kDoraScale},
    {".lora_magnitude_vector", Role::kPeftMagnitude},
    {".lora_magnitude_vector.weight", Role::kPeftMagnitude},
    {".magnitude", Role::kPeftMagnitude},
    {".hada_w1_a", Role::kHadaW1A},
    {".hada_w1_b", Role::kHadaW1B},
    {".hada_w2_a", Role::kHadaW2A},
    {".hada_w2_b", Role::kHadaW2B},
    {".hada_t1", Role::kHadaT1},
    {".hada_t2", Role::kHadaT2},
    {".lokr_w1", Role::kLokrW1},
    {".lokr_w1_a", Role::kLokrW1A},
    {".lokr_w1_b", Role::kLokrW1B},
    {".lokr_w2", Role::kLokrW2},
    {".lokr_w2_a", Role::kLokrW2A},
    {".lokr_w2_b", Role::kLokrW2B},
    {".lokr_t2", Role::kLokrT2},
    {".diff", Role::kDiff},
    {".diff_b", Role::kDiffBias},
    {".w_norm", Role::kDiff},
    {".b_norm", Role::kDiffBias},
};

enum class At : uint8_t { kStart, kEnd, kAnywhere, kWhole };

struct KindRow {
  At at;
  absl::string_view word;
  absl::string_view kind;
};

constexpr absl::string_view kGlora = "GLoRA";
constexpr absl::string_view kCustom = "Custom Diffusion";
constexpr absl::string_view kSparseBias = "LyCORIS' sparse biases";
constexpr absl::string_view kFlux = "a LoRA for FLUX";
constexpr absl::string_view kStable3 = "a LoRA for Stable Diffusion 3";
constexpr absl::string_view kTransformer =
    "a LoRA for FLUX, Stable Diffusion 3 or another model "
    "without a UNet";
constexpr absl::string_view kCascade = "a LoRA for Stable Cascade";
constexpr absl::string_view kLllite = "ControlNet-LLLite";
constexpr absl::string_view kIpAdapter = "an IP-Adapter";
constexpr absl::string_view kInversion = "a textual inversion embedding";

// The first row counts.
constexpr KindRow kKinds[] = {
    {At::kWhole, "lora_controlnet", "a Control-LoRA, which is a ControlNet"},
    {At::kStart, "lllite_", kLllite},
    {At::kStart, "bundle_emb.", "embeddings inside a LoRA (bundle_emb)"},
    {At::kStart, "ip_adapter.", kIpAdapter},
    {At::kStart, "image_proj.", kIpAdapter},
    {At::kWhole, "emb_params", kInversion},
    {At::kWhole, "clip_l", kInversion},
    {At::kWhole, "clip_g", kInversion},
    {At::kStart, "lora_prior_", kCascade},
    {At::kStart, "lora_unet_double_blocks_", kFlux},
    {At::kStart, "lora_unet_single_blocks_", kFlux},
    {At::kStart, "diffusion_model.double_blocks.", kFlux},
    {At::kStart, "diffusion_model.single_blocks.", kFlux},
    {At::kStart, "lora_unet_joint_blocks_", kStable3},
    {At::kStart, "diffusion_model.joint_blocks.", kStable3},
    {At::kStart, "lora_te3_", kStable3},
    {At::kStart, "text_encoder_3.", kStable3},
    {At::kStart, "lora_transformer_", kTransformer},
    {At::kStart, "transformer.transformer_blocks.", kTransformer},
    {At::kStart, "transformer.single_transformer_blocks.", kTransformer},
    {At::kStart, "transformer_blocks.", kTransformer},
    {At::kAnywhere, "motion_modules.", "a LoRA for AnimateDiff's motion modules"},
    {At::kAnywhere, "_custom_diffusion", kCustom},
    {At::kEnd, ".on_input", "IA3"},
    {At::kAnywhere, ".ia3_l", "IA3"},
    {At::kEnd, ".a1.weight", kGlora},
    {At::kEnd, ".a2.weight", kGlora},
    {At::kEnd, ".b1.weight", kGlora},
    {At::kEnd, ".b2.weight", kGlora},
    {At::kEnd, ".bm.weight", kGlora},
    {At::kAnywhere, ".oft_R", "OFT of PEFT (oft_R)"},
    {At::kAnywhere, ".boft_", "BOFT"},
    {At::kEnd, ".oft_blocks", "OFT"},
    {At::kEnd, ".oft_diag", "OFT"},
    {At::kEnd, ".rescale", "OFT (rescale)"},
    {At::kEnd, ".set_weight", "whole weights in the place of the model's (set_weight)"},
    {At::kEnd, ".reshape_weight", "a LoRA that changes a weight's shape (reshape_weight)"},
    {At::kEnd, ".bias_indices", kSparseBias},
    {At::kEnd, ".bias_values", kSparseBias},
    {At::kEnd, ".bias_size", kSparseBias},
    {At::kAnywhere, ".lora_embedding_", "PEFT's LoRA of embeddings (lora_embedding_A)"},
    {At::kAnywhere, "vera_lambda_", "VeRA"},
    {At::kEnd, ".lora_E", "AdaLoRA"},
    {At::kStart, "model.diffusion_model.input_blocks.0.0.weight", "a whole checkpoint"},
};

bool IsAt(absl::string_view key, const KindRow& row) {
  switch (row.at) {
    case At::kStart:
      return absl::StartsWith(key, row.word);
    case At::kEnd:
      return absl::EndsWith(key, row.word);
    case At::kAnywhere:
      return absl::StrContains(key, row.word);
    case At::kWhole:
      return key == row.word;
  }
  return false;
}

// "X.lora_A.default.weight" -> "X.lora_A.weight": the word behind these, if it is none of PEFT's.
std::string WithoutAdapterName(const std::string& key) {
  for (const absl::string_view word : {".lora_A.", ".lora_B.", ".lora_magnitude_vector."}) {
    const size_t at = absl::string_view(key).rfind(word);
    if (at == std::string::npos) continue;
    const absl::string_view head = absl::string_view(key).substr(0, at + word.size() - 1);
    const absl::string_view rest = absl::string_view(key).substr(at + word.size());
    const size_t dot = rest.rfind('.');
    const absl::string_view last = dot == rest.npos ? rest : rest.substr(dot + 1);
    if (last == "weight" || last == "bias") return absl::StrCat(head, ".", last);
    return std::string(head);
  }
  return key;
}

// PEFT wraps a whole network, which then may be a component.
std::string WithoutWrapper(absl::string_view key) {
  constexpr absl::string_view kWrapper = "base_model.model.";
  for (const absl::string_view component : {"", "unet.", "text_encoder.", "text_encoder_2."}) {
    absl::string_view rest = key;
    if (absl::ConsumePrefix(&rest, component) && absl::ConsumePrefix(&rest, kWrapper)) {
      return absl::StrCat(component, rest);
    }
  }
  return std::string(key);
}

std::string WithDotBefore(absl::string_view word, std::string key) {
  const size_t at = absl::string_view(key).rfind(word);
  if (at != std::string::npos) key[at] = '.';
  return key;
}

}  // namespace

bool IsLeftover(absl::string_view key) { return absl::StartsWith(key, "_aux."); }

std::string NormalKey(absl::string_view key) {
  std::string normal = WithoutAdapterName(WithoutWrapper(key));
  normal = absl::StrReplaceAll(normal, {{".processor.", "."}});
  return WithDotBefore("_lokr_", WithDotBefore("_hada_", std::move(normal)));
}

std::optional<LoraKey> SplitKey(absl::string_view key) {
  for (const SuffixRow& row : kSuffixes) {
    absl::string_view module = key;
    if (absl::ConsumeSuffix(&module, row.suffix) && !module.empty()) {
      return LoraKey{std::string(module), row.role};
    }
  }
  return std::nullopt;
}

std::string OtherKind(absl::string_view key, const weights::StoredTensor& tensor) {
  constexpr int kButterflyRank = 4;
  if (absl::EndsWith(key, ".oft_blocks") && tensor.data.shape().rank() == kButterflyRank) {
    return "BOFT";
  }
  for (const KindRow& row : kKinds) {
    if (IsAt(key, row)) return std::string(row.kind);
  }
  return "";
}

}  // namespace latentd::adapters
