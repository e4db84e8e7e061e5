#include "core/pipeline/units/acquisition.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {
namespace {

using IfUnknown = ModelGraphs::IfUnknown;

Stage& StageOf(const PlannedGraph& graph, Request& request) {
  return *absl::c_find_if(request.stages,
                          [&](const Stage& stage) { return stage.model.row().id == graph.model; });
}

StepLane::Executables& StepsOf(const PlannedGraph& graph, Request& request) {
  Stage& stage = StageOf(graph, request);
  return graph.name.shape.deep == DeepFeatures::kRead ? stage.shallow_steps : stage.steps;
}

// A full step of more rows is of no use without the shallow one, nor the other way round.
void DropUnpaired(Stage& stage) {
  if (!stage.planned.caches()) return;
  std::erase_if(stage.steps,
                [&](const auto& step) { return !stage.shallow_steps.contains(step.first); });
  std::erase_if(stage.shallow_steps,
                [&](const auto& step) { return !stage.steps.contains(step.first); });
}

// The member of the request, or of the stage of the graph's model, that runs such a graph.
ExecutablePointer& MemberFor(const PlannedGraph& graph, Request& request) {
  const bool of_frames = request.spec().video.has_value();
  switch (graph.name.kind) {
    case GraphKind::kText:
      return StageOf(graph, request).text.emplace_back();
    case GraphKind::kMaskedText:
      return StageOf(graph, request).masked_text.emplace_back();
    case GraphKind::kRequest:
      return StageOf(graph, request).request_part;
    case GraphKind::kStep:
      return StepsOf(graph, request)[graph.name.shape.rows];
    case GraphKind::kNetwork:
      return StageOf(graph, request).network;
    case GraphKind::kAdvance:
      return StageOf(graph, request).advance;
    case GraphKind::kEncode:
      return request.encode;
    case GraphKind::kSample:
      return request.sample;
    case GraphKind::kDecodeFallback:
      if (of_frames) return request.chunk_fallbacks[graph.name.shape.frames].emplace_back();
      return request.decode_fallback;
    case GraphKind::kPreview:
      return request.preview;
    case GraphKind::kDecode:
    case GraphKind::kHint:
    case GraphKind::kControlRequest:
    case GraphKind::kControl:
    case GraphKind::kImageEncoder:
    case GraphKind::kImagePrompt:
      break;
  }
  return of_frames ? request.chunks[graph.name.shape.frames].emplace_back() : request.decode;
}

// Gives each control of the request that is that net the executable.
void SetControl(const PlannedGraph& graph, const ExecutablePointer& executable, Request& request) {
  for (size_t i = 0; i < request.controls.size(); ++i) {
    if (request.plan->controls[i].id != graph.net) continue;
    RequestControl& control = request.controls[i];
    if (graph.name.kind == GraphKind::kHint) control.hint = executable;
    if (graph.name.kind == GraphKind::kControlRequest) control.request_part = executable;
    if (graph.name.kind == GraphKind::kControl) {
      control.steps[graph.name.shape.rows] = executable;
    }
  }
}

absl::Status AcquireControl(const PlannedGraph& graph, compiler::Purpose purpose,
                            Request& request) {
  const auto planned = absl::c_find_if(request.plan->controls, [&](const PlannedControl& control) {
    return control.id == graph.net;
  });
  const auto index = static_cast<size_t>(planned - request.plan->controls.begin());
  NetGraphs& graphs = *request.controls[index].graphs;
  const bool builds = purpose.mode != compiler::GetMode::kReady;
  ASSIGN_OR_RETURN(GraphHandle handle,
                   graphs.Find(graph.name, builds ? IfUnknown::kBuild : IfUnknown::kRefuse));
  ASSIGN_OR_RETURN(const ExecutablePointer executable, graphs.Get(handle, purpose));
  request.graphs.push_back(std::move(handle));
  SetControl(graph, executable, request);
  return absl::OkStatus();
}

// Sets it for all with that id: of an adapter that the request has twice, those with as many
// images share it.
void SetImagePrompt(const PlannedGraph& graph, const ExecutablePointer& executable,
                    Request& request) {
  for (size_t i = 0; i < request.image_prompts.size(); ++i) {
    const PlannedImagePrompt& planned = request.plan->image_prompts[i];
    if (planned.id != graph.net) continue;
    RequestImagePrompt& prompt = request.image_prompts[i];
    if (graph.name.kind == GraphKind::kImageEncoder) prompt.encoder = executable;
    if (graph.name.kind == GraphKind::kImagePrompt && graph.name.shape.rows == planned.images) {
      prompt.prompt = executable;
    }
  }
}

absl::Status AcquireImagePrompt(const PlannedGraph& graph, NetGraphs& graphs,
                                compiler::Purpose purpose, Request& request) {
  const bool builds = purpose.mode != compiler::GetMode::kReady;
  ASSIGN_OR_RETURN(GraphHandle handle,
                   graphs.Find(graph.name, builds ? IfUnknown::kBuild : IfUnknown::kRefuse));
  ASSIGN_OR_RETURN(const ExecutablePointer executable, graphs.Get(handle, purpose));
  request.graphs.push_back(std::move(handle));
  SetImagePrompt(graph, executable, request);
  return absl::OkStatus();
}

// Graphs of the image prompt with that id; null: it is none's.
NetGraphs* ImagePromptGraphsOf(uint64_t net, const Request& request) {
  for (size_t i = 0; net != 0 && i < request.image_prompts.size(); ++i) {
    if (request.plan->image_prompts[i].id == net) return request.image_prompts[i].graphs.get();
  }
  return nullptr;
}

absl::Status AcquireOne(const PlannedGraph& graph, compiler::Purpose purpose, Request& request) {
  if (NetGraphs* graphs = ImagePromptGraphsOf(graph.net, request)) {
    return AcquireImagePrompt(graph, *graphs, purpose, request);
  }
  if (graph.net != 0) return AcquireControl(graph, purpose, request);
  const bool builds = purpose.mode != compiler::GetMode::kReady;
  ModelGraphs& graphs = StageOf(graph, request).graphs();
  ASSIGN_OR_RETURN(GraphHandle handle,
                   graphs.Find(graph.name, builds ? IfUnknown::kBuild : IfUnknown::kRefuse));
  ASSIGN_OR_RETURN(ExecutablePointer executable, graphs.Get(handle, purpose));
  request.graphs.push_back(std::move(handle));
  MemberFor(graph, request) = std::move(executable);
  return absl::OkStatus();
}

// No image is refused for what it can do without, nor does anything leave memory for that.
void TryAcquire(const PlannedGraph& graph, compiler::Purpose purpose, Request& request) {
  if (graph.name.kind != GraphKind::kPreview) purpose = {.mode = compiler::GetMode::kReady};
  purpose.displaces_nothing = true;
  AcquireOne(graph, purpose, request).IgnoreError();
}

}  // namespace

absl::Status Acquire(compiler::Purpose purpose, Request& request) {
  for (const PlannedGraph& graph : request.plan->graphs) {
    RETURN_IF_ERROR(AcquireOne(graph, purpose, request));
  }
  for (const PlannedGraph& graph : request.plan->dispensable) TryAcquire(graph, purpose, request);
  for (Stage& stage : request.stages) DropUnpaired(stage);
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
