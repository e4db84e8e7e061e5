#include "core/families/svd/video_spec.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::families::svd {
namespace {

using pipeline::kMostFps;
using pipeline::kMostFramesOfVideo;
using pipeline::kMostMotion;
using pipeline::kMostNoise;

class VideoValidation {
 public:
  // REQUIRES: `least` and `most` can be shown. NaN is not between them.
  template <typename Number>
  void Between(const char* field, Number value, Number least, Number most) {
    if (value >= least && value <= most) return;
    violations_.push_back(
        {field, absl::StrCat("is ", value, "; supported: from ", least, " to ", most)});
  }

  void Side(const char* field, int value, int64_t multiple) {
    if (value >= multiple && value <= pipeline::kMaxSide && value % multiple == 0) return;
    violations_.push_back({field, absl::StrCat("is ", value, "; supported: multiples of ", multiple,
                                               " from ", multiple, " to ", pipeline::kMaxSide)});
  }

  void AtMost(const char* field, size_t count, size_t most) {
    if (count <= most) return;
    violations_.push_back({field, absl::StrCat("has ", count, "; supported: at most ", most)});
  }

  absl::Status Finish() const {
    return violations_.empty() ? absl::OkStatus() : InvalidFields(violations_);
  }

 private:
  std::vector<FieldViolation> violations_;
};

}  // namespace

absl::StatusOr<VideoSpec> ResolveVideo(const VideoConfigs& configs, VideoSpec spec) {
  if (!spec.num_frames) spec.num_frames = static_cast<int>(configs.unet.num_frames);
  if (!spec.decode_chunk_size) spec.decode_chunk_size = *spec.num_frames;
  VideoValidation check;
  check.Side("width", spec.width, configs.vae.downscale());
  check.Side("height", spec.height, configs.vae.downscale());
  check.Between("num_frames", *spec.num_frames, 1, kMostFramesOfVideo);
  check.Between("num_inference_steps", spec.num_inference_steps, pipeline::kMinSteps,
                pipeline::kMaxSteps);
  check.AtMost("sigmas", spec.sigmas.size(), size_t{pipeline::kMaxSteps} + 1);
  check.Between("min_guidance_scale", spec.min_guidance_scale, 0.0, pipeline::kMaxGuidanceScale);
  check.Between("max_guidance_scale", spec.max_guidance_scale, 0.0, pipeline::kMaxGuidanceScale);
  check.Between("fps", spec.fps, 1, kMostFps);
  check.Between("motion_bucket_id", spec.motion_bucket_id, 0, kMostMotion);
  check.Between("noise_aug_strength", spec.noise_aug_strength, 0.0, kMostNoise);
  check.Between("decode_chunk_size", *spec.decode_chunk_size, 1, kMostFramesOfVideo);
  if (absl::Status status = check.Finish(); !status.ok()) return status;
  return spec;
}

std::vector<float> GuidanceByFrame(const VideoSpec& resolved) {
  const auto first = static_cast<float>(resolved.min_guidance_scale);
  const auto last = static_cast<float>(resolved.max_guidance_scale);
  const int frames = *resolved.num_frames;
  if (frames == 1) return {first};
  // torch counts from the nearer end.
  const float step = (last - first) / static_cast<float>(frames - 1);
  std::vector<float> guidance;
  for (int i = 0; i < frames; ++i) {
    guidance.push_back(i < frames / 2 ? first + step * static_cast<float>(i)
                                      : last - step * static_cast<float>(frames - 1 - i));
  }
  return guidance;
}

std::vector<float> TimeIdsOf(const VideoSpec& resolved) {
  return {static_cast<float>(resolved.fps - 1), static_cast<float>(resolved.motion_bucket_id),
          static_cast<float>(resolved.noise_aug_strength)};
}

bool IsGuided(const VideoSpec& resolved) {
  return absl::c_any_of(GuidanceByFrame(resolved), [](float scale) { return scale > 1; });
}

}  // namespace latentd::families::svd
