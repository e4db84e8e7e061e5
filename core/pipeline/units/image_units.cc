// The units around the steps: text, init image, pixels.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/memory_room.h"
#include "core/base/text/text.h"
#include "core/image/pixels/crop_region.h"
#include "core/image/pixels/fit.h"
#include "core/image/pixels/grey.h"
#include "core/image/pixels/overlay.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/picture/pixels.h"
#include "core/pipeline/picture/preview.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/units/conditioning.h"
#include "core/pipeline/units/image_prompts.h"
#include "core/pipeline/units/kept_image.h"
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

// The image at the size that was asked for, or what is drawn of it as large as that has room for.
absl::StatusOr<image::Image> Fitted(const Request& request, const image::Image& image) {
  const int width = *request.spec().width, height = *request.spec().height;
  if (!request.crop) return image::ResizeLanczos(image, width, height);
  return image::ResizeToFill(image::Crop(image, *request.crop), width, height);
}

// Keeps the image to be laid over what is drawn of `box` of it.
absl::Status KeepOver(image::Image image, const image::Box& box, Request& request) {
  if (request.kept_greys.size() != size_t{1} * image.width * image.height) {
    return absl::InternalError("a mask has another size than the image that it is laid over");
  }
  request.overlay = std::make_shared<const image::Overlay>(
      std::move(image), std::exchange(request.kept_greys, {}), box);
  return absl::OkStatus();
}

absl::StatusOr<Buffer> ReadInitImage(Request& request) {
  const std::string& file = request.inputs->image;
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file, "the init image"));
  ASSIGN_OR_RETURN(image::Image decoded, DecodeField(file, "image", request.image_warnings));
  ASSIGN_OR_RETURN(image::Image fitted, Fitted(request, decoded));
  if (request.crop) {
    RETURN_IF_ERROR(KeepOver(std::move(decoded), *request.crop, request));
  } else if (request.spec().preserve_unmasked) {
    RETURN_IF_ERROR(KeepOver(fitted, {0, 0, fitted.width, fitted.height}, request));
  }
  return ToPixels(ExtendEdges(std::move(fitted), request.plan->executed_size));
}

// Finds the part of the image that is drawn.
absl::Status ChooseCrop(const image::Image& mask, Request& request) {
  const PictureSpec& spec = request.spec();
  request.kept_greys = image::GreysOf(mask);
  request.crop = image::CropRegion(request.kept_greys, {mask.width, mask.height},
                                   {*spec.width, *spec.height}, *spec.padding_mask_crop);
  if (!request.crop) {
    return InvalidFields(
        {{"mask_image", "is black all over: padding_mask_crop finds nothing to draw over"}});
  }
  // Drawn pixels are enlarged until they cover the part.
  const double scale = std::max(static_cast<double>(request.crop->width()) / *spec.width,
                                static_cast<double>(request.crop->height()) / *spec.height);
  const auto covering = [&](int side) { return static_cast<int64_t>(std::ceil(side * scale)); };
  const absl::Status size = image::CheckSize(covering(*spec.width), covering(*spec.height));
  if (size.ok()) return size;
  return InvalidFields(
      {{"mask_image",
        absl::StrCat("has white over ", SizeText(request.crop->width(), request.crop->height()),
                     ", too much for padding_mask_crop at ", SizeText(*spec.width, *spec.height),
                     ": ", size.message())}});
}

absl::Status ReadMaskImage(Request& request, int downscale) {
  const std::string& file = request.inputs->mask_image;
  const PictureSpec& spec = request.spec();
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file, "the mask"));
  ASSIGN_OR_RETURN(const image::Image mask,
                   DecodeMask(file, spec.mask_blur.value_or(0), request.image_warnings));
  if (spec.padding_mask_crop) RETURN_IF_ERROR(ChooseCrop(mask, request));
  ASSIGN_OR_RETURN(image::Image fitted, Fitted(request, mask));
  if (!request.crop && spec.preserve_unmasked) request.kept_greys = image::GreysOf(fitted);
  request.mask = MaskOf(ExtendEdges(std::move(fitted), request.plan->executed_size), downscale);
  return absl::OkStatus();
}

// With a strength of 1 a mask's picture begins with noise alone, as in diffusers' inpainting; but
// with a differential one.
bool BeginsWithNoise(const Request& request) {
  const PictureSpec& spec = request.spec();
  return spec.has_mask && !spec.differential && spec.strength == 1.0;
}

bool Inpaints(const Picture& picture) { return picture.stage().model.configs().inpaints(); }

// The latents that the encoder makes of the image, or with `keep` of a part of it.
absl::StatusOr<Buffer> Encode(const Picture& picture, NamedBuffers inputs, device::Stream& stream,
                              PendingWork& work) {
  ASSIGN_OR_RETURN(const NamedBuffers outputs, EnqueueGraph(picture.request->encode, inputs,
                                                            /*to_host=*/{"finite"}, stream, work));
  work.flags.push_back({outputs.at("finite"), "encoded image", VaeOf(picture)});
  return outputs.at("moments");
}

Buffer KeepAll(const Buffer& image) {
  Buffer keep = Buffer::Allocate(DType::kU8, {1, image.shape()[1], image.shape()[2], 1});
  const absl::Span<uint8_t> pixels = keep.as<uint8_t>();
  std::fill(pixels.begin(), pixels.end(), uint8_t{1});
  return keep;
}

// Encodes what steps read of the init image, unless another picture of the request has.
absl::Status EncodeInitImage(const Picture& picture, device::Stream& stream, PendingWork& work) {
  Request& request = *picture.request;
  const bool inpaints = Inpaints(picture), whole = !inpaints || !BeginsWithNoise(request);
  const bool wants_whole = whole && !request.encoded_image;
  const bool wants_masked = inpaints && !request.encoded_masked_image;
  if (!wants_whole && !wants_masked) return absl::OkStatus();
  if (wants_masked && !request.mask) return absl::InternalError("an image to inpaint has no mask");
  ASSIGN_OR_RETURN(const Buffer image, ReadInitImage(request));
  NamedBuffers inputs = {{"image", image}};
  if (wants_whole) {
    if (inpaints) inputs["keep"] = KeepAll(image);
    ASSIGN_OR_RETURN(request.encoded_image, Encode(picture, inputs, stream, work));
  }
  if (wants_masked) {
    inputs["keep"] = request.mask->keep;
    ASSIGN_OR_RETURN(request.encoded_masked_image, Encode(picture, inputs, stream, work));
  }
  return absl::OkStatus();
}

// Inputs of the sample graph for an encoded image: nothing is drawn over it.
NamedBuffers SampleInputs(Picture& picture, const Buffer& moments) {
  const device::Shape shape = LatentShape(picture);
  NamedBuffers inputs = {{"moments", moments},
                         {"drawn", Buffer::Allocate(DType::kF32, shape)},
                         {"mask", Buffer::Allocate(DType::kF32, {1, 1, shape[2], shape[3]})}};
  if (IsDistribution(picture.stage().model.vae())) {
    inputs["sample_noise"] = picture.generator.Normal(shape);
  }
  return inputs;
}

// Latents of an encoded image: drawn from a distribution first, and noised for the first step
// unless the schedule goes on where another one ended.
absl::Status SampleLatents(Picture& picture, device::Stream& stream, PendingWork& work) {
  const Request& request = *picture.request;
  const schedulers::Schedule& schedule = picture.stage().schedule();
  const device::Shape shape = LatentShape(picture);
  NamedBuffers inputs = SampleInputs(picture, *request.encoded_image);
  const bool masked = request.spec().has_mask, noised = !request.spec().denoising_start;
  inputs["noise"] =
      noised || masked ? picture.generator.Normal(shape) : Buffer::Allocate(DType::kF32, shape);
  if (masked && !Inpaints(picture)) RETURN_IF_ERROR(KeepForSteps(picture, inputs, stream));
  std::array<double, 2> scales = {1, 0};
  if (noised) scales = {schedule.start_image_scale, schedule.start_noise_scale};
  if (BeginsWithNoise(request)) scales = {0, schedule.initial_noise_scale};
  ASSIGN_OR_RETURN(picture.latents,
                   RunSample(picture, std::move(inputs), scales[0], scales[1], stream, work));
  return absl::OkStatus();
}

// Likewise with a differential mask, in the order in which diffusers' community pipeline draws: for
// the image and for its noise, then both once more for what is put back, of which a picture begins
// that has all of its schedule ahead. One from denoising_start on begins with the first image, and
// what is put back where the mask keeps that.
absl::Status SampleDifferential(Picture& picture, device::Stream& stream, PendingWork& work) {
  const Request& request = *picture.request;
  const schedulers::Schedule& schedule = picture.stage().schedule();
  const device::Shape shape = LatentShape(picture);
  NamedBuffers first = SampleInputs(picture, *request.encoded_image);
  const bool noised = !request.spec().denoising_start;
  if (noised) picture.generator.Normal(shape);
  NamedBuffers inputs = SampleInputs(picture, *request.encoded_image);
  inputs["noise"] = picture.generator.Normal(shape);
  RETURN_IF_ERROR(KeepForSteps(picture, inputs, stream));
  if (!noised) {
    first["noise"] = Buffer::Allocate(DType::kF32, shape);
    ASSIGN_OR_RETURN(inputs["drawn"], RunSample(picture, std::move(first), /*image_scale=*/1,
                                                /*noise_scale=*/0, stream, work));
    ASSIGN_OR_RETURN(const Buffer mask, DifferentialMaskBefore(picture, /*evaluation=*/0));
    if (mask.has_memory()) inputs["mask"] = mask;
  }
  ASSIGN_OR_RETURN(picture.latents,
                   RunSample(picture, std::move(inputs), schedule.start_image_scale,
                             schedule.start_noise_scale, stream, work));
  return absl::OkStatus();
}

// Latents of the init image, if it was encoded.
absl::Status BeginWithImage(Picture& picture, device::Stream& stream, PendingWork& work) {
  if (!picture.request->encoded_image) return DrawFirstLatents(picture);
  if (picture.request->spec().differential) return SampleDifferential(picture, stream, work);
  return SampleLatents(picture, stream, work);
}

// The latents that a UNet that inpaints reads of the masked image. diffusers draws for another one
// too, which reads nothing of it.
absl::Status SampleMaskedImage(Picture& picture, device::Stream& stream, PendingWork& work) {
  const Request& request = *picture.request;
  const device::Shape shape = LatentShape(picture);
  if (!Inpaints(picture)) {
    if (IsDistribution(picture.stage().model.vae())) picture.generator.Normal(shape);
    return absl::OkStatus();
  }
  NamedBuffers inputs = SampleInputs(picture, *request.encoded_masked_image);
  inputs["noise"] = Buffer::Allocate(DType::kF32, shape);
  ASSIGN_OR_RETURN(const Buffer latents, RunSample(picture, std::move(inputs), /*image_scale=*/1,
                                                   /*noise_scale=*/0, stream, work));
  const Buffer& mask = request.mask->latents;
  picture.inpainting = {{kMaskPort, mask.Reshaped({1, mask.elements()})},
                        {kMaskedLatentsPort, latents.Reshaped({1, latents.elements()})}};
  return absl::OkStatus();
}

}  // namespace

absl::Status EnqueueText(Picture& picture, device::Stream& stream, UnitPart& part) {
  Request& request = *picture.request;
  part.encodes_all =
      picture.EncodesText(picture.stage_index) && !picture.stage().planned.reads_embeds();
  part.amount = picture.stage().planned.text_times();
  if (request.spec().output_embeds) {
    ASSIGN_OR_RETURN(part.embeds, EncodeToHost(picture.stage(), stream, part.work));
    picture.next = UnitKind::kWait;
    return absl::OkStatus();
  }
  auto& conditioning = request.conditioning[picture.stage_index];
  if (!conditioning) {
    absl::Span<RequestControl> controls;
    if (picture.stage_index == 0) controls = absl::MakeSpan(request.controls);
    ASSIGN_OR_RETURN(conditioning, MakeConditioning(picture.stage(), request.inputs.get(), stream,
                                                    part.work, controls));
  }
  RETURN_IF_ERROR(EncodeImagePrompts(picture, stream, part.work));
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

// In the order in which diffusers draws: for the image, where it is read, for the noise, for the
// masked image.
absl::Status EnqueueEncode(Picture& picture, device::Stream& stream, UnitPart& part) {
  Request& request = *picture.request;
  const bool masked = request.spec().has_mask;
  if (masked && !request.mask) {
    RETURN_IF_ERROR(ReadMaskImage(request, DownscaleOf(picture.stage().model.vae())));
  }
  RETURN_IF_ERROR(EncodeInitImage(picture, stream, part.work));
  RETURN_IF_ERROR(BeginWithImage(picture, stream, part.work));
  if (masked && !request.spec().differential)
    RETURN_IF_ERROR(SampleMaskedImage(picture, stream, part.work));
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
