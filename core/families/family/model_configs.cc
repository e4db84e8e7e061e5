#include "core/families/family/model_configs.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/families/family/family.h"
#include "core/families/family/video_family.h"
#include "core/schedulers/config.h"

namespace latentd::families {
namespace {

using pipeline::kVaeTinyName;

absl::StatusOr<std::unique_ptr<const tokenizer::ClipTokenizer>> ReadTokenizer(
    const weights::Checkpoint& checkpoint, const std::string& component) {
  ASSIGN_OR_RETURN(const weights::TokenizerSource source, checkpoint.Tokenizer(component));
  if (source.directory.empty()) return tokenizer::ClipTokenizer::BuiltIn(source.pad_token);
  return tokenizer::ClipTokenizer::Load(source.directory, checkpoint.reader());
}

// The vocabulary of a tokenizer that was read, for messages.
std::string VocabularyName(const weights::Checkpoint& checkpoint, const std::string& component) {
  const absl::StatusOr<weights::TokenizerSource> source = checkpoint.Tokenizer(component);
  return source.ok() && !source->directory.empty()
             ? source->directory
             : "CLIP's own vocabulary (--components-from=PATH, a checkpoint with "
               "a tokenizer folder, has another)";
}

absl::StatusOr<TextEncoder> ReadTextEncoder(const weights::Checkpoint& checkpoint,
                                            const std::string& component,
                                            const std::string& tokenizer) {
  TextEncoder encoder{component, nullptr, {}};
  ASSIGN_OR_RETURN(const networks::ClipTextKind kind,
                   networks::ParseClipTextKind(checkpoint.components().at(component).class_name));
  ASSIGN_OR_RETURN(const std::string text, checkpoint.ConfigText(component));
  ASSIGN_OR_RETURN(encoder.config,
                   networks::ParseClipTextConfig(text, checkpoint.ConfigName(component), kind));
  ASSIGN_OR_RETURN(encoder.tokenizer, ReadTokenizer(checkpoint, tokenizer));
  if (encoder.tokenizer->vocabulary_size() > encoder.config.vocab_size) {
    return Misfit(checkpoint, component,
                  absl::StrCat("vocab_size ", encoder.config.vocab_size, " is less than the ",
                               encoder.tokenizer->vocabulary_size(), " tokens of ",
                               VocabularyName(checkpoint, tokenizer)));
  }
  if (encoder.tokenizer->max_length() > encoder.config.max_position_embeddings) {
    return Misfit(checkpoint, component,
                  absl::StrCat("max_position_embeddings ", encoder.config.max_position_embeddings,
                               " is less than the ", encoder.tokenizer->max_length(),
                               " tokens that ", VocabularyName(checkpoint, tokenizer), " makes"));
  }
  return encoder;
}

absl::StatusOr<std::vector<TextEncoder>> ReadTextEncoders(const weights::Checkpoint& checkpoint) {
  std::vector<TextEncoder> encoders;
  for (const std::string suffix : {"", "_2"}) {
    if (!checkpoint.Has("text_encoder" + suffix)) continue;
    ASSIGN_OR_RETURN(TextEncoder encoder,
                     ReadTextEncoder(checkpoint, "text_encoder" + suffix, "tokenizer" + suffix));
    encoders.push_back(std::move(encoder));
  }
  return encoders;
}

absl::StatusOr<networks::VaeConfig> ReadVae(const weights::Checkpoint& checkpoint) {
  if (!checkpoint.Has("vae")) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.index(), ": no vae"));
  }
  ASSIGN_OR_RETURN(const std::string text, checkpoint.ConfigText("vae"));
  const std::string& class_name = checkpoint.components().at("vae").class_name;
  const std::string source = checkpoint.ConfigName("vae");
  if (class_name == "AutoencoderKL") return networks::ParseAutoencoderKlConfig(text, source);
  if (class_name == "AutoencoderTiny") return networks::ParseAutoencoderTinyConfig(text, source);
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint.index(), ": vae is a ", class_name,
                   "; supported are AutoencoderKL and AutoencoderTiny"));
}

// Reads a tiny VAE. Its latents are those of the VAE: its training saw to that.
absl::Status ReadTinyVae(const weights::Checkpoint& checkpoint, ModelConfigs& configs) {
  const std::string component(kVaeTinyName);
  ASSIGN_OR_RETURN(const std::string text, checkpoint.ConfigText(component));
  ASSIGN_OR_RETURN(networks::AutoencoderTinyConfig tiny,
                   networks::ParseAutoencoderTinyConfig(text, checkpoint.ConfigName(component)));
  const int64_t channels = LatentChannelsOf(configs.vae), scale = DownscaleOf(configs.vae);
  if (tiny.latent_channels != channels || UpscaleOf(tiny) != scale || tiny.out_channels != 3) {
    return Misfit(
        checkpoint, component,
        absl::StrCat("it makes ", UpscaleOf(tiny), " pixels of a latent, in ", tiny.out_channels,
                     " colours of ", tiny.latent_channels,
                     " channels; for previews of this checkpoint it has to make ", scale,
                     ", in 3 of ", channels, " (--components=vae_tiny=off draws them without it)"));
  }
  configs.vae_tiny = std::move(tiny);
  return absl::OkStatus();
}

absl::StatusOr<networks::Unet2dConditionConfig> ReadUnet(const weights::Checkpoint& checkpoint) {
  if (!checkpoint.Has("unet")) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.index(), ": no unet"));
  }
  ASSIGN_OR_RETURN(const std::string text, checkpoint.ConfigText("unet"));
  return networks::ParseUnet2dConditionConfig(text, checkpoint.ConfigName("unet"));
}

// A network that was trained for one of these predicts something else than ours read.
bool IsOfOtherTraining(absl::string_view scheduler_class) {
  return absl::StartsWith(scheduler_class, "EDM") || absl::StartsWith(scheduler_class, "Flow");
}

// The first of our schedulers that the file makes, by name.
absl::StatusOr<schedulers::SchedulerConfig> AnyScheduler(const ModelConfigs& configs) {
  absl::StatusOr<schedulers::SchedulerConfig> parsed;
  for (const std::string& name : schedulers::SupportedSchedulers()) {
    parsed = configs.scheduler->With({.name = name});
    if (parsed.ok()) break;
  }
  return parsed;
}

// `own` says why the checkpoint's class does not come of its file.
void SetNoDefault(const std::string& file, const absl::Status& own, ModelConfigs& configs) {
  const std::string& class_name = configs.scheduler->class_name();
  const bool is_ours = schedulers::CheckSchedulerName(class_name).ok();
  configs.no_default =
      is_ours ? std::string(own.message()) : absl::StrCat(Excerpt(class_name), " is not supported");
  configs.warnings.push_back(absl::StrCat(
      file, ": no default scheduler, since ", configs.no_default, ": requests have to name one of ",
      absl::StrJoin(schedulers::SupportedSchedulers(), ", "),
      ", or --scheduler=NAME makes one of them the default",
      IsOfOtherTraining(class_name)
          ? ". A network that was trained for this one draws nothing sensible with another"
          : ""));
}

void WarnOfUnknown(const std::string& file, const std::vector<std::string>& fields,
                   ModelConfigs& configs) {
  constexpr size_t kMostNamed = 12;
  if (fields.empty()) return;
  configs.warnings.push_back(absl::StrCat(
      file, ": fields that are not known, and ignored: ", ListSome(fields, kMostNamed)));
}

// The file with all that is laid over it, in the order in which it counts.
absl::StatusOr<schedulers::SchedulerFile> WithSettings(schedulers::SchedulerFile file,
                                                       const weights::Checkpoint& checkpoint,
                                                       const pipeline::Preset* preset) {
  for (const absl::string_view settings :
       {absl::string_view(checkpoint.scheduler_settings()),
        preset == nullptr ? absl::string_view() : preset->scheduler_config,
        absl::string_view(checkpoint.said_prediction())}) {
    ASSIGN_OR_RETURN(file, file.Over(settings));
  }
  return file;
}

// The last that says it, of those.
std::string PredictionDecidedBy(const weights::Checkpoint& checkpoint,
                                const pipeline::Preset* preset) {
  const bool preset_says =
      preset != nullptr && absl::StrContains(preset->scheduler_config, "prediction_type");
  if (checkpoint.said_prediction().empty() && preset_says) {
    return absl::StrCat("the preset ", preset->name);
  }
  return checkpoint.prediction_decided_by().empty() ? checkpoint.ConfigName("scheduler")
                                                    : checkpoint.prediction_decided_by();
}

absl::Status ReadScheduler(const Family& family, const weights::Checkpoint& checkpoint,
                           const std::string& name, const pipeline::Preset* preset,
                           ModelConfigs& configs) {
  ASSIGN_OR_RETURN(const std::string text, checkpoint.SchedulerConfigText());
  configs.default_scheduler = name;
  const std::string file = checkpoint.ConfigName("scheduler");
  const auto parsed = schedulers::SchedulerFile::Parse(
      text, checkpoint.components().at("scheduler").class_name, family.align_your_steps);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.status().message()));
  }
  ASSIGN_OR_RETURN(configs.scheduler, WithSettings(*parsed, checkpoint, preset));
  const auto own = configs.scheduler->With({.name = name});
  const auto any = own.ok() || !name.empty() ? own : AnyScheduler(configs);
  if (!any.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", any.status().message()));
  }
  if (!own.ok()) SetNoDefault(file, own.status(), configs);
  configs.prediction_type = std::string(schedulers::NameOf(any->prediction_type));
  configs.prediction_decided_by = PredictionDecidedBy(checkpoint, preset);
  WarnOfUnknown(file, any->unknown_fields, configs);
  return absl::OkStatus();
}

void WarnOfUnknownFields(const weights::Checkpoint& checkpoint, ModelConfigs& configs) {
  for (const TextEncoder& encoder : configs.text_encoders) {
    WarnOfUnknown(checkpoint.ConfigName(encoder.component), encoder.config.unknown_fields, configs);
  }
  WarnOfUnknown(checkpoint.ConfigName("unet"), configs.unet.unknown_fields, configs);
  const auto& of_vae = std::visit(
      [](const auto& vae) -> const auto& { return vae.unknown_fields; }, configs.vae);
  WarnOfUnknown(checkpoint.ConfigName("vae"), of_vae, configs);
  if (!configs.vae_tiny) return;
  WarnOfUnknown(checkpoint.ConfigName(kVaeTinyName), configs.vae_tiny->unknown_fields, configs);
}

absl::Status CheckText(const weights::Checkpoint& checkpoint, const ModelConfigs& configs) {
  for (const TextEncoder& encoder : configs.text_encoders) {
    if (encoder.tokenizer->max_length() != configs.text_encoders.front().tokenizer->max_length()) {
      return absl::InvalidArgumentError(
          absl::StrCat(checkpoint.path(), ": the tokenizers' model_max_length differ"));
    }
  }
  if (configs.unet.cross_attention_dim == configs.joined_features()) return absl::OkStatus();
  return Misfit(
      checkpoint, "unet",
      absl::StrCat("cross_attention_dim ", configs.unet.cross_attention_dim, " is not the ",
                   configs.joined_features(), " of the text encoders together"));
}

// A UNet for inpainting reads latents, a mask of one channel and latents of what is not masked.
absl::Status CheckLatents(const Family& family, const weights::Checkpoint& checkpoint,
                          const ModelConfigs& configs) {
  const int64_t channels = LatentChannelsOf(configs.vae), in = configs.unet.in_channels;
  const int64_t inpainting = 2 * channels + 1;
  if ((in != channels && in != inpainting) || configs.unet.out_channels != channels) {
    return Misfit(checkpoint, "unet",
                  absl::StrCat("in_channels ", in, " and out_channels ", configs.unet.out_channels,
                               " are not the VAE's latent_channels ", channels,
                               "; an inpainting UNet has in_channels ", inpainting));
  }
  if (in == inpainting && family.starts_from_image) {
    return Misfit(checkpoint, "unet",
                  absl::StrCat("in_channels ", in, " is an inpainting UNet's, and ", family.title,
                               " has none: give it as the base"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ModelConfigs::joined_features() const {
  int64_t features = 0;
  for (const TextEncoder& encoder : text_encoders) features += encoder.config.hidden_size;
  return features;
}

int64_t ModelConfigs::pooled_features() const {
  return unet.text_time ? text_encoders.back().config.pooled_features() : 0;
}

absl::Status Misfit(const weights::Checkpoint& checkpoint, absl::string_view component,
                    absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(checkpoint.ConfigName(component), ": ", what));
}

absl::StatusOr<ModelConfigs> ReadModelConfigs(const Family& family,
                                              const weights::Checkpoint& checkpoint,
                                              const pipeline::ComponentModes& modes,
                                              const std::string& scheduler,
                                              const pipeline::Preset* preset) {
  if (family.videos != nullptr) return family.videos->read(checkpoint);
  ModelConfigs configs;
  configs.force_zeros_for_empty_prompt = checkpoint.force_zeros_for_empty_prompt();
  configs.requires_aesthetics_score = checkpoint.requires_aesthetics_score();
  RETURN_IF_ERROR(ReadScheduler(family, checkpoint, scheduler, preset, configs));
  ASSIGN_OR_RETURN(configs.text_encoders, ReadTextEncoders(checkpoint));
  ASSIGN_OR_RETURN(configs.unet, ReadUnet(checkpoint));
  ASSIGN_OR_RETURN(configs.vae, ReadVae(checkpoint));
  const bool has_tiny_vae = checkpoint.Has(kVaeTinyName) && !IsOff(modes, kVaeTinyName);
  if (has_tiny_vae) RETURN_IF_ERROR(ReadTinyVae(checkpoint, configs));
  RETURN_IF_ERROR(family.check(checkpoint, configs));
  RETURN_IF_ERROR(CheckText(checkpoint, configs));
  RETURN_IF_ERROR(CheckLatents(family, checkpoint, configs));
  WarnOfUnknownFields(checkpoint, configs);
  return configs;
}

}  // namespace latentd::families
