#include "core/pipeline/graphs/model_graphs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/compile.h"
#include "core/families/family/video_family.h"
#include "core/graph/cut.h"
#include "core/graph/low_rank_paths.h"
#include "core/pipeline/graphs/f8_policy.h"
#include "core/pipeline/graphs/precision.h"
#include "core/pipeline/graphs/video_graphs.h"

namespace latentd::pipeline {
namespace {

using device::DType;

// Latent sides at which the networks are built once to find out which weights they want. Any size
// would do: none of them is in a weight's shape, nor in the request part.
constexpr int kProbeSide = 8;

constexpr char kSamplePart[] = "sample";
constexpr char kDecoderName[] = "vae_decoder";

// Graphs that are kept over other weights: those of some sizes, of all row counts and kinds of
// DeepFeatures.
constexpr size_t kMostKept = 3 * 64;

// As labels have it; null: it is no part of a UNet.
const char* PartOfUnet(GraphKind kind) {
  if (kind == GraphKind::kStep) return "step";
  if (kind == GraphKind::kRequest) return "request";
  if (kind == GraphKind::kNetwork) return kNetworkPart;
  return kind == GraphKind::kAdvance ? kAdvancePart : nullptr;
}

// True of networks that adapters change.
bool IsAdapted(GraphKind kind) {
  return kind == GraphKind::kText || kind == GraphKind::kMaskedText ||
         kind == GraphKind::kRequest || kind == GraphKind::kStep || kind == GraphKind::kNetwork;
}

}  // namespace

ModelGraphs::ModelGraphs(std::string model, const families::Family& family,
                         const ModelConfigs& configs,
                         std::shared_ptr<const weights::WeightSet> weights,
                         const ModelOptions& options, compiler::GraphStore& store)
    : model_(std::move(model)),
      family_(family),
      configs_(configs),
      weights_(std::move(weights)),
      options_(options),
      store_(store) {}

absl::StatusOr<std::unique_ptr<ModelGraphs>> ModelGraphs::Declare(
    std::string model, const families::Family& family, const ModelConfigs& configs,
    std::shared_ptr<const weights::WeightSet> weights, const ModelOptions& options,
    compiler::GraphStore& store) {
  std::unique_ptr<ModelGraphs> graphs(
      new ModelGraphs(std::move(model), family, configs, std::move(weights), options, store));
  RETURN_IF_ERROR(graphs->DeclareFixed());
  return graphs;
}

std::unique_ptr<ModelGraphs> ModelGraphs::Over(ModelGraphs& base, std::string user,
                                               std::shared_ptr<const weights::WeightSet> weights,
                                               std::shared_ptr<const AdapterPaths> paths) {
  std::unique_ptr<ModelGraphs> graphs(new ModelGraphs(std::move(user), base.family_, base.configs_,
                                                      std::move(weights), base.options_,
                                                      base.store_));
  graphs->base_ = &base;
  graphs->text_bytes_ = base.text_bytes_;
  graphs->packed_ = base.packed_;
  graphs->step_paths_ = base.step_paths_;
  graphs->adapter_paths_ = std::move(paths);
  return graphs;
}

absl::StatusOr<std::vector<graph::Graph>> ModelGraphs::BuildTexts(bool takes_vectors) const {
  std::vector<graph::Graph> texts;
  for (size_t i = 0; i < configs_.text_encoders.size(); ++i) {
    ASSIGN_OR_RETURN(graph::Graph text,
                     family_.text_graph(configs_, i, {.takes_vectors = takes_vectors}));
    texts.push_back(std::move(text));
  }
  return texts;
}

absl::StatusOr<std::vector<GraphHandle>> ModelGraphs::DeclareTexts(
    const std::vector<graph::Graph>& texts, absl::string_view part) const {
  std::vector<GraphHandle> declared;
  for (size_t i = 0; i < texts.size(); ++i) {
    compiler::GraphLabel label{.model = model_,
                               .component = configs_.text_encoders[i].component,
                               .part = std::string(part)};
    ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(label, texts[i]));
    declared.push_back(DeclareAs(std::move(label), std::move(split.step)));
  }
  return declared;
}

// Declares graphs of one shape only; builds each other graph for one shape to check its weights.
absl::Status ModelGraphs::DeclareFixed() {
  if (family_.videos != nullptr) return DeclareVideos();
  ASSIGN_OR_RETURN(const std::vector<graph::Graph> texts, BuildTexts(/*takes_vectors=*/false));
  for (const graph::Graph& text : texts) {
    for (const graph::Output& output : text.outputs()) {
      const graph::Node& given = text.node(output.value);
      if (output.name == "finite") continue;
      text_bytes_ += given.shape.elements() * device::SizeOf(given.dtype);
    }
  }
  const StepShape probe{1, kProbeSide, kProbeSide};
  ASSIGN_OR_RETURN(const graph::Graph step, BuildWhole({GraphKind::kStep, probe}));
  ASSIGN_OR_RETURN(const graph::Graph decode, BuildWhole({GraphKind::kDecode, probe}));
  ASSIGN_OR_RETURN(const graph::Graph encode, BuildWhole({GraphKind::kEncode, probe}));
  std::vector<const graph::Graph*> all = {&step, &decode};
  if (has_encoder()) all.push_back(&encode);
  for (const graph::Graph& text : texts) all.push_back(&text);
  std::optional<graph::Graph> preview;
  if (has_tiny_vae()) {
    ASSIGN_OR_RETURN(preview, BuildWhole({GraphKind::kPreview, probe}));
    all.push_back(&*preview);
  }
  RETURN_IF_ERROR(CheckWeights(all));

  ASSIGN_OR_RETURN(text_, DeclareTexts(texts, /*part=*/""));
  if (takes_vectors()) {
    ASSIGN_OR_RETURN(const std::vector<graph::Graph> of_vectors, BuildTexts(true));
    ASSIGN_OR_RETURN(text_of_vectors_, DeclareTexts(of_vectors, "vectors"));
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
  FindPaths(label, split.step);
  request_ = DeclareAs(std::move(label), *std::move(split.request));
  return absl::OkStatus();
}

// None in fp8: the bounds that its scales are made of know of no path. None where the reference
// backend runs steps, which may be on another device than what matrices are made on.
void ModelGraphs::FindPaths(const compiler::GraphLabel& label, const graph::Graph& step) {
  const bool reference = IsReference(options_.components, FlagNameOf(kUnetName, model_));
  if (options_.path_slots < 1 || reference || !PrecisionFor(label).f8_weights.empty()) return;
  graph::PathSites at = graph::FindPathSites(step, /*rows=*/1);
  if (at.sites.empty()) return;
  step_paths_ = {options_.path_slots, options_.path_ranks, std::move(at)};
}

int64_t ModelGraphs::request_bytes() const {
  int64_t bytes = 0;
  for (const RowPort& port : packed_) bytes += port.row_bytes();
  return bytes;
}

std::vector<RowPort> ModelGraphs::StepPorts(int64_t elements, const StepShape& shape) const {
  std::vector<RowPort> ports = family_.videos != nullptr ? VideoStepPorts(elements, shape.frames)
                                                         : pipeline::StepPorts(elements);
  if (configs_.inpaints()) {
    const int64_t channels = configs_.unet.out_channels;
    absl::c_move(InpaintingPorts(channels, elements / channels), std::back_inserter(ports));
  }
  for (RowPort packed : packed_) {
    packed.row = {packed.row[0] * shape.chunks};
    ports.push_back(std::move(packed));
  }
  if (shape.deep != DeepFeatures::kNone && has_deep_features()) {
    ports.push_back(DeepPort(configs_.unet, shape.height, shape.width, residual_dtype()));
  }
  if (shape.ranks > 0) {
    absl::c_move(PathPorts(step_paths_.layout().scale_elements), std::back_inserter(ports));
  }
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

DType ModelGraphs::residual_dtype() const {
  return PrecisionFor({.model = model_, .component = std::string(kUnetName)}).dtype;
}

backends::Backend* ModelGraphs::reference() const {
  const bool reference = IsReference(options_.components, FlagNameOf(kUnetName, model_));
  return reference ? options_.reference : nullptr;
}

bool ModelGraphs::has_deep_features() const {
  return family_.videos == nullptr &&
         networks::DeepShape(configs_.unet, kProbeSide, kProbeSide).has_value();
}

DType ModelGraphs::decoder_dtype() const {
  return PrecisionFor({.model = model_, .component = kDecoderName}).dtype;
}

int ModelGraphs::DecoderPartsOf(const StepShape& chunk) const {
  const int64_t scale = DownscaleOf(configs_.vae);
  const int64_t pixels = chunk.frames * chunk.height * scale * chunk.width * scale;
  if (pixels < options_.pixels_in_parts) return 1;
  const int64_t bytes = FeaturesBytes(family_, configs_, chunk, decoder_dtype());
  return bytes <= options_.most_feature_bytes ? family_.videos->decoder_parts(configs_) : 1;
}

int64_t ModelGraphs::FeatureBytesOf(const StepShape& chunk) const {
  if (DecoderPartsOf(chunk) == 1) return 0;
  return FeaturesBytes(family_, configs_, chunk, decoder_dtype());
}

bool ModelGraphs::has_decode_fallback() const {
  return PrecisionOf(options_.precision, "vae_decoder", configs_.vae).dtype == DType::kF16;
}

bool ModelGraphs::has_batch_invariant_steps() const {
  const bool reference = IsReference(options_.components, FlagNameOf(kUnetName, model_));
  return (reference ? options_.reference->target() : store_.target()).batch_invariant;
}

GraphHandle ModelGraphs::FindKept(const GraphName& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = shapes_.find(name);
  return found == shapes_.end() ? nullptr : found->second.lock();
}

absl::StatusOr<GraphHandle> ModelGraphs::FindOver(const GraphName& name, IfUnknown unknown) {
  if (!IsAdapted(name.kind) || name.shape.ranks > 0) return base_->Find(name, unknown);
  if (GraphHandle known = FindKept(name)) return known;
  ASSIGN_OR_RETURN(const GraphHandle base, base_->Find(name, unknown));
  GraphHandle declared = store_.DeclareOver(base, model_, weights_);
  absl::MutexLock lock(&mutex_);
  shapes_[name] = declared;
  kept_.push_back(declared);
  if (kept_.size() > kMostKept) kept_.pop_front();
  return declared;
}

ModelGraphs::Kept ModelGraphs::kept() const {
  Kept kept;
  absl::MutexLock lock(&mutex_);
  for (const GraphHandle& graph : kept_) {
    const compiler::GraphStatus info = store_.StatusOf(graph);
    const bool is_step = compiler::GraphStore::LabelOf(graph).width > 0;
    kept.loaded = kept.loaded || (is_step && info.state == compiler::GraphState::kReady);
    kept.last_use = std::max(kept.last_use, info.last_use);
  }
  return kept;
}

absl::StatusOr<GraphHandle> ModelGraphs::Find(const GraphName& name, IfUnknown unknown) {
  if (base_ != nullptr) return FindOver(name, unknown);
  if (name.kind == GraphKind::kText) {
    const std::vector<GraphHandle>& texts = name.takes_vectors ? text_of_vectors_ : text_;
    return texts[static_cast<size_t>(name.encoder)];
  }
  if (name.kind == GraphKind::kRequest && name.shape.chunks == 1) return request_;
  if (GraphHandle known = FindKept(name)) return known;
  if (unknown == IfUnknown::kRefuse) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(LabelOf(name).ToText(), " is not ready")),
        "GRAPH_COLD");
  }
  ASSIGN_OR_RETURN(graph::Graph graph, Build(name));
  // If two threads build the same graph the store makes one reference.
  GraphHandle declared = DeclareAs(LabelOf(name), std::move(graph));
  absl::MutexLock lock(&mutex_);
  absl::erase_if(shapes_, [](const auto& shape) { return shape.second.expired(); });
  shapes_[name] = declared;
  const bool of_no_size = name.kind == GraphKind::kRequest || name.kind == GraphKind::kMaskedText;
  if (of_no_size) of_no_size_.push_back(declared);
  return declared;
}

absl::StatusOr<graph::Graph> ModelGraphs::Build(const GraphName& name) const {
  ASSIGN_OR_RETURN(const graph::Graph whole, BuildWhole(name));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(LabelOf(name), whole));
  if (name.kind == GraphKind::kRequest) return *std::move(split.request);
  if (name.kind != GraphKind::kStep) return std::move(split.step);
  graph::Graph step = std::move(split.step);
  if (name.shape.ranks > 0) {
    ASSIGN_OR_RETURN(step,
                     graph::AddPaths(step, name.shape.rows, step_paths_.slots, name.shape.ranks));
  }
  if (name.shape.deep != DeepFeatures::kRead) return step;
  return graph::CutAt(step, kDeepPort);
}

absl::StatusOr<graph::Graph> ModelGraphs::BuildWhole(const GraphName& name) const {
  if (family_.videos != nullptr) {
    return MakeVideoGraph(family_, configs_, name, decoder_dtype());
  }
  const StepShape& shape = name.shape;
  switch (name.kind) {
    case GraphKind::kDecode:
    case GraphKind::kDecodeFallback:
      return MakeDecodeGraph(configs_.vae, TilesOf(shape));
    case GraphKind::kEncode:
      return MakeEncodeGraph(configs_.vae, TilesOf(shape), configs_.inpaints());
    case GraphKind::kPreview:
      return MakeDecodeGraph(*configs_.vae_tiny, TileGrid::Whole({shape.height, shape.width}),
                             kVaeTinyName);
    case GraphKind::kSample:
      return MakeSampleGraph(configs_.vae, shape.height, shape.width);
    case GraphKind::kNetwork:
      return MakeNetworkGraph(family_, configs_, shape, residual_dtype());
    case GraphKind::kAdvance:
      return MakeAdvanceGraph(configs_, shape, residual_dtype());
    case GraphKind::kRequest:
      return MakeStepGraph(family_, configs_, {1, kProbeSide, kProbeSide, shape.chunks});
    case GraphKind::kMaskedText:
      return family_.text_graph(configs_, static_cast<size_t>(name.encoder),
                                {.masked = true, .takes_vectors = name.takes_vectors});
    case GraphKind::kHint:
    case GraphKind::kControlRequest:
    case GraphKind::kControl:
    case GraphKind::kImageEncoder:
    case GraphKind::kImagePrompt:
      return absl::InternalError("a model's own graphs are of no network beside it");
    case GraphKind::kStep:
    case GraphKind::kText:
      break;
  }
  return MakeStepGraph(family_, configs_, shape, residual_dtype(), name.controlled);
}

TileGrid ModelGraphs::TilesOf(const StepShape& shape) const {
  const auto* kl = std::get_if<networks::AutoencoderKlConfig>(&configs_.vae);
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
  const std::string component = FlagNameOf(label.component, model_);
  graph::Precision precision =
      family_.videos != nullptr ? VideoPrecisionOf(options_.precision, component, family_, configs_)
                                : PrecisionOf(options_.precision, component, configs_.vae);
  if (options_.f8_convolutions && !precision.f8_weights.empty()) AddF8Convolutions(precision);
  return precision;
}

DType ModelGraphs::DTypeFor(const compiler::GraphLabel& label) const {
  const graph::Precision precision = PrecisionFor(label);
  return precision.f8_weights.empty() ? precision.dtype : DType::kF8E4M3;
}

compiler::GraphLabel ModelGraphs::LabelOf(const GraphName& name) const {
  const int scale = DownscaleOf(configs_.vae);
  compiler::GraphLabel label{.model = model_,
                             .width = name.shape.width * scale,
                             .height = name.shape.height * scale,
                             .rows = name.shape.rows,
                             .frames = name.shape.frames};
  label.fallback = name.kind == GraphKind::kDecodeFallback;
  if (name.kind == GraphKind::kDecode || label.fallback) label.component = kDecoderName;
  if (name.part > 0) {
    label.part = absl::StrCat(name.part, "_of_", family_.videos->decoder_parts(configs_));
  }
  if (name.kind == GraphKind::kEncode || name.kind == GraphKind::kSample)
    label.component = "vae_encoder";
  if (name.kind == GraphKind::kMaskedText) {
    label.component = configs_.text_encoders[static_cast<size_t>(name.encoder)].component;
    label.part = name.takes_vectors ? "masked_vectors" : "masked";
  }
  if (name.kind == GraphKind::kPreview) label.component = std::string(kVaeTinyName);
  if (name.kind == GraphKind::kSample) label.part = kSamplePart;
  if (const char* part = PartOfUnet(name.kind)) {
    label.component = std::string(kUnetName);
    label.part = part;
    if (name.shape.chunks > 1) absl::StrAppend(&label.part, "_", name.shape.chunks, "_chunks");
    if (name.shape.ranks > 0) absl::StrAppend(&label.part, "_", name.shape.ranks, "_ranks");
    if (name.shape.deep == DeepFeatures::kGiven) absl::StrAppend(&label.part, "_full");
    if (name.shape.deep == DeepFeatures::kRead) absl::StrAppend(&label.part, "_shallow");
    if (name.controlled) absl::StrAppend(&label.part, "_controlled");
    if (!name.shape.image_tokens.empty()) {
      absl::StrAppend(&label.part, "_image_", absl::StrJoin(name.shape.image_tokens, "_"));
    }
  }
  label.dtype = DTypeFor(label);
  return label;
}

GraphHandle ModelGraphs::DeclareAs(compiler::GraphLabel label, graph::Graph graph) const {
  const bool reference = IsReference(options_.components, FlagNameOf(label.component, model_));
  label.dtype = DTypeFor(label);
  return store_.Declare({.label = std::move(label),
                         .graph = std::make_shared<const graph::Graph>(std::move(graph)),
                         .weights = weights_,
                         .backend = reference ? options_.reference : nullptr});
}

}  // namespace latentd::pipeline
