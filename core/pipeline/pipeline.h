// Stable Diffusion XL: text-to-image, image-to-image, and base and refiner as an ensemble of
// experts. It makes pictures of requests; units of work (units.h) draw them.
//
// No threads, no queues, no loop over steps: the owner of a Picture enqueues unit after unit until
// its `next` is kDone, in whatever order with other pictures'. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error_details.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/components.h"
#include "core/pipeline/latents_file.h"
#include "core/pipeline/model_table.h"
#include "core/pipeline/picture.h"
#include "core/pipeline/picture_spec.h"
#include "core/pipeline/sdxl_model.h"
#include "core/pipeline/step_rows.h"
#include "core/pipeline/validation.h"

namespace latentd::pipeline {

class Pipeline {
 public:
  // By their ids in `table`: null where the UNet is off, but for the first, which counts in any
  // case.
  using LoadedModels = std::vector<std::unique_ptr<const SdxlModel>>;
  // The models were loaded with `modes`. The default size is the one of `buckets` that is nearest
  // to the first model's own; where there are none, that one's own. Steps run with as many rows as
  // `rows` says, beside what a picture needs by itself.
  // INVALID_ARGUMENT if the models do not fit each other.
  static absl::StatusOr<std::unique_ptr<const Pipeline>> Create(
      ModelTable table, LoadedModels models, const ComponentModes& modes = {},
      const std::vector<Size>& buckets = {}, StepRows rows = {});

  const ModelTable& table() const { return traits_.models; }
  // Decides on the server's sizes and default scheduler.
  const SdxlModel& first() const { return *models_.front(); }
  // Models that draw, in the order of their ids.
  std::vector<const SdxlModel*> Models() const;
  bool Draws(ModelId model) const;
  const Traits& traits() const { return traits_; }
  // The noise scheduler of requests to the first model that name none, by its short name; empty:
  // they have to.
  const std::string& default_scheduler() const { return default_scheduler_; }

  // The spec with every default filled in: what will really be used. INVALID_ARGUMENT with every
  // bad field at once (GetFieldViolations). Compiles and loads nothing.
  absl::StatusOr<PictureSpec> Resolve(PictureSpec spec) const;

  // The numbers of rows that steps of that size have graphs for, as configured (step_rows.h).
  std::vector<int> RowCountsAt(Size executed) const { return rows_.At(executed); }

  // Every graph that pictures of that shape may need, of all models, image-to-image too. An error:
  // some network cannot be built at that size.
  absl::StatusOr<std::vector<GraphHandle>> GraphsOf(
      Size bucket, int rows, ModelGraphs::IfUnknown unknown = ModelGraphs::IfUnknown::kBuild) const;

  // Graphs of the tiny VAEs of all models that draw previews of that size; dispensable.
  absl::StatusOr<std::vector<GraphHandle>> PreviewGraphsOf(
      Size bucket, ModelGraphs::IfUnknown unknown = ModelGraphs::IfUnknown::kBuild) const;
  // True if the pictures have previews that a tiny VAE would draw.
  bool WantsTinyVae(const PictureSpec& resolved) const;

  // True if a VAE's decoder runs for the pictures: where latents are wanted, for previews only.
  bool NeedsDecoder(const PictureSpec& resolved) const;

  // Bytes that pictures of that size hold at most that fill a lane of so many rows, beside weights,
  // executables and arena (state_bytes.h). A lane has more (RowsOfLane) only where there is room.
  int64_t StateBytes(Size bucket, int rows) const;
  // The part of it that the pictures of one request hold while they run, beside their lane.
  int64_t RequestBytes(const PictureSpec& resolved) const;

  // Latents of the picture's own size, not of the size that it runs at.
  LatentSize LatentSizeOf(const PictureSpec& resolved) const;

  // One picture for each seed; they share their conditioning. Gets every executable that they need,
  // so that no unit compiles or loads; what the graph store says if that fails, but for a tiny
  // VAE's: without it previews are in colours. For kReady no graph is built either. REQUIRES:
  // `resolved` came from Resolve; its executed_size, if set, covers width x height and has sides
  // that Resolve would accept.
  using Pictures = std::vector<std::unique_ptr<Picture>>;
  absl::StatusOr<Pictures> Start(PictureSpec resolved, compiler::Purpose purpose = {}) const;
  // As Start, and copies nothing that is large: an init image is moved to the pictures, and
  // `latents` wait for TakeLatents. `resolved` is moved from only where this succeeds.
  absl::StatusOr<Pictures> TryStart(PictureSpec& resolved, compiler::Purpose purpose) const;
  // The rest of it, where the spec has latents: the pictures read them, and the file goes.
  // REQUIRES: no unit of the pictures has begun.
  absl::Status TakeLatents(const Pictures& pictures) const;

  // A sentence for each parameter of `asked` that has no effect on the pictures. `resolved` is what
  // Resolve made of it.
  std::vector<std::string> UnusedParameters(const PictureSpec& asked,
                                            const PictureSpec& resolved) const;

  // The open files of what draws, each once for each model that reads it, and of what was read
  // beside.
  std::vector<std::shared_ptr<const weights::WatchedFile>> CheckpointFiles() const;

  // Tokens of the longest prompt that no text encoder reads.
  int64_t DroppedTokens(const PictureSpec& spec) const;

 private:
  Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes,
           const std::vector<Size>& buckets, StepRows rows);

  // The models whose steps the spec asks for, in order. REQUIRES: they are there.
  std::vector<const SdxlModel*> ModelsOf(const PictureSpec& spec) const;
  // Empty where the models each keep another one of their own.
  absl::StatusOr<std::string> SchedulerNameOf(const PictureSpec& spec) const;
  absl::StatusOr<std::vector<Stage>> StagesOf(const PictureSpec& spec) const;
  bool HasGuidedSteps(const PictureSpec& resolved) const;
  // Checks the spec's own latents. INVALID_ARGUMENT names the field.
  absl::Status CheckLatents(const PictureSpec& resolved) const;
  StepShape ShapeOf(Size size, int rows) const;
  // Rows that a step of that size has at most, when pictures of `rows` step in it.
  int MostRows(Size size, int rows) const;

  const LoadedModels models_;
  const StepRows rows_;
  Traits traits_;
  std::string default_scheduler_;
};

}  // namespace latentd::pipeline
