#include "tests/golden/video_pipeline.h"

#include <iterator>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/loading.h"
#include "tests/support/run_unit.h"

namespace latentd::golden {

VideoPipeline::VideoPipeline(const Options& options, backends::Backend& backend)
    : weights_(backend),
      graphs_(backend, SystemClock(), registry_, /*disk=*/nullptr,
              {.compile = {options.skip_passes, backends::reference::EvaluateRecipe}}) {}

absl::StatusOr<std::unique_ptr<VideoPipeline>> VideoPipeline::Load(const std::string& folder,
                                                                   const Options& options,
                                                                   Decoder decoder,
                                                                   backends::Backend& backend) {
  auto videos = absl::WrapUnique(new VideoPipeline(options, backend));
  pipeline::LoadOptions load;
  load.pixels_in_parts = decoder == Decoder::kInParts ? 0 : std::numeric_limits<int64_t>::max();
  load.models = {{.name = "video", .checkpoint = folder, .draws_videos = true}};
  for (absl::string_view component : pipeline::kComponentNames) {
    load.precision[std::string(component)] = options.precision;
  }
  load.f8_convolutions = options.f8_convolutions;
  ASSIGN_OR_RETURN(videos->pipeline_,
                   pipeline::LoadPipeline(load, videos->weights_, videos->graphs_));
  return videos;
}

absl::StatusOr<std::vector<image::Image>> VideoPipeline::Draw(const pipeline::VideoSpec& spec,
                                                              const VideoExtras& extras,
                                                              const std::string& image) {
  pipeline::PictureSpec asked;
  asked.width = spec.width;
  asked.height = spec.height;
  if (spec.sigmas.empty()) asked.num_inference_steps = spec.num_inference_steps;
  asked.sigmas = spec.sigmas;
  asked.seed = spec.seed;
  asked.guidance_interval = extras.guided;
  asked.video = spec;
  const auto inputs = std::make_shared<const pipeline::Inputs>(
      pipeline::Inputs{.image = image, .latents = LatentsFileOf(spec, extras)});
  ASSIGN_OR_RETURN(pipeline::SharedPlan plan, pipeline_->Resolve(asked, *inputs));
  ASSIGN_OR_RETURN(const pipeline::Pipeline::Pictures videos,
                   pipeline_->Start(std::move(plan), inputs));
  pipeline::Picture& video = *videos.front();
  std::vector<image::Image> frames;
  while (video.next != pipeline::UnitKind::kDone) {
    RETURN_IF_ERROR(testing::RunUnit(video));
    absl::c_move(video.video->frames, std::back_inserter(frames));
    video.video->frames.clear();
  }
  return frames;
}

}  // namespace latentd::golden
