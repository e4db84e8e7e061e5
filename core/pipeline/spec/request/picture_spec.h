// Pictures as a request asks for them, in diffusers' parameter names. An absent optional takes its
// default (or the model's own, for sizes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text/text.h"
#include "core/batching/buckets.h"
#include "core/pipeline/spec/request/adapter.h"
#include "core/pipeline/spec/request/control.h"
#include "core/pipeline/spec/request/image_prompt.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/video_spec.h"
#include "core/pipeline/spec/request/words.h"
#include "core/prompts/chunks.h"
#include "core/prompts/parse.h"
#include "core/schedulers/config/options.h"

namespace latentd::pipeline {

struct Size {
  int width = 0;
  int height = 0;
  int frames = 1;  // more than one are a video's
  bool operator==(const Size&) const = default;
};

using latentd::SizeText;
// "256x192", or for a video of five frames "256x192x5".
std::string SizeText(const Size& size);

struct Offset {
  int top = 0;
  int left = 0;
  bool operator==(const Offset&) const = default;
};

// Fractions of the denoising steps: of n, those from int(start * n) to before int(stop * n).
struct GuidanceInterval {
  double start = 0;
  double stop = 1;
  bool operator==(const GuidanceInterval&) const = default;
};

// The end of guidance before that of its interval: once it adds little
// (core/pipeline/picture/guidance_watch.h).
enum class GuidanceStop : uint8_t { kNever, kAuto };

// A level of how much of an image's arithmetic is done: names for settings of the fields that leave
// some of it out (ModelDefaults::efforts).
enum class Effort : uint8_t { kFull, kHigh, kFast };

using batching::BucketPolicy;

struct PictureSpec {
  std::string model;  // name of the model that starts (model_table.h); empty: the first
  std::string prompt;
  std::optional<std::string> prompt_2;  // the second text encoder's; absent: prompt
  std::optional<std::string>
      negative_prompt;  // absent: zeros if the checkpoint forces zeros for empty prompts, else ""
  std::optional<std::string> negative_prompt_2;            // absent: negative_prompt
  prompts::Syntax prompt_syntax = prompts::Syntax::kNone;  // the syntax of all prompts
  prompts::LongPrompt long_prompt = prompts::LongPrompt::kTruncate;
  std::optional<int> width;
  std::optional<int> height;
  BucketPolicy bucket_policy = BucketPolicy::kExact;
  bool batch_invariant = false;            // the same bytes, whatever runs beside it
  std::optional<int> previews_every;       // steps, 1 at least; absent: no previews
  bool takes_previews = true;              // else previews_every has no effect
  std::optional<int> num_inference_steps;  // the model's (ModelDefaults), as some below
  std::optional<double> guidance_scale;    // likewise; at most 1 means no guidance
  std::optional<double> guidance_rescale;  // 0
  std::optional<double> eta;               // 0; DDIM only
  std::optional<int> clip_skip;
  std::optional<int> clip_skip_a1111;  // in place of clip_skip; of the negative prompt too
  // All steps; those outside have no guidance, and one row.
  std::optional<GuidanceInterval> guidance_interval;
  std::optional<Effort> effort;               // its settings are the next two's, where absent
  std::optional<GuidanceStop> guidance_stop;  // absent, without an effort: never
  // Evaluations from one that computes all of the UNet to the next (PlanShallow); 1: each does, as
  // where it is absent without an effort.
  std::optional<int> feature_cache_interval;
  schedulers::Overrides scheduler;  // over the checkpoint's scheduler_config.json
  std::vector<double> timesteps;  // a schedule of one's own instead of num_inference_steps; at most
                                  // one of these two
  std::vector<double> sigmas;

  // One picture for each of seed, seed + 1, ...; `seeds` names them one by one instead.
  std::optional<uint64_t> seed;  // absent: random, and the response says which
  std::vector<uint64_t> seeds;
  std::optional<int> num_images_per_prompt;  // 1

  std::optional<Size> original_size;
  std::optional<Size> target_size;
  std::optional<Offset> crops_coords_top_left;
  std::optional<Size> negative_original_size;
  std::optional<Size> negative_target_size;
  std::optional<Offset> negative_crops_coords_top_left;
  std::optional<double> aesthetic_score;           // 6.0
  std::optional<double> negative_aesthetic_score;  // 2.5

  // The model, then from denoising_end on the one that it hands over to, as an ensemble of experts.
  bool refine = false;
  std::optional<double> denoising_end;
  std::optional<double> denoising_start;

  // LoRAs that change the model for this request; the refiner's networks are as they are.
  std::vector<Adapter> adapters;
  // ControlNets that the images follow, as far as the model itself draws them.
  std::vector<Control> controls;
  bool guess_mode = false;  // the nets say what is drawn, to the prompt's row alone
  // Images that are prompts beside the text, likewise.
  std::vector<ImagePrompt> ip_adapters;
  // Words of the model's textual inversions; null: none. Pipeline::Resolve sets them.
  SharedWords words;

  // Kinds of inputs (inputs.h) that the request brings beside this. Pipeline::Resolve sets them.
  bool has_image = false;
  bool has_mask = false;
  bool has_latents = false;
  bool has_prompt_embeds = false;
  bool has_negative_embeds = false;

  std::optional<double> strength;  // image-to-image: how much of the schedule to redo
  std::optional<int> mask_blur;    // radius of a Gaussian, in the mask's own pixels
  // The part of the image around the mask's white and so many pixels more is drawn, and put back
  // into the image; absent: all of it is drawn.
  std::optional<int> padding_mask_crop;
  bool preserve_unmasked = false;  // the image is laid over what is drawn where the mask is black
  bool differential = false;       // the mask's greys say how much of the schedule draws there
  bool output_latents = false;     // as they are after the last step: nothing is decoded
  // Nothing is drawn: the result is what the prompts are encoded to, in numbers of this type.
  std::optional<HostTensor::Type> output_embeds;

  // A video is drawn of the init image, by a model that draws those (video_plan.h). Of the fields
  // above model, sizes, steps, sigmas, guidance_interval and seeds are read then, and
  // batch_invariant.
  std::optional<VideoSpec> video;
};

// With guidance an image has two rows.
inline bool UsesGuidance(const PictureSpec& resolved) { return *resolved.guidance_scale > 1; }

}  // namespace latentd::pipeline
