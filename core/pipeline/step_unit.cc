// Steps: a picture's place in a lane for the steps of a stage, and one evaluation at a time.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/pipeline/unit_kinds.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

LaneRows RowsOf(const Picture& picture) {
  const Request& request = *picture.request;
  const PictureSpec& spec = request.spec;
  const bool guided = UsesGuidance(spec);
  return {.rows = request.rows,
          .latents = picture.latents,
          .schedule = &picture.stage().schedule,
          .request = *request.conditioning[picture.stage_index],
          .guidance_scale = guided ? static_cast<float>(*spec.guidance_scale) : 1.0f,
          .guidance_rescale = guided ? static_cast<float>(*spec.guidance_rescale) : 0.0f};
}

absl::StatusOr<LanePlace> JoinLane(const Picture& picture, device::Stream& stream) {
  LanePlace place;
  ASSIGN_OR_RETURN(place.lane, StepLane::Create({{picture.rows(), picture.stage().step}}));
  ASSIGN_OR_RETURN(place.first_row, place.lane->Join(RowsOf(picture), stream));
  return place;
}

// Text-to-image starts from noise; everything else has latents already.
absl::Status DrawFirstLatents(Picture& picture) {
  if (picture.latents.has_memory()) return absl::OkStatus();
  const Request& request = *picture.request;
  const Stage& stage = picture.stage();
  ASSIGN_OR_RETURN(picture.latents,
                   stage.step->device().Allocate(DType::kF32,
                                                 {1, stage.model->latent_channels(),
                                                  request.latent_height, request.latent_width},
                                                 Place::kPinned));
  picture.generator.Fill(picture.latents, stage.schedule.initial_noise_scale);
  return absl::OkStatus();
}

// To new memory: what the latents were in before may be the stage's init image, or another's.
absl::Status LeaveLane(Picture& picture, device::Stream& stream, PendingWork& work) {
  const LanePlace place = *std::exchange(picture.place, std::nullopt);
  device::Device& device = place.lane->device();
  ASSIGN_OR_RETURN(const Buffer finite, device.Allocate(DType::kU8, {1}, Place::kPinned));
  ASSIGN_OR_RETURN(picture.latents,
                   device.Allocate(DType::kF32, picture.latents.shape(), Place::kDevice));
  RETURN_IF_ERROR(place.lane->Leave(place.first_row, picture.latents, finite, stream));
  const std::string model = NameOf(picture.model());
  work.flags.push_back({finite, absl::StrCat("latents of the ", model, "'s steps"),
                        absl::StrCat("the ", model, "'s unet")});
  return absl::OkStatus();
}

// From the end of one stage to the next, which draws from a generator of its own, seeded alike.
void EndStage(Picture& picture) {
  picture.evaluation = 0;
  if (picture.stage_index + 1 == picture.request->stages.size()) {
    picture.next = UnitKind::kDecode;
    return;
  }
  picture.handed_over = picture.latents;
  ++picture.stage_index;
  picture.generator = noise::NoiseGenerator(picture.seed);
  picture.next = UnitKind::kText;
}

}  // namespace

absl::Status BeginSteps(Picture& picture, device::Stream& stream) {
  RETURN_IF_ERROR(DrawFirstLatents(picture));
  if (picture.stage().schedule.steps.empty()) {
    EndStage(picture);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(picture.place, JoinLane(picture, stream));
  picture.next = UnitKind::kStep;
  return absl::OkStatus();
}

// Noise is drawn while the device is at the step before.
absl::Status EnqueueStep(Picture& picture, device::Stream& stream, PendingUnit& unit) {
  const LanePlace& place = *picture.place;
  unit.work.kept.push_back(place.lane);
  const auto& steps = picture.stage().schedule.steps;
  const schedulers::StepCoefficients& step = steps[picture.evaluation];
  if (step.draws_noise) {
    ASSIGN_OR_RETURN(unit.work.events.emplace_back(),
                     place.lane->DrawNoise(place.first_row, picture.generator, stream));
  }
  RETURN_IF_ERROR(place.lane->Step(stream));
  picture.steps_done =
      picture.request->steps_before(picture.stage_index) + step.denoising_index + 1;
  unit.ends_stage = ++picture.evaluation == steps.size();
  if (!unit.ends_stage) return absl::OkStatus();
  RETURN_IF_ERROR(LeaveLane(picture, stream, unit.work));
  EndStage(picture);
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
