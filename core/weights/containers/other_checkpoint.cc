#include "core/weights/containers/other_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/json.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/weights/containers/file_container.h"
#include "core/weights/containers/safetensors.h"

namespace latentd::weights {
namespace {

namespace fs = std::filesystem;

// Each says what a kind is and how to go on; $0 is the path as it was given.
constexpr char kFuse[] =
    "a LoRA, which is not served by itself: fuse it into its checkpoint once in Python, "
    "pipe = diffusers.DiffusionPipeline.from_pretrained(\"BASE\"); "
    "pipe.load_lora_weights(\"$0\"); pipe.fuse_lora(); pipe.unload_lora_weights(); "
    "pipe.save_pretrained(\"DIR\"), and give DIR";
constexpr char kControlNet[] =
    "a ControlNet, which is not served: give the checkpoint that it belongs to, without it";
constexpr char kAdapter[] =
    "an adapter (IP-Adapter, T2I-Adapter), which is not served: give the checkpoint that it "
    "belongs to, without it";
constexpr char kEmbedding[] =
    "a textual inversion embedding, which is not served: give the checkpoint that it belongs to, "
    "without it";
constexpr char kConvert[] =
    "a single-file checkpoint is converted once in Python: "
    "diffusers.StableDiffusionXLPipeline.from_single_file(\"$0\").save_pretrained(\"DIR\") "
    "(StableDiffusionXLImg2ImgPipeline for a refiner, StableDiffusionPipeline for Stable Diffusion "
    "1 and 2)";
constexpr char kOtherModel[] = ", which is not served: only Stable Diffusion 1, 2 and XL are";

// A part of a checkpoint: the argument of the pipeline that takes it, and what makes it of $0.
std::string Part(absl::string_view what, absl::string_view argument, absl::string_view made_by) {
  return absl::StrCat(what,
                      ", one part of a checkpoint: put it into a whole one in Python, "
                      "diffusers.DiffusionPipeline.from_pretrained(\"BASE\", ",
                      argument, "=", made_by, "(\"$0\")).save_pretrained(\"DIR\"), and give DIR");
}

// Names of classes of pipelines and networks begin with that of their model.
struct OtherModel {
  absl::string_view prefix;
  absl::string_view model;
};
constexpr OtherModel kOtherModels[] = {
    {"Flux", "Flux"},
    {"StableDiffusion3", "Stable Diffusion 3"},
    {"SD3", "Stable Diffusion 3"},
    {"StableCascade", "Stable Cascade"},
    {"Kolors", "Kolors"},
    {"PixArt", "PixArt"},
    {"Sana", "Sana"},
    {"AuraFlow", "AuraFlow"},
    {"QwenImage", "Qwen-Image"},
    {"HunyuanDiT", "HunyuanDiT"},
    {"Chroma", "Chroma"},
    {"LatentConsistencyModel", "a latent consistency model"},
};

std::string ModelOf(absl::string_view class_name) {
  for (const OtherModel& other : kOtherModels) {
    if (absl::StartsWith(class_name, other.prefix)) return std::string(other.model);
  }
  return "";
}

// Tells a network by its class.
std::string DescribeNetwork(absl::string_view class_name) {
  if (absl::StrContains(class_name, "ControlNet")) return kControlNet;
  if (absl::StrContains(class_name, "Adapter")) return kAdapter;
  if (class_name == "UNet2DConditionModel") {
    return Part("a UNet", "unet", "diffusers.UNet2DConditionModel.from_pretrained");
  }
  if (class_name == "AutoencoderKL" || class_name == "AutoencoderTiny") {
    return Part("a VAE", "vae", absl::StrCat("diffusers.", class_name, ".from_pretrained"));
  }
  if (class_name == "CLIPTextModel") {
    return Part("a text encoder", "text_encoder", "transformers.CLIPTextModel.from_pretrained");
  }
  if (class_name == "CLIPTextModelWithProjection") {
    return Part("a text encoder", "text_encoder_2",
                "transformers.CLIPTextModelWithProjection.from_pretrained");
  }
  const std::string model = ModelOf(class_name);
  if (!model.empty())
    return absl::StrCat("a network of ", model, " (", class_name, ")", kOtherModel);
  return absl::StrCat("a ", Excerpt(class_name), ", and no checkpoint");
}

using Names = std::vector<std::string>;

bool AnyContains(const Names& names, absl::string_view part) {
  return absl::c_any_of(names,
                        [&](const std::string& name) { return absl::StrContains(name, part); });
}

bool AnyStartsWith(const Names& names, absl::string_view prefix) {
  return absl::c_any_of(names,
                        [&](const std::string& name) { return absl::StartsWith(name, prefix); });
}

// Tells tensors by their names: the first rule counts of which `test` finds one of `words`. In
// `what`, $0 is the path.
struct NameRule {
  bool (*test)(const Names& names, absl::string_view word);
  std::vector<absl::string_view> words;
  std::string what;
};

std::vector<NameRule> NameRules() {
  const auto of = [](absl::string_view model) {
    return absl::StrCat("a checkpoint of ", model, kOtherModel);
  };
  const std::string unet =
      Part("a UNet", "unet", "diffusers.UNet2DConditionModel.from_single_file");
  const std::string vae = Part("a VAE", "vae", "diffusers.AutoencoderKL.from_single_file");
  return {
      // The spellings of diffusers, PEFT, kohya's scripts and LyCORIS.
      {AnyContains,
       {"lora_A.", "lora_B.", "lora_down.", "lora_up.", "lora.down.", "lora.up.",
        "lora_linear_layer.", "hada_w1_", "lokr_w1", "lora_unet_", "lora_te"},
       kFuse},
      {AnyStartsWith,
       {"controlnet_", "control_model.", "control_", "input_hint_block.", "zero_convs.",
        "nested_controlnet"},
       kControlNet},
      {AnyStartsWith, {"ip_adapter", "image_proj", "adapter."}, kAdapter},
      {AnyStartsWith, {"clip_l", "clip_g", "emb_params"}, kEmbedding},
      {AnyContains, {"double_blocks.", "single_transformer_blocks."}, of("Flux")},
      {AnyContains, {"joint_blocks."}, of("Stable Diffusion 3")},
      // Whole ones of SDXL and of Stable Diffusion 1 and 2: they are converted.
      {AnyStartsWith, {"conditioner.embedders.", "cond_stage_model."}, ""},
      {AnyStartsWith, {"model.diffusion_model.", "down_blocks."}, unet},
      {AnyStartsWith, {"first_stage_model.", "decoder.conv_in.", "encoder.conv_in."}, vae},
      {AnyStartsWith,
       {"text_model.", "text_projection."},
       "a text encoder, one part of a checkpoint: give a whole one"},
  };
}

// Empty where the names do not tell, or tell of a whole checkpoint that is served.
std::string DescribeTensors(const TensorMap& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  for (const NameRule& rule : NameRules()) {
    for (absl::string_view word : rule.words) {
      if (rule.test(names, word)) return rule.what;
    }
  }
  return "";
}

std::optional<std::string> Text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  const nlohmann::json& value = found->is_array() && !found->empty() ? found->front() : *found;
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

constexpr size_t kMaxJsonBytes = 1 << 20;

// By config.json, as diffusers and transformers write it.
std::string DescribeConfig(const std::string& path) {
  const absl::StatusOr<nlohmann::json> config =
      ReadJsonObject(path + "/config.json", kMaxJsonBytes);
  if (!config.ok()) return "";
  for (const char* key : {"_class_name", "architectures"}) {
    if (const auto name = Text(*config, key)) return DescribeNetwork(*name);
  }
  return "";
}

// The safetensors files in a folder, in the order of their names.
std::vector<std::string> SafetensorsIn(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Empty but for a path in a checkpoint's folder, or in one of its folders.
std::string DescribePlace(const std::string& path) {
  fs::path above = fs::path(path).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();  // a slash at the end
  for (int i = 0; i < 2 && above.has_parent_path(); ++i) {
    above = above.parent_path();
    if (!Exists(above / "model_index.json")) continue;
    return absl::StrCat("it is one part of the checkpoint ", above.string(), ": give that");
  }
  return "";
}

std::string ItIs(absl::string_view what, const std::string& path) {
  return absl::StrCat("it is ", absl::StrReplaceAll(what, {{"$0", path}}));
}

}  // namespace

std::string DescribeFile(const std::string& path) {
  const std::string place = DescribePlace(path);
  if (!place.empty()) return place;
  if (const auto file = MappedFile::Open(path); file.ok()) {
    const std::string container = DescribeContainer((*file)->bytes(), path);
    if (!container.empty()) return absl::StrCat("it is ", container);
  }
  const absl::StatusOr<TensorMap> tensors = ReadSafetensors(path);
  if (!tensors.ok()) return absl::StrCat("it cannot be read: ", tensors.status().message());
  const std::string what = DescribeTensors(*tensors);
  return what.empty() ? absl::StrReplaceAll(kConvert, {{"$0", path}}) : ItIs(what, path);
}

std::string DescribeFolder(const std::string& path) {
  const std::string place = DescribePlace(path);
  if (!place.empty()) return place;
  const std::string network = DescribeConfig(path);
  if (!network.empty()) return ItIs(network, path);
  if (Exists(fs::path(path) / "adapter_config.json")) return ItIs(kFuse, path);
  const std::vector<std::string> files = SafetensorsIn(path);
  if (files.empty()) return "";
  return absl::StrCat("of its file ", files.front(), ": ", DescribeFile(files.front()));
}

std::string DescribePipelineClass(absl::string_view class_name) {
  const std::string model = ModelOf(class_name);
  return model.empty() ? "" : absl::StrCat("a checkpoint of ", model, kOtherModel);
}

}  // namespace latentd::weights
