#include "server/calls/request_conversion.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/calls/basic_conversion.h"
#include "server/calls/request_form.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using calls::FromProto;  // overloads of basic_conversion.h, beside the ones here

// Reads NAME where the request has it: SET_IF_PRESENT(width, picture.width).
#define SET_IF_PRESENT(name, destination) \
  if (request.has_##name()) (destination) = request.name()

pipeline::Offset FromProto(const v1::Offset& offset) { return {offset.top(), offset.left()}; }

pipeline::GuidanceInterval FromProto(const v1::GuidanceInterval& interval) {
  return {interval.start(), interval.stop()};
}

#define SET_MESSAGE_IF_PRESENT(name, destination) \
  if (request.has_##name()) (destination) = FromProto(request.name())

void SetPrompts(const v1::GenerateRequest& request, pipeline::PictureSpec& picture) {
  picture.prompt = request.prompt();
  SET_IF_PRESENT(prompt_2, picture.prompt_2);
  SET_IF_PRESENT(negative_prompt, picture.negative_prompt);
  SET_IF_PRESENT(negative_prompt_2, picture.negative_prompt_2);
}

void SetScheduler(const v1::GenerateRequest& request, schedulers::Overrides& scheduler) {
  SET_IF_PRESENT(scheduler, scheduler.name);
  SET_IF_PRESENT(timestep_spacing, scheduler.timestep_spacing);
  SET_IF_PRESENT(prediction_type, scheduler.prediction_type);
  SET_IF_PRESENT(algorithm_type, scheduler.algorithm_type);
  SET_IF_PRESENT(use_karras_sigmas, scheduler.use_karras_sigmas);
  SET_IF_PRESENT(rescale_betas_zero_snr, scheduler.rescale_betas_zero_snr);
}

void SetDenoising(const v1::GenerateRequest& request, pipeline::PictureSpec& picture) {
  SET_IF_PRESENT(num_inference_steps, picture.num_inference_steps);
  SET_IF_PRESENT(guidance_scale, picture.guidance_scale);
  SET_IF_PRESENT(guidance_rescale, picture.guidance_rescale);
  SET_MESSAGE_IF_PRESENT(guidance_interval, picture.guidance_interval);
  SET_IF_PRESENT(eta, picture.eta);
  SET_IF_PRESENT(clip_skip, picture.clip_skip);
  SET_IF_PRESENT(refine, picture.refine);
  SET_IF_PRESENT(denoising_end, picture.denoising_end);
  SET_IF_PRESENT(denoising_start, picture.denoising_start);
  SET_IF_PRESENT(strength, picture.strength);
  picture.timesteps.assign(request.timesteps().begin(), request.timesteps().end());
  picture.sigmas.assign(request.sigmas().begin(), request.sigmas().end());
}

void SetImages(const v1::GenerateRequest& request, pipeline::PictureSpec& picture) {
  SET_IF_PRESENT(width, picture.width);
  SET_IF_PRESENT(height, picture.height);
  SET_IF_PRESENT(seed, picture.seed);
  SET_IF_PRESENT(num_images_per_prompt, picture.num_images_per_prompt);
  picture.seeds.assign(request.seeds().begin(), request.seeds().end());
}

void SetConditioning(const v1::GenerateRequest& request, pipeline::PictureSpec& picture) {
  SET_MESSAGE_IF_PRESENT(original_size, picture.original_size);
  SET_MESSAGE_IF_PRESENT(target_size, picture.target_size);
  SET_MESSAGE_IF_PRESENT(crops_coords_top_left, picture.crops_coords_top_left);
  SET_MESSAGE_IF_PRESENT(negative_original_size, picture.negative_original_size);
  SET_MESSAGE_IF_PRESENT(negative_target_size, picture.negative_target_size);
  SET_MESSAGE_IF_PRESENT(negative_crops_coords_top_left, picture.negative_crops_coords_top_left);
  SET_IF_PRESENT(aesthetic_score, picture.aesthetic_score);
  SET_IF_PRESENT(negative_aesthetic_score, picture.negative_aesthetic_score);
}

#undef SET_IF_PRESENT
#undef SET_MESSAGE_IF_PRESENT

image::Format FromProto(v1::Format format) {
  switch (format) {
    case v1::FORMAT_JPEG:
      return image::Format::kJpeg;
    case v1::FORMAT_WEBP:
      return image::Format::kWebp;
    case v1::FORMAT_RAW_RGB8:
      return image::Format::kRawRgb8;
    case v1::FORMAT_LATENT:
      return image::Format::kLatent;
    default:  // an unknown value is a violation of its own
      return image::Format::kPng;
  }
}

pipeline::BucketPolicy FromProto(v1::BucketPolicy policy) {
  switch (policy) {
    case v1::BUCKET_POLICY_SNAP:
      return pipeline::BucketPolicy::kSnap;
    case v1::BUCKET_POLICY_COLD_OK:
      return pipeline::BucketPolicy::kColdOk;
    default:  // an unknown value is a violation of its own
      return pipeline::BucketPolicy::kExact;
  }
}

image::EncodeOptions FromProto(const v1::Output& output) {
  image::EncodeOptions options;
  options.format = FromProto(output.format());
  if (output.has_quality()) options.quality = output.quality();
  if (output.has_embed_parameters()) options.embed_parameters = output.embed_parameters();
  return options;
}

// As the engine's table has it; empty: the first one.
std::string NameOf(v1::Model model) {
  if (model == v1::MODEL_UNSPECIFIED) return "";
  return model == v1::MODEL_REFINER ? "refiner" : "base";
}

}  // namespace

ConvertedRequest ToSpec(v1::GenerateRequest request) {
  ConvertedRequest converted;
  converted.violations = CheckForm(request);
  engine::GenerateSpec& spec = converted.spec;
  spec.request_id = request.request_id();
  spec.output = FromProto(request.output());
  spec.priority = request.priority();
  pipeline::PictureSpec& picture = spec.picture;
  picture.model = NameOf(request.model());
  SetPrompts(request, picture);
  SetScheduler(request, picture.scheduler);
  SetDenoising(request, picture);
  SetImages(request, picture);
  picture.bucket_policy = FromProto(request.bucket_policy());
  picture.batch_invariant = request.batch_invariant();
  if (request.has_previews()) picture.previews_every = request.previews().every_n_steps();
  SetConditioning(request, picture);
  if (request.has_image() || request.has_latents()) {
    spec.inputs = std::make_shared<const pipeline::Inputs>(pipeline::Inputs{
        std::move(*request.mutable_image()), std::move(*request.mutable_latents())});
  }
  return converted;
}

}  // namespace latentd::server::calls
