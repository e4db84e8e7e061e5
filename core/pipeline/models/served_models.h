// The models of a server as they were loaded, and the facts that requests are held against.
//
// Frozen once made; any thread may call any method.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/pipeline/spec/validation.h"
#include "core/weights/watched_file.h"

namespace latentd::pipeline {

class ServedModels {
 public:
  // By their ids in the table: null where the UNet is off, but for the first, which counts in any
  // case.
  using Loaded = std::vector<std::unique_ptr<const LoadedModel>>;

  // INVALID_ARGUMENT: their latents have different shapes.
  static absl::Status CheckFit(const Loaded& models);
  // The models were loaded with `modes`. A model's default size is the one of its buckets that is
  // nearest to its own; where there are none, its own. REQUIRES: they fit.
  ServedModels(ModelTable table, Loaded models, const ComponentModes& modes, bool feature_cache);

  const Traits& traits() const { return traits_; }
  const ModelTable& table() const { return traits_.models; }
  const LoadedModel& first() const { return *models_.front(); }
  // Models that draw, in the order of their ids.
  std::vector<const LoadedModel*> Drawing() const;
  bool Draws(ModelId model) const;
  // The model as it was loaded; null: it was not, since it draws nothing here.
  const LoadedModel* Find(ModelId model) const {
    return models_[static_cast<size_t>(model.value)].get();
  }
  // REQUIRES: Draws(model).
  const LoadedModel& operator[](ModelId model) const { return *Find(model); }

  // The model that starts its pictures, or those of the model that hands over to it.
  const ModelRow& LeaderOf(ModelId model) const { return table()[table()[model].leader]; }
  // Models that draw, of the leader and what it hands over to.
  std::vector<const LoadedModel*> GroupOf(ModelId leader) const;
  // The sizes to have ready of a leader and what it hands over to: its own buckets, or the family's
  // where it has none.
  std::vector<Size> BucketsOf(ModelId leader) const;
  // The models whose steps the spec asks for, in order. REQUIRES: they are there.
  std::vector<const LoadedModel*> ChainOf(const PictureSpec& spec) const;
  // The model of that name that draws videos, or for an empty name the first that does.
  absl::StatusOr<const LoadedModel*> FindVideoModel(const PictureSpec& asked) const;

  LatentSize LatentsOf(Size size) const;
  StepShape ShapeOf(Size size, int rows) const;

  // The open files of what draws, each once for each model that reads it, and of what was read
  // beside.
  std::vector<std::shared_ptr<const weights::WatchedFile>> Files() const;

 private:
  const Loaded models_;
  Traits traits_;
};

}  // namespace latentd::pipeline
