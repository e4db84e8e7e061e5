#include "core/pipeline/sdxl_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/graph/split.h"
#include "core/pipeline/model_configs.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;

// Latent sides at which the networks are built once to find out which weights they want. Any size
// would do: none of them is in a weight's shape, nor in the request part.
constexpr int kProbeSide = 8;
constexpr int kDefaultSampleSize = 128;  // SDXL's, where config.json does not say

}  // namespace

SdxlModel::SdxlModel(Model which, const weights::Checkpoint& checkpoint,
                     compiler::GraphStore& graphs)
    : which_(which),
      path_(checkpoint.path()),
      pipeline_class_(checkpoint.pipeline_class()),
      force_zeros_(checkpoint.force_zeros_for_empty_prompt()),
      aesthetics_score_(checkpoint.requires_aesthetics_score()),
      graphs_(graphs) {}

absl::StatusOr<std::unique_ptr<const SdxlModel>> SdxlModel::Load(
    Model which, const weights::Checkpoint& checkpoint, weights::WeightStore& store,
    compiler::GraphStore& graphs) {
  std::unique_ptr<SdxlModel> model(new SdxlModel(which, checkpoint, graphs));
  ASSIGN_OR_RETURN(ModelConfigs configs, ReadModelConfigs(checkpoint));
  model->scheduler_json_ = std::move(configs.scheduler_json);
  model->text_encoders_ = std::move(configs.text_encoders);
  model->unet_ = std::move(configs.unet);
  model->vae_ = std::move(configs.vae);
  model->sizes_ = configs.conditioning;
  RETURN_IF_ERROR(model->LoadWeights(checkpoint, store));
  RETURN_IF_ERROR(model->MakeRequestGraph());
  return model;
}

absl::Status SdxlModel::LoadWeights(const weights::Checkpoint& checkpoint,
                                    weights::WeightStore& store) {
  auto weights = std::make_shared<weights::WeightSet>(&store);
  std::vector<std::string> components = {"unet", "vae"};
  for (const TextEncoder& encoder : text_encoders_) components.push_back(encoder.component);
  for (const std::string& component : components) {
    ASSIGN_OR_RETURN(const weights::TensorMap tensors, checkpoint.LoadTensors(component));
    weights->Add(component, tensors);
  }
  weights_ = std::move(weights);
  return CheckWeights();
}

absl::Status SdxlModel::CheckWeights() const {
  std::vector<graph::Graph> graphs;
  for (const TextEncoder& encoder : text_encoders_) {
    ASSIGN_OR_RETURN(graph::Graph text, TextGraph(encoder));
    graphs.push_back(std::move(text));
  }
  ASSIGN_OR_RETURN(graph::Graph step, StepGraph({1, kProbeSide, kProbeSide}));
  graphs.push_back(std::move(step));
  ASSIGN_OR_RETURN(graph::Graph decode,
                   MakeDecodeGraph(vae_, kProbeSide, kProbeSide, StoredDType()));
  graphs.push_back(std::move(decode));
  ASSIGN_OR_RETURN(graph::Graph encode,
                   MakeEncodeGraph(vae_, kProbeSide, kProbeSide, StoredDType()));
  graphs.push_back(std::move(encode));
  std::string mistakes;
  for (const graph::Graph& graph : graphs) {
    const absl::Status status = weights_->Check(graph);
    if (!status.ok()) absl::StrAppend(&mistakes, mistakes.empty() ? "" : "; ", status.message());
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", mistakes));
}

absl::Status SdxlModel::MakeRequestGraph() {
  ASSIGN_OR_RETURN(const graph::Graph step, StepGraph({1, kProbeSide, kProbeSide}));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, graph::SplitByRate(step));
  if (!split.request) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": the UNet reads no prompt"));
  }
  const graph::Output& output = split.request->outputs().front();
  request_size_ = split.request->node(output.value).shape[1];
  request_graph_ = std::make_unique<const graph::Graph>(*std::move(split.request));
  return absl::OkStatus();
}

int SdxlModel::max_clip_skip() const {
  int64_t layers = text_encoders_.front().config.num_hidden_layers;
  for (const TextEncoder& encoder : text_encoders_) {
    layers = std::min(layers, encoder.config.num_hidden_layers);
  }
  return static_cast<int>(layers) - 1;  // there are layers + 1 states, the last of which is skipped
}

Size SdxlModel::default_size() const {
  const models::ConfigReader::Size latent = unet_.sample_size.value_or(
      models::ConfigReader::Size{kDefaultSampleSize, kDefaultSampleSize});
  const int scale = DownscaleOf(vae_);
  return {static_cast<int>(latent.width) * scale, static_cast<int>(latent.height) * scale};
}

GraphBuilder::StoredDType SdxlModel::StoredDType() const {
  return [this](const std::string& name) { return weights_->StoredDType(name); };
}

absl::StatusOr<graph::Graph> SdxlModel::TextGraph(const TextEncoder& encoder) const {
  GraphBuilder b(StoredDType());
  const models::ClipTextInputs inputs{
      b.Input("input_ids", DType::kI64, {1, encoder.tokenizer->max_length()}, Rate::kStep),
      b.Input("pooled_position", DType::kI64, {1}, Rate::kStep)};
  const models::ClipTextOutputs outputs =
      models::ClipText(b, encoder.config, encoder.component, inputs);
  for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
    b.Output(absl::StrCat("hidden_states.", i), outputs.hidden_states[i]);
  }
  b.Output("pooled", outputs.pooled);
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> SdxlModel::StepGraph(const StepShape& shape) const {
  return MakeStepGraph(unet_, shape, sizes_, StoredDType());
}

absl::StatusOr<ExecutablePointer> SdxlModel::Executable(const graph::Graph& graph) const {
  return graphs_.GetOrLoad(graph, weights_);
}

absl::StatusOr<ExecutablePointer> SdxlModel::Text(size_t encoder) const {
  ASSIGN_OR_RETURN(const graph::Graph graph, TextGraph(text_encoders_[encoder]));
  return Executable(graph);
}

absl::StatusOr<ExecutablePointer> SdxlModel::RequestPart() const {
  return Executable(*request_graph_);
}

absl::StatusOr<ExecutablePointer> SdxlModel::Step(const StepShape& shape) const {
  ASSIGN_OR_RETURN(const graph::Graph graph, StepGraph(shape));
  ASSIGN_OR_RETURN(const graph::SplitGraphs split, graph::SplitByRate(graph));
  return Executable(split.step);
}

absl::StatusOr<ExecutablePointer> SdxlModel::Decode(int height, int width) const {
  ASSIGN_OR_RETURN(const graph::Graph graph, MakeDecodeGraph(vae_, height, width, StoredDType()));
  return Executable(graph);
}

absl::StatusOr<ExecutablePointer> SdxlModel::Encode(int height, int width) const {
  ASSIGN_OR_RETURN(const graph::Graph graph, MakeEncodeGraph(vae_, height, width, StoredDType()));
  return Executable(graph);
}

}  // namespace latentd::pipeline
