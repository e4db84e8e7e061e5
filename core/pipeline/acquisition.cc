#include "core/pipeline/acquisition.h"

#include <utility>
#include <vector>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

using IfUnknown = ModelGraphs::IfUnknown;

IfUnknown IfUnknownFor(compiler::Purpose purpose) {
  return purpose.mode == compiler::GetMode::kReady ? IfUnknown::kRefuse : IfUnknown::kBuild;
}

absl::Status AcquireStep(const StepShape& shape, compiler::Purpose purpose, Stage& stage,
                         std::vector<GraphHandle>& kept) {
  ModelGraphs& graphs = stage.model->graphs();
  ASSIGN_OR_RETURN(const GraphHandle step, graphs.Step(shape, IfUnknownFor(purpose)));
  ASSIGN_OR_RETURN(stage.steps[shape.rows], graphs.Get(step, purpose));
  kept.push_back(step);
  return absl::OkStatus();
}

// Steps of more rows than the picture has, those of `row_counts`, where they are ready.
void AcquireSharedSteps(StepShape shape, absl::Span<const int> row_counts, Stage& stage,
                        std::vector<GraphHandle>& kept) {
  const int own_rows = shape.rows;
  for (int rows : row_counts) {
    if (rows <= own_rows) continue;
    shape.rows = rows;
    AcquireStep(shape, {.mode = compiler::GetMode::kReady}, stage, kept).IgnoreError();
  }
}

absl::Status Acquire(const StepShape& shape, compiler::Purpose purpose, Stage& stage,
                     std::vector<GraphHandle>& kept) {
  ModelGraphs& graphs = stage.model->graphs();
  for (const GraphHandle& text : graphs.text()) {
    ASSIGN_OR_RETURN(ExecutablePointer executable, graphs.Get(text, purpose));
    stage.text.push_back(std::move(executable));
  }
  ASSIGN_OR_RETURN(stage.request_part, graphs.Get(graphs.request(), purpose));
  return AcquireStep(shape, purpose, stage, kept);
}

using VaeGraph = absl::StatusOr<GraphHandle> (ModelGraphs::*)(int height, int width, IfUnknown);

absl::StatusOr<ExecutablePointer> Acquire(const SdxlModel& model, VaeGraph graph_of,
                                          compiler::Purpose purpose, Request& request) {
  ASSIGN_OR_RETURN(GraphHandle graph,
                   (model.graphs().*graph_of)(request.latent_height, request.latent_width,
                                              IfUnknownFor(purpose)));
  ASSIGN_OR_RETURN(ExecutablePointer executable, model.graphs().Get(graph, purpose));
  request.graphs.push_back(std::move(graph));
  return executable;
}

// A picture is never refused for its previews, nor does anything leave memory for them.
void AcquirePreview(const SdxlModel& model, compiler::Purpose purpose, Request& request) {
  purpose.displaces_nothing = true;
  CatchOutOfMemory([&] {
    ASSIGN_OR_RETURN(request.preview, Acquire(model, &ModelGraphs::Preview, purpose, request));
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace

bool NeedsDecoderOf(const SdxlModel& last, const PictureSpec& resolved) {
  return !resolved.output_latents || (resolved.previews_every && !KnownColors(last.vae()));
}

const SdxlModel* WithTinyVae(absl::Span<const SdxlModel* const> models) {
  const SdxlModel* last = nullptr;
  for (const SdxlModel* model : models) {
    if (model->graphs().has_tiny_vae()) last = model;
  }
  return last;
}

absl::Status Acquire(compiler::Purpose purpose, const PictureSpec& resolved,
                     absl::Span<const int> row_counts, Request& request) {
  const StepShape shape{request.rows, request.latent_height, request.latent_width};
  for (Stage& stage : request.stages) {
    RETURN_IF_ERROR(Acquire(shape, purpose, stage, request.graphs));
    if (request.has_unguided_steps) {
      const StepShape narrow{1, shape.height, shape.width};
      RETURN_IF_ERROR(AcquireStep(narrow, purpose, stage, request.graphs));
    }
    if (!request.alone) AcquireSharedSteps(shape, row_counts, stage, request.graphs);
  }
  const SdxlModel& first = *request.stages.front().model;
  const SdxlModel& last = *request.stages.back().model;
  if (!resolved.image.empty()) {
    ASSIGN_OR_RETURN(request.encode, Acquire(first, &ModelGraphs::Encode, purpose, request));
    ASSIGN_OR_RETURN(request.sample, Acquire(first, &ModelGraphs::Sample, purpose, request));
  }
  std::vector<const SdxlModel*> models;
  for (const Stage& stage : request.stages) models.push_back(stage.model);
  const SdxlModel* with_tiny_vae = resolved.previews_every ? WithTinyVae(models) : nullptr;
  if (with_tiny_vae != nullptr) AcquirePreview(*with_tiny_vae, purpose, request);
  if (!NeedsDecoderOf(last, resolved)) return absl::OkStatus();
  ASSIGN_OR_RETURN(request.decode, Acquire(last, &ModelGraphs::Decode, purpose, request));
  if (!last.graphs().has_decode_fallback()) return absl::OkStatus();
  ASSIGN_OR_RETURN(request.decode_fallback,
                   Acquire(last, &ModelGraphs::DecodeFallback, purpose, request));
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
