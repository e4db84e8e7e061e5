#include "server/http/calls/served_models.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/engine/api/model_name.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

bool IsTaken(const std::vector<ServedModel>& models, absl::string_view id) {
  return std::any_of(models.begin(), models.end(), [&](const ServedModel& model) {
    return model.id == id || model.component == id;
  });
}

bool IsOfOpenAi(absl::string_view name) {
  return absl::StartsWith(name, "gpt-image-") || absl::StartsWith(name, "chatgpt-image-") ||
         absl::StartsWith(name, "dall-e-") || absl::StartsWith(name, "sora-");
}

std::vector<ServedModel> Served(const engine::Capabilities& capabilities, bool draw_videos) {
  std::vector<ServedModel> models;
  for (const engine::ModelInfo& model : capabilities.models) {
    if (model.draws_videos != draw_videos) continue;
    std::string id = engine::NameOf(model);
    const bool own = model.component != "base" && model.component != "refiner";
    if (own || id.empty() || IsTaken(models, id)) id = model.component;
    models.push_back({std::move(id), model.component, model.defaults.steps, model.default_size});
  }
  return models;
}

}  // namespace

std::vector<ServedModel> ModelsOf(const engine::Capabilities& capabilities) {
  return Served(capabilities, /*draw_videos=*/false);
}

std::vector<ServedModel> VideoModelsOf(const engine::Capabilities& capabilities) {
  return Served(capabilities, /*draw_videos=*/true);
}

absl::StatusOr<ServedModel> FindModel(const std::vector<ServedModel>& models,
                                      absl::string_view name) {
  for (const ServedModel& model : models) {
    if (model.id == name || model.component == name) return model;
  }
  if (!models.empty() && (name.empty() || IsOfOpenAi(name))) return models.front();
  if (models.empty()) {
    return WithReason(absl::InvalidArgumentError("no model that draws pictures is served"),
                      kModelNotFound);
  }
  const std::string ids = absl::StrJoin(
      models, ", ", [](std::string* out, const ServedModel& model) { out->append(model.id); });
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat("no model of that name is served; there are ", ids)),
      kModelNotFound);
}

}  // namespace latentd::server::http
