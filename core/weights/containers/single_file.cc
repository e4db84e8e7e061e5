#include "core/weights/containers/single_file.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/weights/containers/recognize/ema_weights.h"
#include "core/weights/containers/recognize/file_family.h"
#include "core/weights/containers/recognize/needed_encoders.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/containers/recognize/refuse_file.h"
#include "core/weights/containers/recognize/served_unet.h"
#include "core/weights/containers/recognize/text_encoder_part.h"
#include "core/weights/containers/recognize/tiny_vae_part.h"
#include "core/weights/containers/recognize/unet_part.h"
#include "core/weights/containers/recognize/vae_part.h"
#include "core/weights/containers/recognize/video_unet_part.h"
#include "core/weights/containers/video_file.h"

namespace latentd::weights {
namespace {

constexpr size_t kMostListed = 8;
constexpr size_t kListedName = 200;

// Training dumps have everything in "state_dict.", some of them twice.
TensorMap Unwrapped(const TensorMap& tensors) {
  TensorMap bare;
  bare.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    absl::string_view rest = name;
    while (absl::ConsumePrefix(&rest, "state_dict.")) {
    }
    // The plain name wins, whatever the order.
    if (rest.size() == name.size()) {
      bare.insert_or_assign(std::string(rest), tensor);
    } else {
      bare.try_emplace(std::string(rest), tensor);
    }
  }
  return bare;
}

// An error says of which file it is.
absl::StatusOr<std::string> OfFile(const std::string& path, absl::StatusOr<std::string> config) {
  if (config.ok()) return config;
  return RefuseFile(path, ": ", config.status().message());
}

FilePart MakeEncoderPart(const std::string& path, const EncoderRole& role, EncoderPart part) {
  return {{"transformers", role.is_projected ? "CLIPTextModelWithProjection" : "CLIPTextModel"},
          OfFile(path, std::move(part.config)),
          std::move(part.sources)};
}

// sample_size by modelspec.resolution, "1024x1024": so many pixels, width first.
void SetSampleSize(const Metadata& metadata, UnetDefaults& defaults) {
  const auto found = metadata.find("modelspec.resolution");
  if (found == metadata.end()) return;
  const std::vector<std::string> sides = absl::StrSplit(found->second, 'x');
  int width = 0, height = 0;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &width) ||
      !absl::SimpleAtoi(sides[1], &height)) {
    return;
  }
  constexpr int kPixels = 8, kLeast = 64, kMost = 4096;
  if (std::min(width, height) < kLeast || std::max(width, height) > kMost) return;
  defaults.width = width / kPixels;
  defaults.height = height / kPixels;
}

// Assembles the result from a file's components.
class Recognition {
 public:
  Recognition(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
              const SaidOfFile& said)
      : path_(path),
        tensors_(tensors),
        metadata_(metadata),
        said_(said),
        encoders_(FindEncoders(tensors)) {}

  absl::StatusOr<SingleFile> Run() && {
    ASSIGN_OR_RETURN(UnetPart unet, ReadServedUnet(path_, tensors_));
    NoteUsed(FindUnet(tensors_)->prefix);
    ASSIGN_OR_RETURN(family_, FamilyOf(path_, unet.architecture, encoders_));
    ASSIGN_OR_RETURN(noise_, ReadNoiseMarkers(path_, tensors_, metadata_, family_, unet.sources,
                                              said_.prediction_type));
    NoteFamily(unet.architecture);
    for (const NeededEncoder& needed : NeededEncoders(family_)) RETURN_IF_ERROR(AddEncoder(needed));
    RETURN_IF_ERROR(AddUnet(std::move(unet)));
    RETURN_IF_ERROR(AddVae());
    file_.pipeline_class = std::string(defaults().pipeline_class);
    file_.scheduler_config = SchedulerConfigOf(family_, noise_.prediction);
    file_.prediction_decided_by = noise_.decided_by;
    file_.force_zeros_for_empty_prompt = defaults().force_zeros_for_empty_prompt;
    file_.requires_aesthetics_score = defaults().requires_aesthetics_score;
    NotePassedOver();
    NoteArchitecture();
    return std::move(file_);
  }

 private:
  const FamilyDefaults& defaults() const { return DefaultsOf(family_); }
  void NoteUsed(const std::string& prefix) { used_.push_back(prefix); }
  template <typename... Text>
  void Note(const Text&... text) {
    file_.notes.push_back(absl::StrCat(path_, ": ", text...));
  }

  void NoteFamily(const UnetArchitecture& unet) {
    Note("is ", defaults().title, ": its UNet reads ", unet.cross_attention_dim,
         " features of text",
         unet.added_features == 0 ? "" : absl::StrCat(" and ", unet.added_features, " added ones"));
    if (!IsMarked(noise_)) return;
    Note("predicts ", PredictionTitle(), ", by ", noise_.decided_by);
  }

  absl::string_view PredictionTitle() const {
    switch (noise_.prediction) {
      case NoisePrediction::kEpsilon:
        return "the noise";
      case NoisePrediction::kVelocity:
        return "the velocity (v_prediction)";
      case NoisePrediction::kVelocityZeroSnr:
        return "the velocity (v_prediction), from zero signal on (rescale_betas_zero_snr)";
      case NoisePrediction::kSample:
        return "the image (sample)";
      case NoisePrediction::kEdm:
        return "in the style of EDM, as Playground v2.5";
    }
    return "";
  }

  void Lack(const std::string& component) { file_.lacking.push_back(component); }

  absl::Status AddEncoder(const NeededEncoder& needed) {
    const EncoderRole& role = needed.role;
    file_.tokenizers.emplace_back(needed.tokenizer, needed.pad_token);
    const FoundEncoder* encoder = FindEncoder(encoders_, needed.places);
    if (encoder == nullptr) {
      Lack(role.component);
      return absl::OkStatus();
    }
    NoteUsed(encoder->prefix);
    if (role.is_projected && !HasProjection(tensors_, *encoder)) {
      Note("its text encoder ", role.title, " has no ", encoder->prefix,
           "text_projection, without which it cannot be used");
      Lack(role.component);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(EncoderPart part, ReadEncoder(path_, tensors_, *encoder, role));
    if (role.is_projected) pooled_features_ = part.pooled_features;
    file_.parts[role.component] = MakeEncoderPart(path_, role, std::move(part));
    return absl::OkStatus();
  }

  // Features of each number among the added conditions, which follow the pooled text.
  absl::StatusOr<int64_t> TimeFeatures(const UnetArchitecture& unet) const {
    constexpr int64_t kPublished = 256;
    if (unet.added_features == 0 || pooled_features_ == 0) return kPublished;
    const int64_t rest = unet.added_features - pooled_features_;
    if (rest > 0 && rest % defaults().time_ids == 0) return rest / defaults().time_ids;
    return RefuseFile(path_, ": its UNet reads ", unet.added_features,
                      " added features, which are not the ", pooled_features_,
                      " of its text encoder and ", defaults().time_ids, " numbers");
  }

  absl::Status AddUnet(UnetPart unet) {
    const int64_t side =
        IsVelocity(noise_.prediction) ? defaults().velocity_sample_size : defaults().sample_size;
    UnetDefaults unsaid = {.heads = defaults().heads,
                           .height = side,
                           .width = side,
                           .upcast_attention = defaults().upcast_attention};
    SetSampleSize(metadata_, unsaid);
    ASSIGN_OR_RETURN(unsaid.time_features, TimeFeatures(unet.architecture));
    file_.parts["unet"] = {{"diffusers", "UNet2DConditionModel"},
                           OfFile(path_, UnetConfig(unet.architecture, unsaid)),
                           std::move(unet.sources)};
    return absl::OkStatus();
  }

  // Settings that no tensor of a VAE tells.
  VaeDefaults VaeUnsaid() const {
    constexpr double kScalingOfEdm = 0.5;
    constexpr int64_t kPixels = 8;
    const bool is_edm = noise_.prediction == NoisePrediction::kEdm;
    return {.scaling_factor = is_edm ? kScalingOfEdm : defaults().scaling_factor,
            .sample_size = kPixels * defaults().sample_size,
            .latents_mean = noise_.latents_mean,
            .latents_std = noise_.latents_std};
  }

  absl::Status AddVae() {
    const VaeDefaults unsaid = VaeUnsaid();
    file_.vae_settings = VaeSettings(unsaid);
    std::optional<PartTensors> part = FindVae(tensors_);
    if (!part || IsHalfVae(*part)) Lack("vae");
    if (!part) return absl::OkStatus();
    NoteUsed(part->prefix);
    if (IsHalfVae(*part)) {
      Note("has one half of a VAE only, which is passed over");
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(VaePart vae, ReadVae(path_, *std::move(part)));
    file_.parts["vae"] = {{"diffusers", "AutoencoderKL"},
                          VaeConfig(vae.architecture, unsaid),
                          std::move(vae.sources)};
    return absl::OkStatus();
  }

  bool IsUsed(absl::string_view name) const {
    return absl::c_any_of(
        used_, [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
  }

  void NotePassedOver() {
    const int64_t averages = CountEma(tensors_);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) {
      if (!IsUsed(name) && !IsIgnorable(name)) names.push_back(Excerpt(name, kListedName));
    }
    // Two counters are left in files whose averages are gone.
    if (averages > 2 && said_.ema) {
      Note("its UNet has the EMA weights (", averages, " tensors), by --ema");
    } else if (averages > 2) {
      Note("also holds EMA weights (", averages,
           " tensors), which are passed over; --ema takes them");
    }
    if (names.empty()) return;
    absl::c_sort(names);
    Note(names.size(),
         " tensors of no component that is needed are passed over: ", ListSome(names, kMostListed));
  }

  // Merges carry metadata of the files that they were made of.
  void NoteArchitecture() {
    const auto found = metadata_.find("modelspec.architecture");
    if (found == metadata_.end()) return;
    if (absl::StartsWith(found->second, defaults().architecture)) return;
    Note("its metadata's modelspec.architecture is ", Excerpt(found->second),
         ", and its tensors are ", defaults().title, ": they count");
  }

  const std::string& path_;
  const TensorMap& tensors_;
  const Metadata& metadata_;
  const SaidOfFile& said_;
  std::vector<FoundEncoder> encoders_;
  FileFamily family_ = FileFamily::kSd1;
  NoiseMarkers noise_;
  int64_t pooled_features_ = 0;  // features of the second text encoder's result; 0: it is not there
  std::vector<std::string> used_;  // prefixes of components
  SingleFile file_;
};

absl::StatusOr<std::string> ConfigOfUnet(const std::string& path, const TensorMap& tensors,
                                         const UnetArchitecture& unet) {
  ASSIGN_OR_RETURN(const FileFamily family, FamilyOf(path, unet, FindEncoders(tensors)));
  const FamilyDefaults& defaults = DefaultsOf(family);
  const UnetDefaults unsaid = {.heads = defaults.heads,
                               .height = defaults.sample_size,
                               .width = defaults.sample_size,
                               .upcast_attention = defaults.upcast_attention};
  return OfFile(path, UnetConfig(unet, unsaid));
}

absl::StatusOr<FilePart> RecognizeUnet(const std::string& path, const TensorMap& tensors,
                                       const Metadata& metadata, const SaidOfFile& said) {
  // EDM's needs a VAE with other settings too.
  for (const char* marker : {"edm_mean", "edm_vpred.sigma_max"}) {
    if (!tensors.contains(marker)) continue;
    return RefuseFile(path, " says by its tensor ", marker,
                      " that it is of another style than its base: give it as --base, with "
                      "--components-from for what it lacks");
  }
  ASSIGN_OR_RETURN(UnetPart unet, ReadServedUnet(path, tensors));
  FilePart part = {
      {"diffusers", "UNet2DConditionModel"}, ConfigOfUnet(path, tensors, unet.architecture), {}};
  // Not its biases, and not the default: the base says as much. An operator who says the same as
  // its tensors does not take back what else they say.
  ASSIGN_OR_RETURN(const NoiseMarkers noise,
                   ReadNoiseMarkers(path, tensors, metadata, FileFamily::kXlBase, unet.sources,
                                    said.prediction_type));
  if (IsMarked(noise) || noise.prediction == NoisePrediction::kVelocityZeroSnr) {
    part.scheduler_settings = SchedulerSettingsOf(noise.prediction);
    part.prediction_decided_by = noise.decided_by;
  }
  part.sources = std::move(unet.sources);
  return part;
}

absl::StatusOr<FilePart> RecognizeVae(const std::string& path, const TensorMap& tensors) {
  std::optional<PartTensors> part = FindVae(tensors);
  if (!part && IsTinyVae(tensors)) {
    return RefuseFile(path, " is a tiny VAE (TAESD), no AutoencoderKL: --vae-tiny takes it");
  }
  if (!part) return RefuseFile(path, " has no VAE in it");
  if (IsHalfVae(*part))
    return RefuseFile(path, " has one half of a VAE only: give both in one file");
  ASSIGN_OR_RETURN(VaePart vae, ReadVae(path, *std::move(part)));
  constexpr int64_t kLatents = 4;
  if (vae.architecture.latent_channels != kLatents) {
    return RefuseFile(
        path, " is a VAE of ", vae.architecture.latent_channels,
        " latent channels (of Stable Diffusion 3 or FLUX); that of Stable Diffusion 1, 2 "
        "and XL has ",
        kLatents);
  }
  return FilePart{{"diffusers", "AutoencoderKL"},
                  VaeConfig(vae.architecture, std::nullopt),
                  std::move(vae.sources)};
}

absl::StatusOr<FilePart> RecognizeTinyVae(const std::string& path, const TensorMap& tensors) {
  ASSIGN_OR_RETURN(TinyVaePart vae, ReadTinyVae(path, tensors));
  return FilePart{{"diffusers", "AutoencoderTiny"}, std::move(vae.config), std::move(vae.sources)};
}

// H of Stable Diffusion 2 by OpenCLIP's names or by its width, otherwise CLIP-L.
FileFamily FamilyOfFirst(const std::vector<FoundEncoder>& encoders) {
  constexpr int64_t kWidthOfH = 1024;
  const FoundEncoder* first = FindEncoder(encoders, {EncoderPlace::kFirst});
  const bool is_h = first == nullptr || first->width == kWidthOfH;
  return is_h ? FileFamily::kSd2 : FileFamily::kSd1;
}

absl::StatusOr<FilePart> RecognizeEncoder(const std::string& path, bool is_second,
                                          const TensorMap& tensors) {
  const std::vector<FoundEncoder> encoders = FindEncoders(tensors);
  const FileFamily family = is_second ? FileFamily::kXlRefiner : FamilyOfFirst(encoders);
  const NeededEncoder needed = NeededEncoders(family).front();
  const FoundEncoder* encoder = FindEncoder(encoders, needed.places);
  if (encoder == nullptr) {
    return RefuseFile(path, " has no text encoder ", needed.role.title, " in it");
  }
  ASSIGN_OR_RETURN(EncoderPart part, ReadEncoder(path, tensors, *encoder, needed.role));
  return MakeEncoderPart(path, needed.role, std::move(part));
}

}  // namespace

absl::StatusOr<SingleFile> RecognizeSingleFile(const std::string& path, const TensorMap& tensors,
                                               const Metadata& metadata, const SaidOfFile& said) {
  TensorMap bare = Unwrapped(tensors);
  if (HasVideoUnet(bare)) return RecognizeVideoFile(path, bare);
  if (said.ema) {
    RETURN_IF_ERROR(CheckServed(path, bare));
    ASSIGN_OR_RETURN(bare, WithEmaWeights(path, bare));
  }
  return Recognition(path, bare, metadata, said).Run();
}

absl::StatusOr<FilePart> RecognizePart(const std::string& path, absl::string_view component,
                                       const TensorMap& tensors, const Metadata& metadata,
                                       const SaidOfFile& said) {
  TensorMap bare = Unwrapped(tensors);
  if (component == "unet" && said.ema) {
    RETURN_IF_ERROR(CheckServed(path, bare));
    ASSIGN_OR_RETURN(bare, WithEmaWeights(path, bare));
  }
  if (component == "unet") return RecognizeUnet(path, bare, metadata, said);
  RETURN_IF_ERROR(CheckServed(path, bare));
  if (component == "vae") return RecognizeVae(path, bare);
  if (component == "vae_tiny") return RecognizeTinyVae(path, bare);
  if (component == "text_encoder") return RecognizeEncoder(path, false, bare);
  if (component == "text_encoder_2") return RecognizeEncoder(path, true, bare);
  return RefuseFile(path, " is given for ", Excerpt(component), ", which no file can be given for");
}

}  // namespace latentd::weights
