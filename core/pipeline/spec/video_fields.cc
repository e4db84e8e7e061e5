#include "core/pipeline/spec/video_fields.h"

namespace latentd::pipeline {
namespace {

template <auto member>
Member OfPicture(PictureSpec& spec) {
  return &(spec.*member);
}

template <auto member>
Member OfVideo(PictureSpec& spec) {
  return &(*spec.video.*member);
}

using P = PictureSpec;
using V = VideoSpec;

std::vector<Field> MakeVideoFields() {
  const std::vector<absl::string_view> sides = {"max_side", "side_multiple"};
  const std::vector<absl::string_view> steps = {"min_steps", "max_steps"};
  const std::vector<absl::string_view> frames = {"max_frames"};
  const std::vector<absl::string_view> guidance = {"max_guidance_scale"};
  const std::vector<absl::string_view> videos = {"max_videos_per_prompt"};
  return {
      {.name = "width", .member = OfPicture<&P::width>, .limits = sides},
      {.name = "height", .member = OfPicture<&P::height>, .limits = sides},
      {.name = "num_frames", .member = OfVideo<&V::num_frames>, .limits = frames},
      {.name = "num_inference_steps",
       .member = OfPicture<&P::num_inference_steps>,
       .limits = steps},
      {.name = "min_guidance_scale", .member = OfVideo<&V::min_guidance_scale>, .limits = guidance},
      {.name = "max_guidance_scale", .member = OfVideo<&V::max_guidance_scale>, .limits = guidance},
      {.name = "guidance_interval", .member = OfPicture<&P::guidance_interval>},
      {.name = "fps", .member = OfVideo<&V::fps>, .limits = {"max_fps"}},
      {.name = "motion_bucket_id",
       .member = OfVideo<&V::motion_bucket_id>,
       .limits = {"max_motion_bucket_id"}},
      {.name = "noise_aug_strength",
       .member = OfVideo<&V::noise_aug_strength>,
       .limits = {"max_noise_aug_strength"}},
      {.name = "resize_mode", .member = OfVideo<&V::resize_mode>},
      {.name = "decode_chunk_size", .member = OfVideo<&V::decode_chunk_size>, .limits = frames},
      {.name = "sigmas", .member = OfPicture<&P::sigmas>, .limits = steps},
      {.name = "seed", .member = OfPicture<&P::seed>},
      {.name = "seeds", .member = OfPicture<&P::seeds>, .limits = videos},
      {.name = "num_videos_per_prompt",
       .member = OfPicture<&P::num_images_per_prompt>,
       .limits = videos},
      {.name = "bucket_policy", .member = OfPicture<&P::bucket_policy>},
      {.name = "model", .member = OfPicture<&P::model>},
      {.name = "batch_invariant", .member = OfPicture<&P::batch_invariant>},
      {.name = "previews.every_n_steps", .member = OfPicture<&P::previews_every>},
  };
}

}  // namespace

const std::vector<Field>& VideoFields() {
  static const auto& fields = *new std::vector<Field>(MakeVideoFields());
  return fields;
}

}  // namespace latentd::pipeline
