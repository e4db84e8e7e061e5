// A Pipeline is the models of a server: text-to-image, image-to-image, and base and refiner as an
// ensemble of experts. It makes plans of requests, and images of plans; units of work (units.h)
// draw them.
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
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/components.h"
#include "core/pipeline/spec/inputs.h"
#include "core/pipeline/spec/model_table.h"
#include "core/pipeline/spec/picture_spec.h"
#include "core/pipeline/spec/step_rows.h"
#include "core/pipeline/spec/validation.h"
#include "core/pipeline/units/picture.h"

namespace latentd::pipeline {

// Prompts that buckets have graphs for.
struct ReadyPrompts {
  int chunks = 1;       // at most
  bool blends = false;  // weights below 1 in Compel's syntax (core/prompts/blends.h)
};

class Pipeline {
 public:
  // By their ids in `table`: null where the UNet is off, but for the first, which counts in any
  // case.
  using LoadedModels = std::vector<std::unique_ptr<const LoadedModel>>;
  // The models were loaded with `modes`. A model's default size is the one of its buckets that is
  // nearest to its own; where there are none, its own. Steps run with as many rows as `rows` says,
  // beside what a picture needs by itself. Without `adapters` there are none.
  // INVALID_ARGUMENT if the models do not fit each other.
  static absl::StatusOr<std::unique_ptr<const Pipeline>> Create(
      ModelTable table, LoadedModels models, const ComponentModes& modes = {}, StepRows rows = {},
      ReadyPrompts prompts = {}, std::unique_ptr<AdapterSets> adapters = nullptr);

  const ModelTable& table() const { return traits_.models; }
  const LoadedModel& first() const { return *models_.front(); }
  // Models that draw, in the order of their ids.
  std::vector<const LoadedModel*> Models() const;
  bool Draws(ModelId model) const;
  const Traits& traits() const { return traits_; }
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

  // The model that starts its pictures, or those of the model that hands over to it.
  const ModelRow& LeaderOf(ModelId model) const { return table()[table()[model].leader]; }
  // The sizes to have ready of a leader and what it hands over to: its own buckets, or the family's
  // where it has none.
  std::vector<Size> BucketsOf(ModelId leader) const;

  // The numbers of rows that steps of that size have graphs for, as configured (step_rows.h).
  std::vector<int> RowCountsAt(Size executed) const { return rows_.At(executed); }

  // Handles of a plan's graphs, in order. An error: one cannot be built, or may not.
  absl::StatusOr<std::vector<GraphHandle>> HandlesOf(absl::Span<const PlannedGraph> graphs,
                                                     ModelGraphs::IfUnknown unknown) const;

  // Handles of all graphs that the plan's images cannot be drawn without. Those of its adapters are
  // made where they are not known, which reads files, and else refused, as one is that cannot be
  // built; kModels has those of the models without any.
  enum class Of : uint8_t { kAdapters, kModels };
  absl::StatusOr<std::vector<GraphHandle>> HandlesOf(const Plan& plan,
                                                     ModelGraphs::IfUnknown unknown,
                                                     Of of = Of::kAdapters) const;
  // The same of those that they can do without.
  absl::StatusOr<std::vector<GraphHandle>> DispensableOf(const Plan& plan,
                                                         ModelGraphs::IfUnknown unknown) const;

  // Every graph that pictures of that shape may need, of the leader and what it hands over to,
  // image-to-image too. An error: some network cannot be built at that size.
  absl::StatusOr<std::vector<GraphHandle>> GraphsOf(
      ModelId leader, Size bucket, int rows,
      ModelGraphs::IfUnknown unknown = ModelGraphs::IfUnknown::kBuild) const;

  // Graphs of their tiny VAEs that draw previews of that size; dispensable.
  absl::StatusOr<std::vector<GraphHandle>> PreviewGraphsOf(
      ModelId leader, Size bucket,
      ModelGraphs::IfUnknown unknown = ModelGraphs::IfUnknown::kBuild) const;
  // Graphs of a step of that size that two devices share, where StepRows::split says so;
  // dispensable.
  absl::StatusOr<std::vector<GraphHandle>> SplitStepsOf(
      ModelId leader, Size bucket,
      ModelGraphs::IfUnknown unknown = ModelGraphs::IfUnknown::kBuild) const;
  // Steps of that size and so many rows that read what ControlNets of the folder add, and those
  // that read images by its IP-Adapters, but none that reads both. Nothing where the folder has
  // none for the leader.
  absl::StatusOr<std::vector<GraphHandle>> ControlledStepsOf(ModelId leader, Size bucket,
                                                             int rows) const;
  // Graphs of ControlNets and IP-Adapters of the folder beside those: of the first of each shape,
  // and of no more than Nets::kMostNets of each kind. Reads their headers. A net that cannot be
  // declared is passed over: a request that names it is told why.
  std::vector<GraphHandle> ControlNetGraphsOf(ModelId leader, absl::Span<const Size> buckets) const;
  // Bytes that pictures of that size hold at most that fill a lane of so many rows, beside weights,
  // executables and arena (state_bytes.h). A lane has more (RowsOfLane) only where there is room.
  int64_t StateBytes(Size bucket, int rows, int chunks = 1) const;
  const ReadyPrompts& ready_prompts() const { return ready_prompts_; }

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

  // The open files of what draws, each once for each model that reads it, and of what was read
  // beside.
  std::vector<std::shared_ptr<const weights::WatchedFile>> CheckpointFiles() const;

 private:
  Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes, StepRows rows,
           ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters);
  // Graphs that a plan's adapters bring: over the model's own; null: it has no LoRAs. And those of
  // its controls and image prompts, in order.
  struct BroughtGraphs {
    AdapterSets::Graphs adapted;
    std::vector<Nets::Graphs> controls;
    std::vector<Nets::Graphs> image_prompts;
  };
  absl::StatusOr<BroughtGraphs> BroughtBy(const Plan& plan, ModelGraphs::IfUnknown unknown) const;
  absl::StatusOr<AdapterSets::Graphs> AdaptedGraphsOf(const Plan& plan,
                                                      ModelGraphs::IfUnknown unknown) const;
  const LoadedModel& LoadedModelOf(ModelId model) const;
  // ControlNets of the folder that the leader can draw with, and of those one of each shape.
  std::vector<Control> ControlsOf(ModelId leader) const;
  std::vector<Control> ControlsOfEachShape(ModelId leader) const;
  // Adds the net's graphs for one size.
  void AddNetGraphs(NetGraphs& net, ModelId leader, Size bucket,
                    std::vector<GraphHandle>& all) const;
  absl::StatusOr<std::vector<Nets::Graphs>> ControlGraphsOf(const Plan& plan,
                                                            ModelGraphs::IfUnknown unknown) const;
  absl::StatusOr<std::vector<Nets::Graphs>> ImagePromptGraphsOf(
      const Plan& plan, ModelGraphs::IfUnknown unknown) const;
  // IP-Adapters of the folder that the leader can draw with.
  std::vector<ImagePrompt> ImagePromptsOf(ModelId leader) const;
  // One of each shape, as many as are kept at most.
  std::vector<ImagePrompt> ImagePromptsOfEachShape(ModelId leader) const;
  void AddIpAdapterGraphs(ModelId leader, std::vector<GraphHandle>& all) const;
  absl::StatusOr<std::vector<GraphHandle>> HandlesOver(const BroughtGraphs& brought,
                                                       const Plan& plan,
                                                       absl::Span<const PlannedGraph> graphs,
                                                       ModelGraphs::IfUnknown unknown) const;
  // Models that draw, of the leader and what it hands over to.
  std::vector<const LoadedModel*> GroupOf(ModelId leader) const;

  // The models whose steps the spec asks for, in order. REQUIRES: they are there.
  std::vector<const LoadedModel*> ModelsOf(const PictureSpec& spec) const;
  absl::StatusOr<std::vector<PlannedStage>> StagesOf(const PictureSpec& spec) const;
  // The spec with every default filled in, and its stages.
  absl::Status ResolveSpec(const Inputs& inputs, std::vector<FieldViolation> found,
                           Plan& plan) const;
  // The adapters and stages of a spec that has its defaults.
  absl::Status ResolveStages(const Inputs& inputs, Plan& plan) const;
  // Works out all that follows from the spec, the stages and the size that is executed.
  absl::Status Complete(const PictureSpec& asked, Plan& plan) const;
  // Resolve of a request for videos: video_pipeline.cc.
  absl::StatusOr<SharedPlan> ResolveVideo(const PictureSpec& asked, const Inputs& inputs,
                                          ChooseSize choose,
                                          std::vector<FieldViolation> found) const;
  // The model of that name that draws videos, or for an empty name the first that does.
  absl::StatusOr<const LoadedModel*> VideoModelOf(const PictureSpec& asked) const;
  LatentSize LatentsOf(Size size) const;
  void PlanGraphs(Plan& plan) const;
  static void PlanFeatureCache(Plan& plan);
  // Steps of more rows than an image has.
  void AddSharedSteps(const StepShape& shape, Plan& plan) const;
  // Steps of a bucket that images with feature_cache_interval take, where the server has them.
  void AddCachingSteps(const LoadedModel& model, int chunks, StepShape shape, ModelId leader,
                       std::vector<PlannedGraph>& graphs) const;
  void AddSplitSteps(const StepShape& shape, Plan& plan) const;
  // Graphs for prompts of so many chunks; nothing where the model's steps cannot be split.
  static std::vector<PlannedGraph> SplitStepOf(const LoadedModel& model, const StepShape& shape,
                                               int chunks);
  int64_t RequestBytes(const Plan& plan) const;
  std::vector<std::string> UnusedParameters(const PictureSpec& asked, const Plan& plan) const;
  static std::vector<std::string> Misuses(const Plan& plan);
  // Checks given latents. INVALID_ARGUMENT names the field.
  absl::Status CheckLatents(const Inputs& inputs, const Plan& plan) const;
  StepShape ShapeOf(Size size, int rows) const;
  // Rows that a step of that size has at most, when pictures of `rows` step in it.
  int MostRows(Size size, int rows) const;

  const LoadedModels models_;
  const StepRows rows_;
  const ReadyPrompts ready_prompts_;
  const std::unique_ptr<AdapterSets> adapters_;  // null: there are none
  Traits traits_;
};

}  // namespace latentd::pipeline
