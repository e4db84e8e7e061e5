#include "core/pipeline/models/served_models.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "core/families/families.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::pipeline {
namespace {

// Distance of their sides, squared, and of their frames, where sides are as near.
std::pair<int64_t, int> DistanceOf(const Size& a, const Size& b) {
  const int64_t x = a.width - b.width, y = a.height - b.height;
  return {x * x + y * y, std::abs(a.frames - b.frames)};
}

// The first of those that are nearest; `own` where there are none.
Size NearestOf(const std::vector<Size>& sizes, const Size& own) {
  const auto nearer = [&](const Size& a, const Size& b) {
    return DistanceOf(a, own) < DistanceOf(b, own);
  };
  const auto nearest = std::min_element(sizes.begin(), sizes.end(), nearer);
  return nearest == sizes.end() ? own : *nearest;
}

}  // namespace

absl::Status ServedModels::CheckFit(const Loaded& models) {
  const LoadedModel& first = *models.front();
  for (const auto& model : models) {
    if (model == nullptr || (DownscaleOf(model->vae()) == DownscaleOf(first.vae()) &&
                             model->latent_channels() == first.latent_channels())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        model->path(), ": its latents have another shape than those of ", first.path()));
  }
  return absl::OkStatus();
}

ServedModels::ServedModels(ModelTable table, Loaded models, const ComponentModes& modes,
                           bool feature_cache)
    : models_(std::move(models)) {
  traits_.side_multiple = DownscaleOf(first().vae());
  traits_.models = std::move(table);
  traits_.feature_cache = feature_cache;
  for (const auto& model : models_) {
    if (model == nullptr) continue;
    ModelRow& row = traits_.models[model->row().id];
    // A refiner's images are those of its leader.
    const LoadedModel& leads = *Find(row.leader);
    row.default_size = NearestOf(traits_.models[row.leader].buckets, leads.default_size());
    const auto by_default = model->SchedulerWith({});
    if (by_default.ok()) row.default_scheduler = by_default->full_name();
    row.max_clip_skip = leads.family().max_clip_skip(leads.configs());
  }
  for (const auto& [component, mode] : modes) {
    if (mode == ComponentMode::kOff) traits_.off.insert(component);
  }
}

std::vector<const LoadedModel*> ServedModels::Drawing() const {
  std::vector<const LoadedModel*> models;
  for (const auto& model : models_) {
    if (model != nullptr && model->draws()) models.push_back(model.get());
  }
  return models;
}

bool ServedModels::Draws(ModelId model) const {
  const LoadedModel* loaded = Find(model);
  return loaded != nullptr && loaded->draws();
}

std::vector<const LoadedModel*> ServedModels::GroupOf(ModelId leader) const {
  std::vector<const LoadedModel*> group;
  for (const LoadedModel* model : Drawing()) {
    if (table()[model->row().id].leader == leader) group.push_back(model);
  }
  return group;
}

std::vector<Size> ServedModels::BucketsOf(ModelId leader) const {
  const ModelRow& row = table()[leader];
  if (!row.buckets.empty()) return row.buckets;
  return families::DefaultBuckets(Find(leader)->family(), row.default_size);
}

StepShape ServedModels::ShapeOf(Size size, int rows) const {
  return {.rows = rows,
          .height = size.height / traits_.side_multiple,
          .width = size.width / traits_.side_multiple,
          .frames = size.frames};
}

std::vector<const LoadedModel*> ServedModels::ChainOf(const PictureSpec& spec) const {
  std::vector<const LoadedModel*> models;
  for (const ModelId id : table().Chain(spec.model, spec.refine)) {
    models.push_back(Find(id));
  }
  return models;
}

absl::StatusOr<const LoadedModel*> ServedModels::FindVideoModel(const PictureSpec& asked) const {
  std::vector<std::string> names;
  for (const LoadedModel* model : Drawing()) {
    if (!model->row().draws_videos) continue;
    if (asked.model.empty() || asked.model == model->row().name) return model;
    names.push_back(model->row().name);
  }
  if (names.empty()) {
    return WithReason(
        absl::FailedPreconditionError("this server draws no videos (start it with --video=DIR)"),
        "NO_VIDEO_MODEL");
  }
  return InvalidFields(
      {{"model", absl::StrCat("there is no model ", Excerpt(asked.model),
                              " that draws videos; there are ", ListSome(names, names.size()))}});
}

LatentSize ServedModels::LatentsOf(Size size) const {
  return {size.height / traits_.side_multiple, size.width / traits_.side_multiple};
}

std::vector<std::shared_ptr<const weights::WatchedFile>> ServedModels::Files() const {
  std::vector<std::shared_ptr<const weights::WatchedFile>> files;
  for (const auto& model : models_) {
    if (model == nullptr) continue;
    for (const auto& file : model->files_read()) files.push_back(file);
  }
  for (const LoadedModel* model : Drawing()) {
    for (auto& file : model->graphs().weights().Files()) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace latentd::pipeline
