#include "core/pipeline/units/controls.h"

#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/picture/pixels.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

// As the net reads it: of the picture's size, whatever size it has.
absl::StatusOr<Buffer> ReadControlImage(Request& request, size_t index) {
  const std::string field = absl::StrCat("controls[", index, "].image");
  const std::string& file = request.inputs->control_images[index];
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file, field));
  ASSIGN_OR_RETURN(const image::Image decoded, DecodeField(file, field, request.image_warnings));
  const PictureSpec& spec = request.spec();
  ASSIGN_OR_RETURN(image::Image resized, image::ResizeLanczos(decoded, *spec.width, *spec.height));
  return ToPixels(ExtendEdges(std::move(resized), request.plan->executed_size));
}

// Tells a ControlNet-Union the type of the image.
void AddImageType(const Control& control, const backends::Executable& hint, NamedBuffers& inputs) {
  for (const backends::Port& port : hint.inputs()) {
    if (port.name != "image_types") continue;
    Buffer types = Buffer::Allocate(port.dtype, port.shape);
    const auto values = types.as<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int>(i) == control.mode.value_or(-1) ? 1 : 0;
    }
    inputs[port.name] = std::move(types);
  }
}

bool HasControls(const Picture& picture) {
  return picture.stage_index == 0 && !picture.request->controls.empty();
}

// Runs of the nets that take part in the next evaluation.
std::vector<ControlRun> RunsOf(const Picture& picture) {
  std::vector<ControlRun> runs;
  if (!HasControls(picture)) return runs;
  for (size_t i = 0; i < picture.request->controls.size(); ++i) {
    const RequestControl& control = picture.request->controls[i];
    const double scale = picture.plan().controls[i].scales[picture.evaluation];
    if (scale == 0) continue;
    runs.push_back({.executable = control.steps.at(picture.next_rows()),
                    .request = &*control.conditioning,
                    .image = &control.image,
                    .scale = static_cast<float>(scale),
                    .guesses = picture.plan().spec.guess_mode});
  }
  return runs;
}

}  // namespace

absl::Status EnqueueControls(Picture& picture, StepLane& lane, device::Stream& stream) {
  const std::vector<ControlRun> runs = RunsOf(picture);
  if (runs.empty()) {
    if (!std::exchange(picture.has_residuals, false)) return absl::OkStatus();
    return lane.ClearResiduals(*picture.place, stream);
  }
  const schedulers::StepCoefficients& line = picture.stage().schedule().steps[picture.evaluation];
  ControlInputs inputs = {.rows = picture.next_rows(),
                          .input_scale = static_cast<float>(line.input_scale),
                          .timestep = static_cast<float>(line.timestep)};
  ASSIGN_OR_RETURN(inputs.latents,
                   lane.device().Allocate(DType::kF32, picture.latents.shape(), Place::kDevice));
  RETURN_IF_ERROR(lane.ReadState(*picture.place, /*index=*/0, inputs.latents, stream));
  ASSIGN_OR_RETURN(const std::vector<Buffer> residuals, lane.controls().Run(runs, inputs, stream));
  picture.has_residuals = true;
  return lane.WriteResiduals(*picture.place, residuals, stream);
}

void LeaveOtherNets(absl::Span<Picture* const> pictures, StepLane& lane, PendingWork& work) {
  std::set<const backends::Executable*> used;
  for (const Picture* picture : pictures) {
    for (const RequestControl& control : picture->request->controls) {
      for (const auto& [rows, executable] : control.steps) used.insert(executable.get());
    }
  }
  absl::c_move(lane.controls().TakeAllBut(used), std::back_inserter(work.kept));
}

absl::Status EncodeHints(Picture& picture, device::Stream& stream, PendingWork& work) {
  if (!HasControls(picture)) return absl::OkStatus();
  Request& request = *picture.request;
  for (size_t i = 0; i < request.controls.size(); ++i) {
    RequestControl& control = request.controls[i];
    if (!control.image.empty()) continue;
    NamedBuffers inputs;
    ASSIGN_OR_RETURN(inputs["image"], ReadControlImage(request, i));
    AddImageType(request.spec().controls[i], *control.hint, inputs);
    ASSIGN_OR_RETURN(control.image,
                     EnqueueGraph(control.hint, inputs, /*to_host=*/{}, stream, work));
  }
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
