// The units around the steps: text, init image, pixels.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/image/decode.h"
#include "core/image/resize.h"
#include "core/pipeline/finite.h"
#include "core/pipeline/pixels.h"
#include "core/pipeline/tiled_executable.h"
#include "core/pipeline/units.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;

absl::StatusOr<Buffer> ReadInitImage(const Request& request) {
  const PictureSpec& spec = request.spec;
  const absl::StatusOr<image::Image> decoded = image::Decode(spec.image);
  if (absl::IsInvalidArgument(decoded.status())) {
    return InvalidFields({{"image", std::string(decoded.status().message())}});
  }
  RETURN_IF_ERROR(decoded.status());
  ASSIGN_OR_RETURN(image::Image resized, image::ResizeLanczos(*decoded, *spec.width, *spec.height));
  return ToTensor(ExtendEdges(std::move(resized), request.executed_size));
}

absl::StatusOr<Buffer> EncodeInitImage(const Request& request) {
  ASSIGN_OR_RETURN(const Buffer image, ReadInitImage(request));
  return Encode(*request.encode, DownscaleOf(request.stages.front().model->vae()), image);
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
    ASSIGN_OR_RETURN(conditioning, MakeConditioning(picture.stage(), request.spec));
  }
  if (picture.stage_index == 0 && !request.spec.image.empty()) {
    picture.next = UnitKind::kEncode;
    return absl::OkStatus();
  }
  return BeginSteps(picture);
}

absl::Status RunEncode(Picture& picture) {
  Request& request = *picture.request;
  if (!request.encoded_image) {
    ASSIGN_OR_RETURN(request.encoded_image, EncodeInitImage(request));
  }
  picture.latents =
      ToLatents(picture.stage().model->vae(), *request.encoded_image, picture.generator);
  if (!request.spec.denoising_start) AddNoise(picture);
  return BeginSteps(picture);
}

absl::Status RunDecode(Picture& picture) {
  const Request& request = *picture.request;
  const int downscale = DownscaleOf(picture.stage().model->vae());
  ASSIGN_OR_RETURN(Buffer pixels, Decode(request.decode, downscale, picture.latents));
  const std::string network = absl::StrCat("the ", NameOf(picture.model()), "'s vae");
  absl::Status finite = CheckFinite(pixels, "decoded picture", network);
  if (!finite.ok() && request.decode_fallback) {
    ASSIGN_OR_RETURN(pixels, Decode(*request.decode_fallback, downscale, picture.latents));
    finite = CheckFinite(pixels, "picture decoded again in float32", network);
    picture.decode_redone = true;
  }
  RETURN_IF_ERROR(finite);
  picture.pixels = CentreCrop(ToImage(pixels), picture.size());
  picture.next = UnitKind::kDone;
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
