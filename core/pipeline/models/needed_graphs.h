// The graphs that a plan needs, and those that buckets have ready, by name (graph_book.h finds
// them): of the models themselves, without what the folder of adapters brings.
//
// Frozen once made; any thread may call any method.
#pragma once

#include <vector>

#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/models/served_models.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/step_rows.h"

namespace latentd::pipeline {

// Prompts that buckets have graphs for.
struct ReadyPrompts {
  int chunks = 1;       // at most
  bool blends = false;  // weights below 1 in Compel's syntax (core/prompts/blends.h)
};

class NeededGraphs {
 public:
  // `models` must outlive it. Steps run with as many rows as `rows` says, beside what a picture
  // needs by itself.
  NeededGraphs(const ServedModels& models, StepRows rows, ReadyPrompts prompts);

  const StepRows& rows() const { return rows_; }
  const ReadyPrompts& ready_prompts() const { return ready_prompts_; }
  // Rows that a step of that size has at most, when pictures of `rows` step in it.
  int MostRows(Size size, int rows) const;

  // Sets a plan's graphs, and those that its images can do without. REQUIRES: all else of it but
  // bytes and warnings is there.
  void SetGraphs(Plan& plan) const;

  // Every graph that pictures of that shape may need, of the leader and what it hands over to,
  // image-to-image too.
  std::vector<PlannedGraph> OfBucket(ModelId leader, Size bucket, int rows) const;
  // Graphs of their tiny VAEs that draw previews of that size; dispensable.
  std::vector<PlannedGraph> PreviewsOf(ModelId leader, Size bucket) const;
  // Graphs of a step of that size that two devices share, where StepRows::split says so;
  // dispensable.
  std::vector<PlannedGraph> SplitStepsOf(ModelId leader, Size bucket) const;

 private:
  // Graphs of images of a bucket, by one of the leader's models.
  std::vector<PlannedGraph> OfImages(const LoadedModel& model, StepShape shape,
                                     ModelId leader) const;
  // Steps of more rows than an image has.
  void AddSharedSteps(const StepShape& shape, Plan& plan) const;
  // Steps of a bucket that images with feature_cache_interval take, where the server has them.
  void AddCachingSteps(const LoadedModel& model, int chunks, StepShape shape, ModelId leader,
                       std::vector<PlannedGraph>& graphs) const;
  void AddSplitSteps(const StepShape& shape, Plan& plan) const;

  const ServedModels& models_;
  const StepRows rows_;
  const ReadyPrompts ready_prompts_;
};

}  // namespace latentd::pipeline
