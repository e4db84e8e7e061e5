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
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/containers/single_file.h"

namespace latentd::weights {
namespace {

namespace fs = std::filesystem;

// Each says what a kind is and how to go on; $0 is the path as it was given.
constexpr char kLora[] =
    "a LoRA, which is no checkpoint: give the one that it belongs to, and this with --lora=$0";
constexpr char kControlNet[] =
    "a ControlNet, which is not served: give the checkpoint that it belongs to, without it";
constexpr char kAdapter[] =
    "an adapter (IP-Adapter, T2I-Adapter), which is not served: give the checkpoint that it "
    "belongs to, without it";
constexpr char kOtherModel[] = ", which is not served: only Stable Diffusion 1, 2 and XL are";

// A part of a checkpoint, which its flag takes.
std::string Part(absl::string_view what, absl::string_view flag) {
  return absl::StrCat(what, ", one part of a checkpoint: give a whole one, and this part with --",
                      flag, "=$0");
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
  if (class_name == "UNet2DConditionModel") return Part("a UNet", "unet");
  if (class_name == "AutoencoderKL") return Part("a VAE", "vae");
  if (class_name == "AutoencoderTiny") return Part("a tiny VAE", "vae-tiny");
  if (class_name == "CLIPTextModel") return Part("a text encoder", "text-encoder");
  if (class_name == "CLIPTextModelWithProjection") {
    return Part("a text encoder", "text-encoder-2");
  }
  const std::string model = ModelOf(class_name);
  if (!model.empty())
    return absl::StrCat("a network of ", model, " (", class_name, ")", kOtherModel);
  return absl::StrCat("a ", Excerpt(class_name), ", and no checkpoint");
}

std::optional<std::string> Text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  const nlohmann::json& value = found->is_array() && !found->empty() ? found->front() : *found;
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

constexpr size_t kMaxJsonBytes = 1 << 20;

std::string DescribeConfig(const std::string& path) {
  const absl::StatusOr<nlohmann::json> config =
      ReadJsonObject(path + "/config.json", kMaxJsonBytes);
  const std::string class_name = config.ok() ? ClassNamedBy(*config) : "";
  return class_name.empty() ? "" : DescribeNetwork(class_name);
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

// Says what the only checkpoint is that a folder has.
std::string DescribeFile(const std::string& path) {
  const absl::StatusOr<SafetensorsFile> file = ReadSafetensorsFile(path);
  if (!file.ok()) return std::string(file.status().message());
  const auto single = RecognizeSingleFile(path, file->tensors, file->metadata);
  if (!single.ok()) return std::string(single.status().message());
  return absl::StrCat(path, " in it is a checkpoint in one file: give that");
}

std::string ItIs(absl::string_view what, const std::string& path) {
  return absl::StrCat("it is ", absl::StrReplaceAll(what, {{"$0", path}}));
}

}  // namespace

std::string ClassNamedBy(const nlohmann::json& config) {
  for (const char* key : {"_class_name", "architectures"}) {
    if (auto name = Text(config, key)) return *std::move(name);
  }
  return "";
}

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

std::string DescribeFolder(const std::string& path) {
  const std::string place = DescribePlace(path);
  if (!place.empty()) return place;
  const std::string network = DescribeConfig(path);
  if (!network.empty()) return ItIs(network, path);
  if (Exists(fs::path(path) / "adapter_config.json")) return ItIs(kLora, path);
  const std::vector<std::string> files = SafetensorsIn(path);
  if (files.empty()) return "";
  return DescribeFile(files.front());
}

std::string DescribePipelineClass(absl::string_view class_name) {
  const std::string model = ModelOf(class_name);
  return model.empty() ? "" : absl::StrCat("a checkpoint of ", model, kOtherModel);
}

}  // namespace latentd::weights
