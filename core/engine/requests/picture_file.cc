#include "core/engine/requests/picture_file.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/encode.h"
#include "core/image/parameters.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/control_modes.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/validation.h"
#include "core/pipeline/units/embeds_file.h"
#include "core/schedulers/sampler_name.h"

namespace latentd::engine {
namespace {

// " (0123abcd)": the beginning of a file's digest; empty without one.
std::string DigestText(const std::string& digest) {
  constexpr size_t kDigestBytes = 8;
  return digest.empty() ? "" : absl::StrCat(" (", digest.substr(0, kDigestBytes), ")");
}

// "film:0.8 (0123abcd), detail:-0.5:1 (4567cdef) as lcm": the weights, the beginning of the digest,
// and the preset that counts.
std::string AdaptersText(const std::vector<pipeline::Adapter>& adapters) {
  std::string text;
  for (const pipeline::Adapter& adapter : adapters) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", adapter.name, ":", adapter.unet_factor());
    if (adapter.text_factor() != adapter.unet_factor()) {
      absl::StrAppend(&text, ":", adapter.text_factor());
    }
    absl::StrAppend(&text, DigestText(adapter.digest));
    if (!adapter.preset.empty()) absl::StrAppend(&text, " as ", adapter.preset);
  }
  return text;
}

// Text of what it reads, but for one image: " of 2 images", " of embeddings".
std::string ImagesText(const pipeline::ImagePrompt& prompt) {
  if (!prompt.reads_embeds) {
    return prompt.images > 1 ? absl::StrCat(" of ", prompt.images, " images") : "";
  }
  return prompt.images > 1 ? absl::StrCat(" of embeddings of ", prompt.images, " images")
                           : " of embeddings";
}

// "ip-adapter_sdxl:0.6 (0123abcd), plus:0.5 at up.block_0=0/1/0 of 2 images (4567cdef)".
std::string IpAdaptersText(const std::vector<pipeline::ImagePrompt>& prompts) {
  std::string text;
  for (const pipeline::ImagePrompt& prompt : prompts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", prompt.name, ":", *prompt.scale);
    if (!prompt.scales.empty()) absl::StrAppend(&text, " at ", TextOf(prompt.scales));
    absl::StrAppend(&text, ImagesText(prompt), DigestText(prompt.digest));
  }
  return text;
}

// "canny:0.7 (0123abcd), union@depth:1:0:0.5 (4567cdef)": the type of the map, the scale, and the
// part where it is not all.
std::string ControlsText(const std::vector<pipeline::Control>& controls) {
  std::string text;
  for (const pipeline::Control& control : controls) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", control.name);
    if (control.mode) absl::StrAppend(&text, "@", pipeline::NameOfControlMode(*control.mode));
    absl::StrAppend(&text, ":", *control.scale);
    if (*control.start != 0 || *control.end != 1) {
      absl::StrAppend(&text, ":", *control.start, ":", *control.end);
    }
    absl::StrAppend(&text, DigestText(control.digest));
  }
  return text;
}

// Settings of a mask, as far as the web UI has them by its names.
void AddMask(const pipeline::PictureSpec& resolved, image::PictureParameters& parameters) {
  if (resolved.mask_blur) {
    parameters.extra.push_back({"Mask blur", absl::StrCat(*resolved.mask_blur)});
  }
  if (resolved.padding_mask_crop) {
    parameters.extra.push_back({"Inpaint area", "Only masked"});
    parameters.extra.push_back({"Masked area padding", absl::StrCat(*resolved.padding_mask_crop)});
  }
  if (resolved.differential) parameters.extra.push_back({"Differential mask", "True"});
  if (resolved.preserve_unmasked) parameters.extra.push_back({"Preserve unmasked", "True"});
}

// Parameters that pictures and videos have.
image::PictureParameters CommonParametersOf(const pipeline::PictureSpec& resolved, uint64_t seed) {
  image::PictureParameters parameters;
  parameters.steps = pipeline::StepsOf(resolved);
  parameters.sampler = std::string(schedulers::SamplerOf(resolved.scheduler));
  parameters.schedule_type = std::string(schedulers::ScheduleTypeOf(resolved.scheduler));
  parameters.cfg_scale = *resolved.guidance_scale;
  parameters.seed = seed;
  parameters.width = *resolved.width;
  parameters.height = *resolved.height;
  parameters.version = "latentd";
  return parameters;
}

// "auto", and after which step guidance has stopped, if it has.
std::string GuidanceStopText(int stopped_after) {
  return stopped_after == 0 ? "auto" : absl::StrCat("auto (after step ", stopped_after, ")");
}

// Parameters of a picture, as the text that a PNG carries.
std::string ParametersOf(const pipeline::Plan& plan, uint64_t seed, int stopped_after) {
  const pipeline::PictureSpec& resolved = plan.spec;
  image::PictureParameters parameters = CommonParametersOf(resolved, seed);
  parameters.prompt = resolved.prompt;
  parameters.negative_prompt = resolved.negative_prompt.value_or("");
  parameters.denoising_strength = resolved.strength;
  parameters.clip_skip = resolved.clip_skip_a1111;
  if (resolved.clip_skip) {
    parameters.extra.push_back({"Clip skip (diffusers)", absl::StrCat(*resolved.clip_skip)});
  }
  if (resolved.prompt_syntax != prompts::Syntax::kNone) {
    parameters.extra.push_back({"Prompt syntax", std::string(NameOf(resolved.prompt_syntax))});
  }
  if (!resolved.adapters.empty()) {
    parameters.extra.push_back({"Adapters", AdaptersText(resolved.adapters)});
  }
  if (!resolved.controls.empty()) {
    parameters.extra.push_back({"Controls", ControlsText(resolved.controls)});
    if (resolved.guess_mode) parameters.extra.push_back({"Guess mode", "True"});
  }
  if (!resolved.ip_adapters.empty()) {
    parameters.extra.push_back({"IP-Adapters", IpAdaptersText(resolved.ip_adapters)});
  }
  if (resolved.guidance_stop == pipeline::GuidanceStop::kAuto) {
    parameters.extra.push_back({"Guidance stop", GuidanceStopText(stopped_after)});
  }
  if (plan.caches()) {
    parameters.extra.push_back(
        {"Feature cache interval", absl::StrCat(*resolved.feature_cache_interval)});
  }
  AddMask(resolved, parameters);
  if (resolved.refine) parameters.refiner_switch_at = resolved.denoising_end;
  return image::ParametersText(parameters);
}

}  // namespace

int64_t MaxEncodedBytes(pipeline::Size size, image::Format format) {
  // Incompressible pixels, plus rows' and blocks' framing and the parameters with two prompts.
  const int64_t raw = int64_t{size.width} * size.height * 3;
  if (format == image::Format::kRawRgb8) return raw;
  return raw + raw / 64 + size.height + 3 * static_cast<int64_t>(pipeline::kMaxPromptBytes);
}

absl::StatusOr<Image> EncodeImage(const Job& job, int index, uint64_t seed,
                                  const image::Image& pixels, const image::RunParts& run_parts) {
  const int stopped_after = job.guidance_stopped_after[index];
  const std::string parameters =
      job.plan->spec.video ? "" : ParametersOf(*job.plan, seed, stopped_after);
  absl::StatusOr<std::string> bytes = image::Encode(pixels, job.spec.output, parameters, run_parts);
  if (!bytes.ok()) return bytes.status();
  return Image{
      index, seed, {pixels.width, pixels.height}, job.spec.output.format, *std::move(bytes)};
}

std::string VideoParametersOf(const Job& job, uint64_t seed) {
  const pipeline::VideoSpec& video = *job.plan->spec.video;
  image::PictureParameters parameters = CommonParametersOf(job.plan->spec, seed);
  parameters.cfg_scale = video.max_guidance_scale;
  parameters.extra = {{"Min CFG scale", absl::StrCat(video.min_guidance_scale)},
                      {"Frames", absl::StrCat(*video.num_frames)},
                      {"FPS", absl::StrCat(video.fps)},
                      {"Motion bucket", absl::StrCat(video.motion_bucket_id)},
                      {"Noise augmentation", absl::StrCat(video.noise_aug_strength)},
                      {"Decode chunk", absl::StrCat(*video.decode_chunk_size)}};
  if (video.resize_mode == pipeline::ResizeMode::kCrop) {
    parameters.extra.emplace_back("Resize mode", "crop");
  }
  return std::string(absl::StripLeadingAsciiWhitespace(image::ParametersText(parameters)));
}

Image LatentsImage(const Job& job, int index, uint64_t seed, const device::Buffer& latents) {
  const pipeline::PictureSpec& picture = job.plan->spec;
  return Image{index,
               seed,
               {*picture.width, *picture.height},
               job.spec.output.format,
               pipeline::LatentsFile(latents, job.plan->image_latents)};
}

absl::StatusOr<Image> EmbedsImage(const Job& job, absl::Span<const pipeline::NamedBuffers> embeds) {
  Image image = {.format = job.spec.output.format};
  ASSIGN_OR_RETURN(image.bytes, pipeline::EmbedsFile(*job.plan, embeds));
  return image;
}

}  // namespace latentd::engine
