// The units around the steps: text, init image, pixels.
#include <cmath>
#include <utility>

#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/image/decode.h"
#include "core/image/resize.h"
#include "core/pipeline/pixels.h"
#include "core/pipeline/run_graph.h"
#include "core/pipeline/units.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;

bool AllFinite(const Buffer& buffer) {
  for (float x : buffer.as<float>()) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

absl::StatusOr<Buffer> ReadInitImage(const PictureSpec& spec) {
  const absl::StatusOr<image::Image> decoded = image::Decode(spec.image);
  if (absl::IsInvalidArgument(decoded.status())) {
    return InvalidFields({{"image", std::string(decoded.status().message())}});
  }
  RETURN_IF_ERROR(decoded.status());
  ASSIGN_OR_RETURN(const image::Image resized,
                   image::ResizeLanczos(*decoded, *spec.width, *spec.height));
  return ToTensor(resized);
}

absl::StatusOr<Buffer> EncodeInitImage(const SdxlModel& model, const Request& request) {
  ASSIGN_OR_RETURN(const Buffer image, ReadInitImage(request.spec));
  ASSIGN_OR_RETURN(const ExecutablePointer executable,
                   model.Encode(request.latent_height, request.latent_width));
  ASSIGN_OR_RETURN(const NamedBuffers outputs, RunGraph(*executable, {{"image", image}}));
  return outputs.at("encoded");
}

// x = a * latents + b * noise.
void AddNoise(Picture& picture) {
  const schedulers::Schedule& schedule = picture.stage().schedule;
  const Buffer noise = picture.generator.Normal(picture.latents.shape());
  const absl::Span<float> x = picture.latents.as<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(schedule.start_image_scale) * x[i] +
           static_cast<float>(schedule.start_noise_scale) * noise.as<float>()[i];
  }
}

}  // namespace

absl::Status RunText(Picture& picture) {
  Request& request = *picture.request;
  auto& conditioning = request.conditioning[picture.stage_index];
  if (!conditioning) {
    ASSIGN_OR_RETURN(conditioning, MakeConditioning(*picture.stage().model, request.spec));
  }
  if (picture.stage_index == 0 && !request.spec.image.empty()) {
    picture.next = UnitKind::kEncode;
    return absl::OkStatus();
  }
  return BeginSteps(picture);
}

absl::Status RunEncode(Picture& picture) {
  Request& request = *picture.request;
  const SdxlModel& model = *picture.stage().model;
  if (!request.encoded_image) {
    ASSIGN_OR_RETURN(request.encoded_image, EncodeInitImage(model, request));
  }
  picture.latents = ToLatents(model.vae(), *request.encoded_image, picture.generator);
  if (!request.spec.denoising_start) AddNoise(picture);
  return BeginSteps(picture);
}

absl::Status RunDecode(Picture& picture) {
  const Request& request = *picture.request;
  ASSIGN_OR_RETURN(const ExecutablePointer executable,
                   picture.stage().model->Decode(request.latent_height, request.latent_width));
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   RunGraph(*executable, {{"latents", picture.latents}}));
  const Buffer& pixels = outputs.at("image");
  if (!AllFinite(pixels)) return absl::InternalError("the picture has values that are not finite");
  picture.pixels = ToImage(pixels);
  picture.next = UnitKind::kDone;
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
