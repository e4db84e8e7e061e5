#include "core/pipeline/units/kept_image.h"

#include <utility>
#include <vector>

#include "core/base/errors/status_macros.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/picture/mask.h"

namespace latentd::pipeline {

using device::Buffer;
using device::DType;

absl::StatusOr<Buffer> RunSample(const Picture& picture, NamedBuffers inputs, double image_scale,
                                 double noise_scale, device::Stream& stream, PendingWork& work) {
  device::Device& device = picture.request->sample->device();
  ASSIGN_OR_RETURN(inputs["image_scale"], ScaleOf(device, image_scale));
  ASSIGN_OR_RETURN(inputs["noise_scale"], ScaleOf(device, noise_scale));
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   EnqueueGraph(picture.request->sample, inputs, /*to_host=*/{}, stream, work));
  return outputs.at("latents");
}

absl::StatusOr<Buffer> DifferentialMaskBefore(const Picture& picture, size_t evaluation) {
  const std::vector<schedulers::StepCoefficients>& steps = picture.stage().schedule().steps;
  if (evaluation == steps.size()) return Buffer();
  const Request& request = *picture.request;
  return MaskAt(*request.mask, steps[evaluation].passed, request.sample->device());
}

absl::Status KeepForSteps(Picture& picture, const NamedBuffers& inputs, device::Stream& stream) {
  device::Device& device = picture.request->sample->device();
  picture.kept = inputs;
  picture.kept["mask"] = picture.request->mask->latents;
  picture.kept.erase("drawn");
  for (auto& [name, buffer] : picture.kept) {
    const Buffer from = buffer;
    if (from.place() == device::Place::kDevice) continue;
    ASSIGN_OR_RETURN(buffer, device.Allocate(from.dtype(), from.shape(), device::Place::kDevice));
    RETURN_IF_ERROR(device.Copy(from, buffer, stream));
  }
  return absl::OkStatus();
}

absl::Status PutImageBack(const Picture& picture, device::Stream& stream, PendingWork& work) {
  StepLane& lane = *picture.place->lane();
  NamedBuffers inputs = picture.kept;
  if (picture.plan().spec.differential) {
    ASSIGN_OR_RETURN(inputs["mask"], DifferentialMaskBefore(picture, picture.evaluation + 1));
    if (!inputs["mask"].has_memory()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Buffer drawn, lane.device().Allocate(DType::kF32, picture.latents.shape(),
                                                              device::Place::kDevice));
  RETURN_IF_ERROR(lane.ReadState(*picture.place, /*index=*/0, drawn, stream));
  inputs["drawn"] = drawn;
  const auto [image_scale, noise_scale] = picture.stage().schedule().steps[picture.evaluation].kept;
  ASSIGN_OR_RETURN(const Buffer latents,
                   RunSample(picture, std::move(inputs), image_scale, noise_scale, stream, work));
  return lane.WriteLatents(*picture.place, latents, stream);
}

}  // namespace latentd::pipeline
