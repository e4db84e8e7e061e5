// The units around the steps: text, init image, pixels.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/memory_room.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/image/decode.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/units/conditioning.h"
#include "core/pipeline/units/pixels.h"
#include "core/pipeline/units/run_graph.h"
#include "core/pipeline/units/unit_kinds.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;

std::string VaeOf(const Picture& picture) {
  return absl::StrCat("the ", picture.model().name, "'s vae");
}

device::Shape LatentShape(const Picture& picture) {
  const LatentSize& size = picture.plan().latents;
  return {1, picture.stage().model.latent_channels(), size.height, size.width};
}

// As it is drawn, turned as EXIF says, and on its way to another size.
absl::StatusOr<MemoryRoom> TakeRoomForPixels(absl::string_view image) {
  constexpr int64_t kBytes = 3, kAtATime = 3;
  const image::Dimensions size = image::ReadDimensions(image).value_or(image::Dimensions());
  return MemoryRoom::Take(kBytes * kAtATime * size.width * size.height, "the init image");
}

absl::StatusOr<Buffer> ReadInitImage(Request& request) {
  const std::string& file = request.inputs->image;
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file));
  image::PassedOver passed_over;
  const absl::StatusOr<image::Image> decoded = image::Decode(file, passed_over);
  if (absl::IsInvalidArgument(decoded.status())) {
    return InvalidFields({{"image", std::string(decoded.status().message())}});
  }
  RETURN_IF_ERROR(decoded.status());
  request.image_warnings = std::move(passed_over);
  const PictureSpec& spec = request.spec();
  ASSIGN_OR_RETURN(image::Image resized, image::ResizeLanczos(*decoded, *spec.width, *spec.height));
  return ToPixels(ExtendEdges(std::move(resized), request.plan->executed_size));
}

absl::StatusOr<Buffer> EncodeInitImage(const Picture& picture, device::Stream& stream,
                                       PendingWork& work) {
  ASSIGN_OR_RETURN(const Buffer image, ReadInitImage(*picture.request));
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   EnqueueGraph(picture.request->encode, {{"image", image}},
                                /*to_host=*/{"finite"}, stream, work));
  work.flags.push_back({outputs.at("finite"), "encoded image", VaeOf(picture)});
  return outputs.at("moments");
}

absl::StatusOr<Buffer> ScaleOf(device::Device& device, double value) {
  const auto scale = static_cast<float>(value);
  return Pinned<float>(device, DType::kF32, {1}, {&scale, 1});
}

// Latents of an encoded image: drawn from a distribution first, and noised for the first step
// unless the schedule goes on where another one ended.
absl::StatusOr<Buffer> SampleLatents(Picture& picture, device::Stream& stream, PendingWork& work) {
  const Request& request = *picture.request;
  const LoadedModel& model = picture.stage().model;
  const schedulers::Schedule& schedule = picture.stage().schedule();
  device::Device& device = request.sample->device();
  const device::Shape shape = LatentShape(picture);
  NamedBuffers inputs = {{"moments", *request.encoded_image}};
  if (IsDistribution(model.vae())) inputs["sample_noise"] = picture.generator.Normal(shape);
  const bool noised = !request.spec().denoising_start;
  inputs["noise"] = noised ? picture.generator.Normal(shape) : Buffer::Allocate(DType::kF32, shape);
  ASSIGN_OR_RETURN(inputs["image_scale"], ScaleOf(device, noised ? schedule.start_image_scale : 1));
  ASSIGN_OR_RETURN(inputs["noise_scale"], ScaleOf(device, noised ? schedule.start_noise_scale : 0));
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   EnqueueGraph(request.sample, inputs, /*to_host=*/{}, stream, work));
  return outputs.at("latents");
}

}  // namespace

absl::Status EnqueueText(Picture& picture, device::Stream& stream, UnitPart& part) {
  Request& request = *picture.request;
  auto& conditioning = request.conditioning[picture.stage_index];
  if (!conditioning) {
    ASSIGN_OR_RETURN(conditioning,
                     MakeConditioning(picture.stage(), request.spec(), stream, part.work));
  }
  picture.Advance();
  return picture.next == UnitKind::kEncode ? absl::OkStatus() : BeginSteps(picture, stream, part);
}

absl::Status EnqueuePreview(const Picture& picture, device::Stream& stream, UnitPart& part) {
  if (picture.request->preview == nullptr) {
    return absl::UnavailableError("the tiny VAE has failed for another image of the request");
  }
  part.prediction = picture.prediction;
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   EnqueueGraph(picture.request->preview, {{"latents", SumOf(part.prediction)}},
                                /*to_host=*/{"finite", "pixels"}, stream, part.work));
  part.work.flags.push_back({outputs.at("finite"), "preview", "vae_tiny"});
  part.prediction.pixels = outputs.at("pixels");
  return absl::OkStatus();
}

absl::Status EnqueueEncode(Picture& picture, device::Stream& stream, UnitPart& part) {
  Request& request = *picture.request;
  if (!request.encoded_image) {
    ASSIGN_OR_RETURN(request.encoded_image, EncodeInitImage(picture, stream, part.work));
  }
  ASSIGN_OR_RETURN(picture.latents, SampleLatents(picture, stream, part.work));
  picture.Advance();
  return BeginSteps(picture, stream, part);
}

absl::Status EnqueueDecode(Picture& picture, device::Stream& stream, UnitPart& part) {
  const Request& request = *picture.request;
  const bool again = picture.decode_redone;
  ASSIGN_OR_RETURN(
      const NamedBuffers outputs,
      EnqueueGraph(again ? request.decode_fallback : request.decode, {{"latents", picture.latents}},
                   /*to_host=*/{"finite", "pixels"}, stream, part.work));
  part.work.flags.push_back({outputs.at("finite"),
                             again ? "picture decoded again in float32" : "decoded picture",
                             VaeOf(picture)});
  part.pixels = outputs.at("pixels");
  picture.next = UnitKind::kWait;
  return absl::OkStatus();
}

absl::Status CompleteDecode(Picture& picture, UnitPart& part) {
  const absl::Status finite = part.work.flags.front().Check();
  if (!finite.ok() && picture.request->decode_fallback != nullptr && !picture.decode_redone) {
    picture.decode_redone = true;
    picture.next = UnitKind::kDecode;
    part.ends_stage = false;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(finite);
  picture.pixels = CentreOf(part.pixels, picture.size());
  picture.next = UnitKind::kDone;
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
