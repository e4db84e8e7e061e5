#include "core/pipeline/graphs/sdxl_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

constexpr int kDefaultSampleSize = 128;  // SDXL's, where config.json does not say

// Checks that a quarter of a tile is a whole number of latents, and that no picture has very many:
// all of them are in one graph.
absl::Status CheckTiles(const std::string& path, const VaeConfig& vae) {
  const auto* kl = std::get_if<networks::AutoencoderKlConfig>(&vae);
  const int64_t multiple = int64_t{4} * DownscaleOf(vae);
  constexpr int64_t kMinTile = 128;
  if (kl == nullptr) return absl::OkStatus();
  if (kl->sample_size >= kMinTile && kl->sample_size % multiple == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, "/vae/config.json: tiles of sample_size ", kl->sample_size,
                   " are not supported; supported: multiples of ", multiple, " from ", kMinTile,
                   " on, or no tiling"));
}

// Checks that the components that draw with the UNet are there too.
absl::Status CheckNeeds(const ModelRow& row, const ModelConfigs& configs,
                        const ComponentModes& modes) {
  std::vector<std::string> needed = {"vae_decoder"};
  for (const TextEncoder& encoder : configs.text_encoders) needed.push_back(encoder.component);
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
  for (const std::string& component : components) {
    ASSIGN_OR_RETURN(const weights::TensorMap tensors, checkpoint.LoadTensors(component));
    weights->Add(component, tensors);
  }
  return weights;
}

}  // namespace

SdxlModel::SdxlModel(const ModelRow& row, const weights::Checkpoint& checkpoint,
                     ModelConfigs configs)
    : row_(row),
      path_(checkpoint.path()),
      pipeline_class_(checkpoint.pipeline_class()),
      force_zeros_(checkpoint.force_zeros_for_empty_prompt()),
      aesthetics_score_(checkpoint.requires_aesthetics_score()),
      configs_(std::move(configs)) {}

absl::StatusOr<std::unique_ptr<const SdxlModel>> SdxlModel::Load(
    const ModelRow& row, const weights::Checkpoint& checkpoint, weights::WeightStore& store,
    compiler::GraphStore& graphs, const ModelOptions& options) {
  ASSIGN_OR_RETURN(ModelConfigs configs,
                   ReadModelConfigs(checkpoint, options.components, options.scheduler));
  if (options.vae_tiling_above) RETURN_IF_ERROR(CheckTiles(checkpoint.path(), configs.vae));
  std::unique_ptr<SdxlModel> model(new SdxlModel(row, checkpoint, std::move(configs)));
  model->files_read_ = checkpoint.files_read();
  if (IsOff(options.components, FlagNameOf(kUnetName, row.name))) return model;
  RETURN_IF_ERROR(CheckNeeds(row, model->configs_, options.components));
  ASSIGN_OR_RETURN(auto weights, LoadWeights(row, checkpoint, model->configs_, store));
  model->files_read_ = checkpoint.files_read();  // with indices
  auto declared =
      ModelGraphs::Declare(row.name, model->configs_, std::move(weights), options, graphs);
  if (!declared.ok()) {
    return absl::Status(declared.status().code(),
                        absl::StrCat(model->path_, ": ", declared.status().message()));
  }
  model->graphs_ = *std::move(declared);
  return model;
}

absl::StatusOr<schedulers::SchedulerConfig> SdxlModel::SchedulerWith(
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

int SdxlModel::max_clip_skip() const {
  int64_t layers = text_encoders().front().config.num_hidden_layers;
  for (const TextEncoder& encoder : text_encoders()) {
    layers = std::min(layers, encoder.config.num_hidden_layers);
  }
  return static_cast<int>(layers) - 1;  // there are layers + 1 states, the last of which is skipped
}

Size SdxlModel::default_size() const {
  const networks::ConfigReader::Size latent = configs_.unet.sample_size.value_or(
      networks::ConfigReader::Size{kDefaultSampleSize, kDefaultSampleSize});
  const int scale = DownscaleOf(vae());
  return {static_cast<int>(latent.width) * scale, static_cast<int>(latent.height) * scale};
}

}  // namespace latentd::pipeline
