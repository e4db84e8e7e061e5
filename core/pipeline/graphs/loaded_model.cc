#include "core/pipeline/graphs/loaded_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/video_family.h"
#include "core/pipeline/spec/presets.h"

namespace latentd::pipeline {
namespace {

// Checks that a quarter of a tile is a whole number of latents, and that no picture has very many:
// all of them are in one graph.
absl::Status CheckTiles(const weights::Checkpoint& checkpoint, const VaeConfig& vae) {
  const auto* kl = std::get_if<networks::AutoencoderKlConfig>(&vae);
  const int64_t multiple = int64_t{4} * DownscaleOf(vae);
  constexpr int64_t kMinTile = 128;
  if (kl == nullptr) return absl::OkStatus();
  if (kl->sample_size >= kMinTile && kl->sample_size % multiple == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint.ConfigName("vae"), ": tiles of sample_size ", kl->sample_size,
                   " are not supported; supported: multiples of ", multiple, " from ", kMinTile,
                   " on, or no tiling"));
}

// Checks that the components that draw with the UNet are there too.
absl::Status CheckNeeds(const ModelRow& row, const ModelConfigs& configs,
                        const ComponentModes& modes) {
  std::vector<std::string> needed = {"vae_decoder"};
  for (const TextEncoder& encoder : configs.text_encoders) needed.push_back(encoder.component);
  if (configs.video != nullptr) {
    needed.emplace_back("vae_encoder");
    needed.emplace_back(families::kImageEncoder);
  }
  for (const std::string& component : needed) {
    if (!IsOff(modes, component)) continue;
    return absl::InvalidArgumentError(absl::StrCat(component, " is off, but every picture of ",
                                                   FlagNameOf(kUnetName, row.name),
                                                   ", which is not, needs it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const weights::WeightSet>> LoadWeights(
    const ModelRow& row, const weights::Checkpoint& checkpoint, const ModelConfigs& configs,
    weights::WeightStore& store) {
  auto weights = std::make_shared<weights::WeightSet>(&store, row.name);
  std::vector<std::string> components = {"unet", "vae"};
  for (const TextEncoder& encoder : configs.text_encoders) components.push_back(encoder.component);
  if (configs.vae_tiny) components.emplace_back(kVaeTinyName);
  if (configs.video != nullptr) components.emplace_back(families::kImageEncoder);
  for (const std::string& component : components) {
    ASSIGN_OR_RETURN(weights::SourceMap sources, checkpoint.LoadWeights(component));
    weights->Add(component, std::move(sources));
  }
  return weights;
}

ModelRow WithOwnFacts(ModelRow row, const families::Family& family, const ModelConfigs& configs) {
  row.defaults = WithPreset(family.defaults, row.preset, configs.embeds_guidance());
  row.inpaints = configs.inpaints();
  return row;
}

}  // namespace

LoadedModel::LoadedModel(const ModelRow& row, const families::Family& family,
                         const weights::Checkpoint& checkpoint, ModelConfigs configs)
    : row_(WithOwnFacts(row, family, configs)),
      family_(family),
      path_(checkpoint.path()),
      pipeline_class_(checkpoint.pipeline_class()),
      configs_(std::move(configs)) {}

absl::StatusOr<std::unique_ptr<const LoadedModel>> LoadedModel::Load(
    const ModelRow& row, const families::Family& family, const weights::Checkpoint& checkpoint,
    weights::WeightStore& store, compiler::GraphStore& graphs, const ModelOptions& options) {
  ASSIGN_OR_RETURN(ModelConfigs configs,
                   families::ReadModelConfigs(family, checkpoint, options.components, row.scheduler,
                                              row.preset));
  if (options.vae_tiling_above) RETURN_IF_ERROR(CheckTiles(checkpoint, configs.vae));
  std::unique_ptr<LoadedModel> model(new LoadedModel(row, family, checkpoint, std::move(configs)));
  model->files_read_ = checkpoint.files_read();
  if (IsOff(options.components, FlagNameOf(kUnetName, row.name))) return model;
  RETURN_IF_ERROR(CheckNeeds(row, model->configs_, options.components));
  ASSIGN_OR_RETURN(auto weights, LoadWeights(row, checkpoint, model->configs_, store));
  model->files_read_ = checkpoint.files_read();  // with indices
  ASSIGN_OR_RETURN(ModelLoras loras, ApplyLoras(row, std::move(weights)));
  model->loras_ = std::move(loras.applied);
  model->lora_warnings_ = std::move(loras.warnings);
  auto declared = ModelGraphs::Declare(row.name, family, model->configs_, std::move(loras.weights),
                                       options, graphs);
  if (!declared.ok()) {
    return absl::Status(declared.status().code(),
                        absl::StrCat(model->path_, ": ", declared.status().message()));
  }
  model->graphs_ = *std::move(declared);
  return model;
}

absl::StatusOr<schedulers::SchedulerConfig> LoadedModel::SchedulerWith(
    const schedulers::Overrides& overrides) const {
  schedulers::Overrides chosen = overrides;
  if (chosen.name.empty()) chosen.name = configs_.default_scheduler;
  if (chosen.name.empty() && !configs_.no_default.empty()) {
    return InvalidFields(
        {{"scheduler",
          absl::StrCat("must be one of ", absl::StrJoin(schedulers::SupportedSchedulers(), ", "),
                       ": the ", row_.name, "'s checkpoint has no default, since ",
                       configs_.no_default)}});
  }
  return configs_.scheduler->With(chosen);
}

Size LoadedModel::default_size() const {
  if (row_.preset != nullptr && row_.preset->size) return *row_.preset->size;
  if (family_.videos != nullptr) {
    Size size = family_.sizes.front();
    size.frames = family_.videos->frames(configs_);
    return size;
  }
  const networks::ConfigReader::Size latent = configs_.unet.sample_size.value_or(
      networks::ConfigReader::Size{family_.sample_side, family_.sample_side});
  const int scale = DownscaleOf(vae());
  return {static_cast<int>(latent.width) * scale, static_cast<int>(latent.height) * scale};
}

}  // namespace latentd::pipeline
