#include "core/adapters/ip_adapter/ip_adapter.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/adapters/ip_adapter/ip_adapter_weights.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/device/dtype.h"
#include "core/graph/graph_builder.h"
#include "core/networks/clip_vision.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_set.h"

namespace latentd::adapters {
namespace {

namespace fs = std::filesystem;

using networks::ClipVisionConfig;
using networks::IpAdapterConfig;

constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr absl::string_view kTensorFiles[] = {"model.safetensors", "model.fp16.safetensors"};
constexpr absl::string_view kConfigFile = "config.json";
constexpr absl::string_view kEncoderComponent = "image_encoder";
constexpr int64_t kColours = 3;
// Folders of h94/IP-Adapter among them, whose SD 1.5 files read either.
constexpr absl::string_view kEncoderFolders[] = {"image_encoder", "models/image_encoder",
                                                 "sdxl_models/image_encoder"};

// Adds the encoder of that folder, if it has one, by its path below `root`, as clients may read it.
void OpenEncoder(const fs::path& folder, const fs::path& root,
                 const weights::DigestArchive& digests, std::vector<ImageEncoderFile>& encoders) {
  std::error_code error;
  for (const absl::string_view name : kTensorFiles) {
    const std::string path = (folder / std::string(name)).string();
    if (!fs::is_regular_file(path, error)) continue;
    ImageEncoderFile& encoder = encoders.emplace_back();
    encoder.path = fs::path(path).lexically_relative(root).string();
    absl::StatusOr<weights::SafetensorsFile> read = weights::ReadSafetensorsFile(path, digests);
    absl::StatusOr<std::string> config =
        ReadFile((folder / std::string(kConfigFile)).string(), kMostConfigBytes);
    for (const absl::Status& status : {read.status(), config.status()}) {
      if (status.ok()) continue;
      encoder.problem = absl::StrReplaceAll(
          status.message(), {{folder.string(), folder.lexically_relative(root).string()}});
      return;
    }
    encoder.config = *std::move(config);
    encoder.tensors = std::move(read->tensors);
    return;
  }
}

bool ReadsPatches(const IpAdapterConfig& config) {
  return config.projection == IpAdapterConfig::Projection::kResampler;
}

// INVALID_ARGUMENT names the tensors that the encoder needs and the file lacks.
absl::Status CheckEncoderTensors(const ClipVisionConfig& config, bool of_patches,
                                 const weights::TensorMap& tensors) {
  graph::GraphBuilder b;
  const graph::Value pixels =
      b.Input("pixels", device::DType::kF32, {1, kColours, config.image_size, config.image_size},
              graph::Rate::kStep);
  b.Output("image", of_patches ? networks::ClipVisionStates(b, config, kEncoderComponent, pixels,
                                                            /*left_out=*/1)
                               : networks::ClipVision(b, config, kEncoderComponent, pixels));
  ASSIGN_OR_RETURN(const graph::Graph network, std::move(b).Build());
  weights::WeightSet set(/*store=*/nullptr);
  set.Add(kEncoderComponent, tensors);
  return set.Check(network);
}

// The width of an encoder's result as the adapter reads it.
int64_t FeaturesOf(const ClipVisionConfig& encoder, const IpAdapterConfig& config) {
  return ReadsPatches(config) ? encoder.hidden_size : encoder.projection_dim;
}

std::string Wanted(const IpAdapterConfig& config) {
  const bool of_patches = ReadsPatches(config);
  constexpr int64_t kOfVitH = 1024, kOfVitHPatches = 1280, kOfBigG = 1280;
  absl::string_view known;
  if (config.image_features == (of_patches ? kOfVitHPatches : kOfVitH)) {
    known = " (ViT-H, which is models/image_encoder of h94/IP-Adapter)";
  } else if (!of_patches && config.image_features == kOfBigG) {
    known = " (ViT-bigG, which is sdxl_models/image_encoder of h94/IP-Adapter)";
  }
  return absl::StrCat("it reads ", of_patches ? "patches" : "embeddings", " of ",
                      config.image_features, " features", known);
}

// The encoder's configuration. INVALID_ARGUMENT: why the adapter cannot read it.
absl::StatusOr<ClipVisionConfig> ConfigOfEncoder(const ImageEncoderFile& file,
                                                 const IpAdapterConfig& adapter) {
  if (!file.problem.empty()) return absl::InvalidArgumentError(file.problem);
  ASSIGN_OR_RETURN(ClipVisionConfig config,
                   networks::ParseClipVisionConfig(file.config, file.path));
  if (config.num_channels != kColours) {
    return absl::InvalidArgumentError(
        absl::StrCat("that of ", file.path, " reads ", config.num_channels, " channels"));
  }
  const int64_t features = FeaturesOf(config, adapter);
  if (features != adapter.image_features) {
    return absl::InvalidArgumentError(absl::StrCat("that of ", file.path, " has ", features));
  }
  const absl::Status fits = CheckEncoderTensors(config, ReadsPatches(adapter), file.tensors);
  if (fits.ok()) return config;
  return absl::InvalidArgumentError(absl::StrCat("that of ", file.path, ": ", fits.message()));
}

// Sets the first encoder that fits.
absl::Status SetEncoder(absl::Span<const ImageEncoderFile> encoders, IpAdapter& adapter) {
  std::string others;
  for (const ImageEncoderFile& file : encoders) {
    const absl::StatusOr<ClipVisionConfig> config = ConfigOfEncoder(file, adapter.config);
    if (config.ok()) {
      adapter.encoder = *config;
      adapter.encoder_tensors = file.tensors;
      adapter.encoder_path = file.path;
      adapter.encoder_stamp = file.stamp;
      adapter.encoder_config = file.config;
      return absl::OkStatus();
    }
    absl::StrAppend(&others, "; ", config.status().message());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(adapter.path, ": no image encoder fits: ", Wanted(adapter.config),
                   ", of an encoder in a folder image_encoder beside it or above",
                   others.empty() ? ", and there is none" : others));
}

}  // namespace

absl::string_view IpAdapter::variant() const { return ReadsPatches(config) ? "plus" : "base"; }

std::vector<int64_t> IpAdapter::image_shape() const {
  const int64_t features = FeaturesOf(encoder, config);
  if (ReadsPatches(config)) return {encoder.tokens(), features};
  return {features};
}

int64_t IpAdapter::image_bytes() const {
  int64_t given = 1;
  for (const int64_t side : image_shape()) given *= side;
  const int64_t pixels = encoder.num_channels * encoder.image_size * encoder.image_size;
  return (pixels + given) * int64_t{sizeof(float)};
}

std::vector<std::string> ImageEncoderFolders(const std::string& path, const std::string& root) {
  std::vector<std::string> folders;
  const fs::path top(root);
  std::error_code error;
  fs::path folder(path);
  if (!fs::is_directory(folder, error)) folder = folder.parent_path();
  const fs::path below = folder.lexically_relative(top);
  // Folders from that of the adapter up to the root, both included.
  auto levels = below == "." ? 0 : std::distance(below.begin(), below.end());
  for (; levels >= 0; --levels, folder = folder.parent_path()) {
    for (const absl::string_view name : kEncoderFolders) {
      folders.push_back((folder / std::string(name)).string());
    }
  }
  return folders;
}

std::vector<std::string> ImageEncoderFiles(const std::string& folder) {
  std::vector<std::string> files;
  absl::c_transform(kTensorFiles, std::back_inserter(files),
                    [&](absl::string_view name) { return absl::StrCat(folder, "/", name); });
  files.push_back(absl::StrCat(folder, "/", kConfigFile));
  return files;
}

std::vector<ImageEncoderFile> OpenImageEncoders(const std::string& path, const std::string& root,
                                                const weights::DigestArchive& digests) {
  std::vector<ImageEncoderFile> encoders;
  for (const std::string& folder : ImageEncoderFolders(path, root)) {
    OpenEncoder(folder, root, digests, encoders);
  }
  return encoders;
}

absl::StatusOr<IpAdapter> MakeIpAdapter(std::string name, const LoraFile& file,
                                        absl::Span<const ImageEncoderFile> encoders,
                                        const networks::Unet2dConditionConfig& unet) {
  IpAdapter adapter{.name = std::move(name), .path = file.path};
  const auto refuse = [&](const absl::Status& why) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": ", why.message()));
  };
  const auto config = ConfigOfTensors(file.tensors);
  if (!config.ok()) return refuse(config.status());
  adapter.config = *config;
  if (config->text_features != unet.cross_attention_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, ": is an IP-Adapter for another model: it makes tokens of ",
        config->text_features, " features, and the model's UNet reads ", unet.cross_attention_dim));
  }
  adapter.tensors = WithModuleNames(file.tensors, unet);
  const absl::Status fits = CheckIpAdapterTensors(adapter.config, unet, adapter.tensors);
  if (!fits.ok()) return refuse(fits);
  RETURN_IF_ERROR(SetEncoder(encoders, adapter));
  return adapter;
}

}  // namespace latentd::adapters
