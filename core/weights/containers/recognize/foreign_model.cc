#include "core/weights/containers/recognize/foreign_model.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/text.h"

namespace latentd::weights {
namespace {

constexpr absl::string_view kModelsServed =
    ", which is not served: only Stable Diffusion 1, 2 and XL are";
constexpr absl::string_view kMerge =
    ", which is no checkpoint: give the one that it belongs to, and this file with --lora";
constexpr absl::string_view kAddOn =
    ", which is no checkpoint: give the checkpoint that it belongs to";

// The place of a word in a name: at its beginning, anywhere, or all of it.
enum class At : uint8_t { kStart, kAnywhere, kWhole };

struct Clue {
  At at;
  absl::string_view word;
};

// A kind of file is known by clues that are all there. The first row counts.
struct ForeignRow {
  absl::string_view title;
  absl::string_view advice;
  std::vector<Clue> clues;
};

std::vector<ForeignRow> AddOnRows() {
  std::vector<ForeignRow> rows;
  // The spellings of diffusers, PEFT, kohya's scripts and LyCORIS.
  for (const char* word : {"lora_unet_", "lora_te", "lora_transformer_", "lycoris_", "lora_A.",
                           "lora_B.", "lora_down.", "lora_up.", "lora.down.", "lora.up.",
                           "lora_linear_layer.", "hada_w1_", "lokr_w1"}) {
    rows.push_back({"a LoRA", kMerge, {{At::kAnywhere, word}}});
  }
  for (const char* word : {"control_model.", "controlnet_", "input_hint_block.", "zero_convs.",
                           "nested_controlnet", "control_add_embedding."}) {
    rows.push_back({"a ControlNet", kAddOn, {{At::kStart, word}}});
  }
  for (const char* word : {"ip_adapter.", "image_proj."}) {
    rows.push_back({"an IP-Adapter", kAddOn, {{At::kStart, word}}});
  }
  rows.push_back({"a T2I-Adapter", kAddOn, {{At::kStart, "adapter."}}});
  for (const char* word : {"emb_params", "string_to_param", "clip_l", "clip_g"}) {
    rows.push_back({"a textual inversion embedding", kAddOn, {{At::kWhole, word}}});
  }
  rows.push_back({"AnimateDiff's motion modules", kAddOn, {{At::kAnywhere, "motion_modules."}}});
  return rows;
}

// Each is tried with and without the prefix of a UNet.
std::vector<ForeignRow> ModelRows() {
  const auto start = [](absl::string_view word) { return Clue{At::kStart, word}; };
  const auto anywhere = [](absl::string_view word) { return Clue{At::kAnywhere, word}; };
  return {
      {"Stable Diffusion 3.5 Large", kModelsServed, {start("joint_blocks.37.")}},
      {"Stable Diffusion 3 or 3.5", kModelsServed, {start("joint_blocks.")}},
      {"Chroma", kModelsServed, {start("double_blocks."), start("distilled_guidance_layer.")}},
      {"FLUX.2", kModelsServed, {start("double_blocks."), start("double_stream_modulation_img.")}},
      {"FLUX.2",
       kModelsServed,
       {start("double_blocks."), start("single_stream_modulation.lin.weight")}},
      {"HunyuanVideo", kModelsServed, {start("txt_in.individual_token_refiner.")}},
      {"FLUX", kModelsServed, {start("double_blocks.")}},
      {"FLUX", kModelsServed, {start("single_transformer_blocks.")}},
      {"Stable Diffusion 3 or FLUX",
       kModelsServed,
       {start("transformer_blocks.0.attn.add_q_proj."), start("x_embedder.")}},
      {"Stable Diffusion 3",
       kModelsServed,
       {start("transformer_blocks.0.attn.add_q_proj."), start("pos_embed.")}},
      {"AuraFlow", kModelsServed, {start("double_layers.0.attn.w1q.")}},
      {"Hunyuan-DiT", kModelsServed, {start("mlp_t5.")}},
      {"Sana", kModelsServed, {start("blocks.0.cross_attn.q_linear.")}},
      {"LTX-Video", kModelsServed, {start("patchify_proj.")}},
      {"PixArt", kModelsServed, {start("adaln_single.emb.")}},
      {"Wan", kModelsServed, {start("head.modulation")}},
      {"Wan", kModelsServed, {start("blocks.0.cross_attn.norm_k.")}},
      {"Lumina 2 or Z-Image", kModelsServed, {start("cap_embedder.")}},
      {"Qwen-Image", kModelsServed, {start("transformer_blocks.0.img_mod.")}},
      {"Stable Cascade", kModelsServed, {start("clip_txt_mapper.")}},
      {"Stable Cascade", kModelsServed, {start("clf.1.")}},
      {"Mochi", kModelsServed, {start("t5_yproj.")}},
      {"Stable Video Diffusion", kModelsServed, {start("input_blocks.1.0.time_stack.")}},
      {"Stable Video Diffusion", kModelsServed, {start("input_blocks.1.1.time_stack.")}},
      {"Stable Video Diffusion", kModelsServed, {anywhere(".time_mixer.mix_factor")}},
      {"Stable Video Diffusion", kModelsServed, {anywhere("temporal_transformer_blocks.")}},
      {"Stable Zero123", kModelsServed, {start("cc_projection.")}},
      {"Stable unCLIP", kModelsServed, {start("embedder.model.visual.")}},
      {"Stable Diffusion 2's depth model", kModelsServed, {start("depth_model.")}},
      {"AltDiffusion", kModelsServed, {start("cond_stage_model.roberta.")}},
      {"the x4 upscaler", kModelsServed, {start("label_emb.weight")}},
      {"GLIGEN", kModelsServed, {start("position_net.")}},
  };
}

// Names with and without the prefix that they have beside other components.
std::vector<absl::string_view> SortedNames(const TensorMap& tensors) {
  std::vector<absl::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
    absl::string_view bare = name;
    for (absl::string_view prefix : {"model.diffusion_model.", "diffusion_model.", "unet."}) {
      if (absl::ConsumePrefix(&bare, prefix)) names.push_back(bare);
    }
  }
  absl::c_sort(names);
  return names;
}

bool HasClue(const std::vector<absl::string_view>& names, const Clue& clue) {
  if (clue.at != At::kAnywhere) {
    const auto first = absl::c_lower_bound(names, clue.word);
    if (first == names.end()) return false;
    return clue.at == At::kWhole ? *first == clue.word : absl::StartsWith(*first, clue.word);
  }
  return absl::c_any_of(names,
                        [&](absl::string_view name) { return absl::StrContains(name, clue.word); });
}

// The title of the first row of which all clues are there.
const ForeignRow* FindRow(const std::vector<ForeignRow>& rows,
                          const std::vector<absl::string_view>& names) {
  const auto found = absl::c_find_if(rows, [&](const ForeignRow& row) {
    return absl::c_all_of(row.clues, [&](const Clue& clue) { return HasClue(names, clue); });
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string NotServed(absl::string_view model) {
  return absl::StrCat("a checkpoint of ", model, kModelsServed);
}

}  // namespace

std::string DescribeForeignTensors(const TensorMap& tensors) {
  const std::vector<absl::string_view> names = SortedNames(tensors);
  static const auto& add_ons = *new std::vector<ForeignRow>(AddOnRows());
  if (const ForeignRow* row = FindRow(add_ons, names)) return absl::StrCat(row->title, row->advice);
  static const auto& models = *new std::vector<ForeignRow>(ModelRows());
  if (const ForeignRow* row = FindRow(models, names)) {
    return absl::StrCat("a checkpoint of ", row->title, row->advice);
  }
  return "";
}

std::string DescribeForeignUnet(int64_t in_channels, int64_t added_features) {
  if (in_channels == 8 && added_features == 768) return NotServed("Stable Video Diffusion");
  if (in_channels == 8 && (added_features == 256 || added_features == 1280)) {
    return NotServed("SV3D");
  }
  if (added_features == 1536 || added_features == 2048) return NotServed("Stable unCLIP");
  constexpr int64_t kPlain = 4, kInpainting = 9;
  if (in_channels == kPlain || in_channels == kInpainting) return "";
  if (in_channels == 5) return NotServed("Stable Diffusion 2's depth model");
  if (in_channels == 7) return NotServed("the x4 upscaler");
  if (in_channels == 8) return NotServed("InstructPix2Pix");
  return absl::StrCat("a checkpoint with a UNet of ", in_channels,
                      " input channels, which is not served: those of Stable Diffusion have 4, or "
                      "9 for inpainting");
}

std::string DescribeQuantization(const TensorMap& tensors) {
  struct Marker {
    absl::string_view end, what;
  };
  constexpr absl::string_view kComfy = "has weights that ComfyUI has quantised";
  constexpr absl::string_view kBits = "has weights that bitsandbytes has quantised";
  constexpr Marker kMarkers[] = {{".comfy_quant", kComfy},
                                 {".absmax", kBits},
                                 {".quant_map", kBits},
                                 {".quant_state.bitsandbytes__nf4", kBits},
                                 {".quant_state.bitsandbytes__fp4", kBits}};
  for (const Marker& marker : kMarkers) {
    // The first by name, so that the message is the same for the same file.
    const std::string* first = nullptr;
    for (const auto& [name, tensor] : tensors) {
      if (absl::EndsWith(name, marker.end) && (first == nullptr || name < *first)) first = &name;
    }
    if (first == nullptr) continue;
    return absl::StrCat(marker.what, " (", Excerpt(*first, 200),
                        "), which cannot be read: give the file that was made before, in F16, "
                        "BF16 or F32");
  }
  return "";
}

}  // namespace latentd::weights
