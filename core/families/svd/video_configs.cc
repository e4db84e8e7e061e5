#include "core/families/svd/video_configs.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"

namespace latentd::families::svd {
namespace {

using weights::Checkpoint;

constexpr size_t kMaxPreprocessorBytes = 1 << 20;
constexpr size_t kMostFieldsNamed = 12;

// CLIP's, which transformers has where the file says nothing.
constexpr std::array<float, 3> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array<float, 3> kClipStd = {0.26862954f, 0.26130258f, 0.27577711f};

template <typename... Parts>
absl::Status RefusePart(const Checkpoint& checkpoint, const char* component,
                        const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(checkpoint.ConfigName(component), ": ", parts...));
}

void WarnOfFields(const std::string& file, const std::vector<std::string>& fields,
                  VideoConfigs& configs) {
  if (fields.empty()) return;
  configs.warnings.push_back(absl::StrCat(
      file, ": fields that are not known, and ignored: ", ListSome(fields, kMostFieldsNamed)));
}

absl::Status ReadVideoScheduler(const Checkpoint& checkpoint, VideoConfigs& configs) {
  const std::string file = checkpoint.ConfigName("scheduler");
  ASSIGN_OR_RETURN(const std::string text, checkpoint.SchedulerConfigText());
  const auto found = checkpoint.components().find("scheduler");
  const auto in_file = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", status.message()));
  };
  const auto parsed = schedulers::SchedulerFile::Parse(
      text, found == checkpoint.components().end() ? "" : found->second.class_name);
  if (!parsed.ok()) return in_file(parsed.status());
  auto config = parsed->With({});
  if (!config.ok()) return in_file(config.status());
  configs.scheduler = *std::move(config);
  WarnOfFields(file, configs.scheduler.unknown_fields, configs);
  return absl::OkStatus();
}

// Three numbers, above `least`; those there already where the file does not say.
absl::Status ReadColours(const nlohmann::json& config, const std::string& file, const char* field,
                         float least, std::array<float, 3>& colours) {
  const auto value = config.find(field);
  if (value == config.end() || value->is_null()) return absl::OkStatus();
  bool right = value->is_array() && value->size() == colours.size();
  for (size_t i = 0; right && i < colours.size(); ++i) {
    right = (*value)[i].is_number();
    if (right) colours[i] = (*value)[i].get<float>();
    right = right && colours[i] > least;
  }
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": field ", field, " must be three numbers above ", least));
}

// The pipeline overrules all else that the file says.
absl::Status ReadPreprocessor(const Checkpoint& checkpoint, VideoConfigs& configs) {
  configs.image_mean = kClipMean;
  configs.image_std = kClipStd;
  if (checkpoint.index() == checkpoint.path()) return absl::OkStatus();  // a single file
  const std::string file =
      absl::StrCat(checkpoint.path(), "/feature_extractor/preprocessor_config.json");
  const auto config = ReadJsonObject(file, kMaxPreprocessorBytes, checkpoint.reader());
  if (absl::IsNotFound(config.status())) return absl::OkStatus();
  RETURN_IF_ERROR(config.status());
  RETURN_IF_ERROR(ReadColours(*config, file, "image_mean", -1, configs.image_mean));
  return ReadColours(*config, file, "image_std", 0, configs.image_std);
}

absl::Status ReadNetworks(const Checkpoint& checkpoint, VideoConfigs& configs) {
  ASSIGN_OR_RETURN(std::string text, checkpoint.ConfigText(kUnet));
  ASSIGN_OR_RETURN(configs.unet,
                   networks::ParseUnetSpatioTemporalConfig(text, checkpoint.ConfigName(kUnet)));
  ASSIGN_OR_RETURN(text, checkpoint.ConfigText(kVae));
  ASSIGN_OR_RETURN(configs.vae,
                   networks::ParseAutoencoderTemporalConfig(text, checkpoint.ConfigName(kVae)));
  ASSIGN_OR_RETURN(text, checkpoint.ConfigText(kImageEncoder));
  ASSIGN_OR_RETURN(configs.image_encoder,
                   networks::ParseClipVisionConfig(text, checkpoint.ConfigName(kImageEncoder)));
  WarnOfFields(checkpoint.ConfigName(kUnet), configs.unet.unknown_fields, configs);
  WarnOfFields(checkpoint.ConfigName(kVae), configs.vae.unknown_fields, configs);
  WarnOfFields(checkpoint.ConfigName(kImageEncoder), configs.image_encoder.unknown_fields, configs);
  return absl::OkStatus();
}

absl::Status CheckVideoUnet(const Checkpoint& checkpoint, const VideoConfigs& configs) {
  const networks::UnetSpatioTemporalConfig& unet = configs.unet;
  const int64_t channels = configs.vae.latent_channels;
  if (unet.in_channels != 2 * channels || unet.out_channels != channels) {
    return RefusePart(checkpoint, kUnet, "in_channels ", unet.in_channels, " and out_channels ",
                      unet.out_channels, " are not twice the VAE's latent_channels ", channels,
                      ", and as many");
  }
  if (unet.time_ids() != kTimeIds) {
    return RefusePart(checkpoint, kUnet, "projection_class_embeddings_input_dim ",
                      unet.addition_input_dim, " is not ", kTimeIds,
                      " times addition_time_embed_dim ", unet.addition_time_embed_dim);
  }
  if (unet.cross_attention_dim == configs.image_encoder.projection_dim) return absl::OkStatus();
  return RefusePart(checkpoint, kUnet, "cross_attention_dim ", unet.cross_attention_dim,
                    " is not the image encoder's projection_dim ",
                    configs.image_encoder.projection_dim);
}

absl::Status CheckImages(const Checkpoint& checkpoint, const VideoConfigs& configs) {
  const networks::ClipVisionConfig& encoder = configs.image_encoder;
  if (encoder.image_size != kEncodedSide || encoder.num_channels != 3) {
    return RefusePart(checkpoint, kImageEncoder, "image_size ", encoder.image_size,
                      " and num_channels ", encoder.num_channels, "; supported: ", kEncodedSide,
                      " and 3, as diffusers' pipeline hands images over");
  }
  if (configs.vae.in_channels == 3 && configs.vae.out_channels == 3) return absl::OkStatus();
  return RefusePart(checkpoint, kVae, "in_channels ", configs.vae.in_channels, " and out_channels ",
                    configs.vae.out_channels, "; supported: 3, of colours");
}

}  // namespace

absl::StatusOr<VideoConfigs> ReadVideoConfigs(const Checkpoint& checkpoint) {
  VideoConfigs configs;
  RETURN_IF_ERROR(ReadNetworks(checkpoint, configs));
  RETURN_IF_ERROR(ReadVideoScheduler(checkpoint, configs));
  RETURN_IF_ERROR(ReadPreprocessor(checkpoint, configs));
  RETURN_IF_ERROR(CheckVideoUnet(checkpoint, configs));
  RETURN_IF_ERROR(CheckImages(checkpoint, configs));
  return configs;
}

}  // namespace latentd::families::svd
