#include "core/networks/layers/spatio_temporal_resnet.h"

#include "core/networks/layers/resnet_block.h"

namespace latentd::networks {
namespace {

// TemporalResnetBlock of columns, blended with what it reads: share * (x + h) + (1 - share) * x is
// x + share * h, and the share goes into the last convolution's weights.
Value BlendedOverFrames(const Scope& scope, Value x, Value time, Value share, double epsilon) {
  GraphBuilder& b = scope.builder();
  const int64_t channels = Dimension(b, x, 1);
  Value hidden = b.Silu(GroupNorm(scope.Child("norm1"), x, kClipGroups, epsilon));
  hidden = ConvolutionOverFrames(scope.Child("conv1"), hidden, channels);
  if (time.id != kNone.id) {
    const Value moved = Linear(scope.Child("time_emb_proj"), time, channels);
    hidden = b.Add(hidden, b.Reshape(moved, {Dimension(b, moved, 0), channels, 1, 1}));
  }
  hidden = b.Silu(GroupNorm(scope.Child("norm2"), hidden, kClipGroups, epsilon));
  return b.Add(x, ConvolutionOverFrames(scope.Child("conv2"), hidden, channels, share));
}

}  // namespace

Value SpatioTemporalResnet(const Scope& scope, Value x, const ClipTime& time,
                           const SpatioTemporalResnetOptions& options) {
  GraphBuilder& b = scope.builder();
  const Value of_frames = ResnetBlock(scope.Child("spatial_res_block"), x, time.of_frames,
                                      {.out_channels = options.out_channels,
                                       .groups = kClipGroups,
                                       .epsilon = options.frame_epsilon});
  const Value blended = BlendedOverFrames(
      scope.Child("temporal_res_block"), ImagesToColumns(b, of_frames, options.frames),
      time.of_clips, ShareOverFrames(scope.Child("time_mixer"), options.mixing),
      options.clip_epsilon);
  return ColumnsToImages(b, blended, Dimension(b, x, 2), Dimension(b, x, 3));
}

}  // namespace latentd::networks
