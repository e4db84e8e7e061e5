// A Pipeline makes plans of requests to the models of a server, and images of plans; units of work
// (units.h) draw them. The models are ServedModels; an ensemble of base and refiner is two of them.
//
// No threads, no queues, no loop over steps: the owner of a Picture enqueues unit after unit until
// its `next` is kDone, in whatever order with other pictures'. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/errors/error_details.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/graphs/adapter_sets.h"
#include "core/pipeline/models/folder_graphs.h"
#include "core/pipeline/models/graph_book.h"
#include "core/pipeline/models/needed_graphs.h"
#include "core/pipeline/models/served_models.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/pipeline/spec/step_rows.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {

class Pipeline {
 public:
  using LoadedModels = ServedModels::Loaded;
  // The models were loaded with `modes`. A model's default size is the one of its buckets that is
  // nearest to its own; where there are none, its own. Steps run with as many rows as `rows` says,
  // beside what a picture needs by itself. Without `adapters` there are none.
  // INVALID_ARGUMENT if the models do not fit each other.
  static absl::StatusOr<std::unique_ptr<const Pipeline>> Create(
      ModelTable table, LoadedModels models, const ComponentModes& modes = {}, StepRows rows = {},
      ReadyPrompts prompts = {}, std::unique_ptr<AdapterSets> adapters = nullptr);

  const ServedModels& models() const { return models_; }
  const ModelTable& table() const { return models_.table(); }
  const LoadedModel& first() const { return models_.first(); }
  std::vector<const LoadedModel*> Models() const { return models_.Drawing(); }
  bool Draws(ModelId model) const { return models_.Draws(model); }
  const Traits& traits() const { return models_.traits(); }
  AdapterSets* adapters() const { return adapters_.get(); }  // null: there are none

  // Chooses the size at which the networks run, at least the images', once everything else of the
  // request is right.
  using ChooseSize = absl::FunctionRef<absl::StatusOr<Size>(const PictureSpec& resolved)>;

  // The plan of a request: every default filled in, and all that it needs. INVALID_ARGUMENT with
  // every bad field at once (GetFieldViolations), those in `found` too; the error of `choose`.
  // Compiles and loads nothing.
  absl::StatusOr<SharedPlan> Resolve(const PictureSpec& asked, const Inputs& inputs,
                                     ChooseSize choose,
                                     std::vector<FieldViolation> found = {}) const;
  // The networks run at the images' own size.
  absl::StatusOr<SharedPlan> Resolve(const PictureSpec& asked, const Inputs& inputs = {}) const;

  // The model that starts images, or the video, of the spec; the first where it has none of that
  // name.
  const ModelRow& StartOf(const PictureSpec& spec) const;
  const ModelRow& LeaderOf(ModelId model) const { return models_.LeaderOf(model); }
  std::vector<Size> BucketsOf(ModelId leader) const { return models_.BucketsOf(leader); }

  // The numbers of rows that steps of that size have graphs for, as configured (step_rows.h).
  std::vector<int> RowCountsAt(Size executed) const { return needed_.rows().At(executed); }

  // Handles of graphs: of a list, of a plan (graph_book.h), and of those that buckets have ready
  // (needed_graphs.h, folder_graphs.h).
  using IfUnknown = ModelGraphs::IfUnknown;
  using Of = GraphBook::Of;
  using Handles = absl::StatusOr<std::vector<GraphHandle>>;
  Handles HandlesOf(absl::Span<const PlannedGraph> graphs, IfUnknown unknown) const {
    return book_.HandlesOf(graphs, unknown);
  }
  Handles HandlesOf(const Plan& plan, IfUnknown unknown, Of of = Of::kAdapters) const {
    return book_.HandlesOf(plan, unknown, of);
  }
  Handles DispensableOf(const Plan& plan, IfUnknown unknown) const {
    return book_.DispensableOf(plan, unknown);
  }
  Handles GraphsOf(ModelId leader, Size bucket, int rows) const {
    return book_.HandlesOf(needed_.OfBucket(leader, bucket, rows), IfUnknown::kBuild);
  }
  Handles PreviewGraphsOf(ModelId leader, Size bucket) const {
    return book_.HandlesOf(needed_.PreviewsOf(leader, bucket), IfUnknown::kBuild);
  }
  Handles SplitStepsOf(ModelId leader, Size bucket) const {
    return book_.HandlesOf(needed_.SplitStepsOf(leader, bucket), IfUnknown::kBuild);
  }
  Handles ControlledStepsOf(ModelId leader, Size bucket, int rows) const {
    return folder_.StepsOf(leader, bucket, rows);
  }
  std::vector<GraphHandle> ControlNetGraphsOf(ModelId leader,
                                              absl::Span<const Size> buckets) const {
    return folder_.NetsOf(leader, buckets);
  }

  // Bytes that pictures of that size hold at most that fill a lane of so many rows, beside weights,
  // executables and arena (state_bytes.h). A lane has more (RowsOfLane) only where there is room.
  // Videos are decoded in chunks of so many frames; 0: of as many as where requests do not say.
  int64_t StateBytes(Size bucket, int rows, int chunks = 1, int decode_chunk = 0) const;
  const ReadyPrompts& ready_prompts() const { return needed_.ready_prompts(); }

  // One image for each seed; they share their conditioning, and hold `inputs` until they have read
  // them. Gets every executable that they need (acquisition.h), so that no unit compiles or loads;
  // the graph store's error if that fails. REQUIRES: this made the plan, or a pipeline of the same
  // models on another device, of the same inputs.
  using Pictures = std::vector<std::unique_ptr<Picture>>;
  absl::StatusOr<Pictures> Start(SharedPlan plan, SharedInputs inputs = nullptr,
                                 compiler::Purpose purpose = {}) const;

  // The first image of such a plan without executables, which is never run: for what is ahead of it
  // (Picture::ahead) while its graphs are made ready.
  std::unique_ptr<const Picture> Sketch(const SharedPlan& plan) const;

  std::vector<std::shared_ptr<const weights::WatchedFile>> CheckpointFiles() const {
    return models_.Files();
  }

 private:
  Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes, StepRows rows,
           ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters);
  // The spec with every default filled in, and its stages.
  absl::Status ResolveSpec(const Inputs& inputs, std::vector<FieldViolation> found,
                           Plan& plan) const;
  // The adapters and stages of a spec that has its defaults.
  absl::Status ResolveStages(const Inputs& inputs, Plan& plan) const;
  // Works out all that follows from the spec, the stages and the size that is executed.
  absl::Status Complete(const PictureSpec& asked, Plan& plan) const;
  // Resolve of a request for videos.
  absl::StatusOr<SharedPlan> ResolveVideo(const PictureSpec& asked, const Inputs& inputs,
                                          ChooseSize choose,
                                          std::vector<FieldViolation> found) const;
  int64_t RequestBytes(const Plan& plan) const;
  // Checks given latents. INVALID_ARGUMENT names the field.
  absl::Status CheckLatents(const Inputs& inputs, const Plan& plan) const;
  // Pictures of one request that step side by side, at most.
  int SideBySide(const Plan& plan) const;

  const ServedModels models_;
  const NeededGraphs needed_;
  const std::unique_ptr<AdapterSets> adapters_;  // null: there are none
  const GraphBook book_;
  const FolderGraphs folder_;
};

}  // namespace latentd::pipeline
