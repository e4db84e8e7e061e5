// Videos of a Pipeline, in place of images.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/units/latent_colors.h"

namespace latentd::pipeline {
namespace {

// Leaves out previews that cannot be, and says so.
void CheckPreviews(const PictureSpec& asked, const LoadedModel& model, Plan& plan) {
  if (!asked.previews_every) return;
  const bool has_colors = KnownColors(model.vae()).has_value();
  if (asked.takes_previews && has_colors) return;
  plan.spec.previews_every.reset();
  plan.warnings.push_back(
      absl::StrCat("previews.every_n_steps has no effect: ",
                   has_colors ? "they come while a stream is read"
                              : "the colours of the checkpoint's latents are not known"));
}

}  // namespace

absl::StatusOr<const LoadedModel*> Pipeline::VideoModelOf(const PictureSpec& asked) const {
  std::vector<std::string> names;
  for (const LoadedModel* model : Models()) {
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

absl::StatusOr<SharedPlan> Pipeline::ResolveVideo(const PictureSpec& asked, const Inputs& inputs,
                                                  ChooseSize choose,
                                                  std::vector<FieldViolation> found) const {
  ASSIGN_OR_RETURN(const LoadedModel* model, VideoModelOf(asked));
  auto plan = std::make_shared<Plan>();
  plan->spec = asked;
  RETURN_IF_ERROR(ResolveVideoSpec(*model, traits_, inputs, std::move(found), *plan));
  ASSIGN_OR_RETURN(plan->executed_size, choose(plan->spec));
  plan->executed_size.frames = *plan->spec.video->num_frames;
  CompleteVideoPlan(*model, RowCountsAt(plan->executed_size), *plan);
  CheckPreviews(asked, *model, *plan);
  const Size size = plan->executed_size;
  const int side_by_side =
      std::min(static_cast<int>(plan->spec.seeds.size()), MostRows(size, plan->rows) / plan->rows);
  const StepShape shape = ShapeOf(size, plan->rows);
  plan->state_bytes = VideoRequestBytes(*model, shape, size, side_by_side);
  if (plan->spec.previews_every) {
    plan->state_bytes += side_by_side * VideoPreviewBytes(*model, shape);
  }
  return plan;
}

}  // namespace latentd::pipeline
