#include "core/pipeline/graphs/video_graphs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/video_family.h"
#include "core/pipeline/graphs/model_graphs.h"
#include "core/pipeline/graphs/precision.h"
#include "core/pipeline/graphs/step_graph.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using families::FramesShape;

// Sides at which networks are built to find out which weights they want.
constexpr int kVideoProbeSide = 8;

FramesShape FramesShapeOf(const StepShape& shape) {
  return {shape.rows, shape.frames, shape.height, shape.width};
}

}  // namespace

absl::StatusOr<graph::Graph> MakeVideoGraph(const families::Family& family,
                                            const families::ModelConfigs& configs,
                                            const GraphName& name, DType decoder) {
  const families::VideoFamily& videos = *family.videos;
  const FramesShape shape = FramesShapeOf(name.shape);
  switch (name.kind) {
    case GraphKind::kText:
      return videos.encoder_graph(configs);
    case GraphKind::kEncode: {
      const int64_t scale = DownscaleOf(configs.vae);
      return videos.latents_graph(configs, shape.height * scale, shape.width * scale);
    }
    case GraphKind::kDecode:
    case GraphKind::kDecodeFallback:
      return videos.frames_graph(configs, shape, {name.part, decoder});
    case GraphKind::kRequest:
      return videos.step_graph(configs, {1, 1, kVideoProbeSide, kVideoProbeSide});
    case GraphKind::kStep:
      return videos.step_graph(configs, shape);
    case GraphKind::kNetwork:
    case GraphKind::kAdvance:
    case GraphKind::kMaskedText:
    case GraphKind::kSample:
    case GraphKind::kPreview:
    case GraphKind::kHint:
    case GraphKind::kControlRequest:
    case GraphKind::kControl:
    case GraphKind::kImageEncoder:
    case GraphKind::kImagePrompt:
      break;
  }
  return absl::InternalError("a model that draws videos has no such graph");
}

int64_t FeaturesBytes(const families::Family& family, const families::ModelConfigs& configs,
                      const StepShape& chunk, DType decoder) {
  const families::VideoFamily& videos = *family.videos;
  int64_t read = 0, most = 0;
  for (int part = 2; part <= videos.decoder_parts(configs); ++part) {
    const int64_t given = videos.features_shape(configs, FramesShapeOf(chunk), part).elements() *
                          device::SizeOf(decoder);
    most = std::max(most, read + given);
    read = given;
  }
  return most;
}

std::vector<RowPort> VideoPorts(int64_t elements, int frames) {
  return {{.name = families::kFrameGuidance, .rate = PortRate::kStep, .row = {frames}},
          {.name = families::kImageLatents, .rate = PortRate::kStep, .row = {elements / frames}}};
}

std::vector<RowPort> VideoStepPorts(int64_t elements, int frames) {
  std::vector<RowPort> ports = StepPorts(elements);
  std::erase_if(ports, [](const RowPort& port) {
    return port.role == PortRole::kValue || port.role == PortRole::kContrast;
  });
  absl::c_move(VideoPorts(elements, frames), std::back_inserter(ports));
  return ports;
}

graph::Precision VideoPrecisionOf(const ComponentDTypes& wanted, absl::string_view component,
                                  const families::Family& family,
                                  const families::ModelConfigs& configs) {
  const DType dtype = DTypeOf(wanted, component);
  if (dtype == DType::kF8E4M3) return F8Precision(component);
  return {component == "vae_encoder" ? family.videos->latents_dtype(configs, dtype) : dtype};
}

// Declares the image encoder, and builds each other graph for one shape to check its weights.
absl::Status ModelGraphs::DeclareVideos() {
  const StepShape probe{1, kVideoProbeSide, kVideoProbeSide};
  ASSIGN_OR_RETURN(const graph::Graph encoder, BuildWhole({.kind = GraphKind::kText}));
  ASSIGN_OR_RETURN(const graph::Graph step, BuildWhole({GraphKind::kStep, probe}));
  ASSIGN_OR_RETURN(const graph::Graph decode, BuildWhole({GraphKind::kDecode, probe}));
  ASSIGN_OR_RETURN(const graph::Graph encode, BuildWhole({GraphKind::kEncode, probe}));
  RETURN_IF_ERROR(CheckWeights({&encoder, &step, &decode, &encode}));
  for (const graph::Output& output : encoder.outputs()) {
    const graph::Node& given = encoder.node(output.value);
    text_bytes_ += given.shape.elements() * device::SizeOf(given.dtype);
  }
  compiler::GraphLabel label{.model = model_, .component = families::kImageEncoder};
  ASSIGN_OR_RETURN(graph::SplitGraphs split, Split(label, encoder));
  text_.push_back(DeclareAs(std::move(label), std::move(split.step)));
  return DeclareRequest(step);
}

}  // namespace latentd::pipeline
