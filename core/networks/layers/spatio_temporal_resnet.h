// SpatioTemporalResBlock: a residual block of each frame, then one over the frames, of which the
// share that the checkpoint learned is taken.
#pragma once

#include "core/networks/layers/frames.h"

namespace latentd::networks {

// The time embedding of clips, already activated; kNone in networks without time (autoencoders).
struct ClipTime {
  Value of_clips = kNone;   // [n, e]
  Value of_frames = kNone;  // [n * frames, e]: each clip's as often as it has frames
};

struct SpatioTemporalResnetOptions {
  int64_t out_channels = 1;
  int64_t frames = 1;
  double frame_epsilon = 1e-6;  // for the norms of each frame
  double clip_epsilon = 1e-6;   // for the norms over all frames of a clip
  Mixing mixing = Mixing::kPlain;
};

// Groups of diffusers' norms for clips, which no config changes.
inline constexpr int64_t kClipGroups = 32;

// x [n * frames, c, h, w].
Value SpatioTemporalResnet(const Scope& scope, Value x, const ClipTime& time,
                           const SpatioTemporalResnetOptions& options);

}  // namespace latentd::networks
