#include "core/pipeline/model_graphs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/compiler/compile.h"
#include "core/pipeline/precision.h"
#include "core/pipeline/text_graphs.h"

namespace latentd::pipeline {
namespace {

using device::DType;

// Latent sides at which the networks are built once to find out which weights they want. Any size
// would do: none of them is in a weight's shape, nor in the request part.
constexpr int kProbeSide = 8;

constexpr char kSamplePart[] = "sample";

}  // namespace

ModelGraphs::ModelGraphs(std::string model, const ModelConfigs& configs,
                         std::shared_ptr<const weights::WeightSet> weights,
                         const ModelOptions& options, compiler::GraphStore& store)
    : model_(std::move(model)),
      configs_(configs),
      weights_(std::move(weights)),
      options_(options),
      store_(store) {}

absl::StatusOr<std::unique_ptr<ModelGraphs>> ModelGraphs::Declare(
    std::string model, const ModelConfigs& configs,
    std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
    compiler::GraphStore& store) {
  std::unique_ptr<ModelGraphs> graphs(
      new ModelGraphs(std::move(model), configs, std::move(weights), options, store));
  RETURN_IF_ERROR(graphs->DeclareFixed());
  return graphs;
}

// Declares graphs of one shape only; builds each other graph for one shape to check its weights.
absl::Status ModelGraphs::DeclareFixed() {
  std::vector<graph::Graph> texts;
  for (const TextEncoder& encoder : configs_.text_encoders) {
    ASSIGN_OR_RETURN(graph::Graph text, MakeTextGraph(encoder));
    texts.push_back(std::move(text));
  }
  const StepShape probe{1, kProbeSide, kProbeSide};
  ASSIGN_OR_RETURN(const graph::Graph step, BuildWhole({Kind::kStep, probe}));
  ASSIGN_OR_RETURN(const graph::Graph decode, BuildWhole({Kind::kDecode, probe}));
  ASSIGN_OR_RETURN(const graph::Graph encode, BuildWhole({Kind::kEncode, probe}));
  std::vector<const graph::Graph*> all = {&step, &decode};
  if (!IsOff(options_.components, "vae_encoder")) all.push_back(&encode);
  for (const graph::Graph& text : texts) all.push_back(&text);
  std::optional<graph::Graph> preview;
  if (has_tiny_vae()) {
    ASSIGN_OR_RETURN(preview, BuildWhole({Kind::kPreview, probe}));
    all.push_back(&*preview);
  }
  RETURN_IF_ERROR(CheckWeights(all));

  for (size_t i = 0; i < texts.size(); ++i) {
    compiler::GraphLabel label{.model = model_, .component = configs_.text_encoders[i].component};
    ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(label, texts[i]));
    text_.push_back(DeclareAs(std::move(label), std::move(split.step)));
  }
  return DeclareRequest(step);
}

absl::Status ModelGraphs::DeclareRequest(const graph::Graph& step) {
  compiler::GraphLabel label{
      .model = model_, .component = std::string(kUnetName), .part = "request"};
  ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(label, step));
  if (!split.request) return absl::InvalidArgumentError("the UNet reads no prompt");
  for (const graph::Output& output : split.request->outputs()) {
    const graph::Node& packed = split.request->node(output.value);
    packed_.push_back({.name = output.name, .dtype = packed.dtype, .row = {packed.shape[1]}});
  }
  request_ = DeclareAs(std::move(label), *std::move(split.request));
  return absl::OkStatus();
}

int64_t ModelGraphs::request_bytes() const {
  int64_t bytes = 0;
  for (const RowPort& port : packed_) bytes += port.row_bytes();
  return bytes;
}

std::vector<RowPort> ModelGraphs::StepPorts(int64_t elements) const {
  std::vector<RowPort> ports = pipeline::StepPorts(elements);
  ports.insert(ports.end(), packed_.begin(), packed_.end());
  return ports;
}

absl::Status ModelGraphs::CheckWeights(const std::vector<const graph::Graph*>& graphs) const {
  std::string mistakes;
  for (const graph::Graph* graph : graphs) {
    const absl::Status status = weights_->Check(*graph);
    if (!status.ok()) absl::StrAppend(&mistakes, mistakes.empty() ? "" : "; ", status.message());
  }
  return mistakes.empty() ? absl::OkStatus() : absl::InvalidArgumentError(mistakes);
}

absl::StatusOr<GraphHandle> ModelGraphs::Step(const StepShape& shape, IfUnknown unknown) {
  return FindOrBuild({Kind::kStep, shape}, unknown);
}

absl::StatusOr<GraphHandle> ModelGraphs::Decode(int height, int width, IfUnknown unknown) {
  return FindOrBuild({Kind::kDecode, {1, height, width}}, unknown);
}

absl::StatusOr<GraphHandle> ModelGraphs::Encode(int height, int width, IfUnknown unknown) {
  return FindOrBuild({Kind::kEncode, {1, height, width}}, unknown);
}

absl::StatusOr<GraphHandle> ModelGraphs::Sample(int height, int width, IfUnknown unknown) {
  return FindOrBuild({Kind::kSample, {1, height, width}}, unknown);
}

bool ModelGraphs::has_decode_fallback() const {
  return PrecisionOf(options_.precision, "vae_decoder", configs_.vae).dtype == DType::kF16;
}

bool ModelGraphs::has_batch_invariant_steps() const {
  const bool reference = IsReference(options_.components, FlagNameOf(kUnetName, model_));
  return (reference ? options_.reference->target() : store_.target()).batch_invariant;
}

absl::StatusOr<GraphHandle> ModelGraphs::DecodeFallback(int height, int width, IfUnknown unknown) {
  return FindOrBuild({Kind::kDecodeFallback, {1, height, width}}, unknown);
}

absl::StatusOr<GraphHandle> ModelGraphs::Preview(int height, int width, IfUnknown unknown) {
  return FindOrBuild({Kind::kPreview, {1, height, width}}, unknown);
}

GraphHandle ModelGraphs::Find(const Key& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = shapes_.find(key);
  return found == shapes_.end() ? nullptr : found->second.lock();
}

absl::StatusOr<GraphHandle> ModelGraphs::FindOrBuild(const Key& key, IfUnknown unknown) {
  if (GraphHandle known = Find(key)) return known;
  if (unknown == IfUnknown::kRefuse) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(LabelOf(key).ToText(), " is not ready")),
        "GRAPH_COLD");
  }
  ASSIGN_OR_RETURN(graph::Graph graph, Build(key));
  // If two threads build the same graph the store makes one reference.
  GraphHandle declared = DeclareAs(LabelOf(key), std::move(graph));
  absl::MutexLock lock(&mutex_);
  absl::erase_if(shapes_, [](const auto& shape) { return shape.second.expired(); });
  shapes_[key] = declared;
  return declared;
}

absl::StatusOr<graph::Graph> ModelGraphs::Build(const Key& key) const {
  ASSIGN_OR_RETURN(const graph::Graph whole, BuildWhole(key));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(LabelOf(key), whole));
  return std::move(split.step);
}

absl::StatusOr<graph::Graph> ModelGraphs::BuildWhole(const Key& key) const {
  const StepShape& shape = key.shape;
  switch (key.kind) {
    case Kind::kDecode:
    case Kind::kDecodeFallback:
      return MakeDecodeGraph(configs_.vae, TilesOf(shape));
    case Kind::kEncode:
      return MakeEncodeGraph(configs_.vae, TilesOf(shape));
    case Kind::kPreview:
      return MakeDecodeGraph(*configs_.vae_tiny, TileGrid::Whole({shape.height, shape.width}),
                             kVaeTinyName);
    case Kind::kSample:
      return MakeSampleGraph(configs_.vae, shape.height, shape.width);
    case Kind::kStep:
      break;
  }
  return MakeStepGraph(configs_.unet, shape, configs_.conditioning);
}

TileGrid ModelGraphs::TilesOf(const StepShape& shape) const {
  const auto* kl = std::get_if<models::AutoencoderKlConfig>(&configs_.vae);
  const int64_t scale = DownscaleOf(configs_.vae);
  const int64_t pixels = shape.height * scale * shape.width * scale;
  if (kl == nullptr || pixels <= options_.vae_tiling_above.value_or(pixels)) {
    return TileGrid::Whole({shape.height, shape.width});
  }
  return TileGrid::Overlapping({shape.height, shape.width},
                               static_cast<int>(kl->sample_size / scale));
}

absl::StatusOr<graph::SplitGraphs> ModelGraphs::Split(const compiler::GraphLabel& label,
                                                      const graph::Graph& graph) const {
  return compiler::SplitInPrecision(graph, PrecisionFor(label));
}

graph::Precision ModelGraphs::PrecisionFor(const compiler::GraphLabel& label) const {
  if (label.fallback || label.part == kSamplePart) return {};
  return PrecisionOf(options_.precision, FlagNameOf(label.component, model_), configs_.vae);
}

compiler::GraphLabel ModelGraphs::LabelOf(const Key& key) const {
  const int scale = DownscaleOf(configs_.vae);
  compiler::GraphLabel label{.model = model_,
                             .width = key.shape.width * scale,
                             .height = key.shape.height * scale,
                             .rows = key.shape.rows};
  label.fallback = key.kind == Kind::kDecodeFallback;
  if (key.kind == Kind::kDecode || label.fallback) label.component = "vae_decoder";
  if (key.kind == Kind::kEncode || key.kind == Kind::kSample) label.component = "vae_encoder";
  if (key.kind == Kind::kPreview) label.component = std::string(kVaeTinyName);
  if (key.kind == Kind::kSample) label.part = kSamplePart;
  if (key.kind == Kind::kStep) {
    label.component = std::string(kUnetName);
    label.part = "step";
  }
  label.dtype = PrecisionFor(label).dtype;
  return label;
}

GraphHandle ModelGraphs::DeclareAs(compiler::GraphLabel label, graph::Graph graph) const {
  const bool reference = IsReference(options_.components, FlagNameOf(label.component, model_));
  label.dtype = PrecisionFor(label).dtype;
  return store_.Declare({.label = std::move(label),
                         .graph = std::make_shared<const graph::Graph>(std::move(graph)),
                         .weights = weights_,
                         .backend = reference ? options_.reference : nullptr});
}

}  // namespace latentd::pipeline
