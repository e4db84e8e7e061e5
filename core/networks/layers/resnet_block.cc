#include "core/networks/layers/resnet_block.h"

namespace latentd::networks {
namespace {

// time [n, e] -> [n, channels, 1, 1], which broadcasts over the image.
Value ProjectTime(const Scope& scope, Value time, int64_t channels) {
  GraphBuilder& b = scope.builder();
  const Value projected = Linear(scope.Child("time_emb_proj"), time, channels);
  return b.Reshape(projected, {Dimension(b, projected, 0), channels, 1, 1});
}

// norm2 of the hidden image, moved by time.
Value NormWithTime(const Scope& scope, Value hidden, Value time, const ResnetOptions& options) {
  GraphBuilder& b = scope.builder();
  const Scope norm = scope.Child("norm2");
  const int64_t channels = options.out_channels;
  if (time.id < 0) return GroupNorm(norm, hidden, options.groups, options.epsilon);
  if (options.time_shift == TimeShift::kAdd) {
    const Value moved = b.Add(hidden, ProjectTime(scope, time, channels));
    return GroupNorm(norm, moved, options.groups, options.epsilon);
  }
  const Value projected = ProjectTime(scope, time, 2 * channels);
  const Value scale = b.Add(b.Scalar(1), b.Slice(projected, 1, 0, channels));
  const Value shift = b.Slice(projected, 1, channels, 2 * channels);
  const Value normed = GroupNorm(norm, hidden, options.groups, options.epsilon);
  return b.Add(b.Mul(normed, scale), shift);
}

}  // namespace

Value ResnetBlock(const Scope& scope, Value x, Value time, const ResnetOptions& options) {
  GraphBuilder& b = scope.builder();
  const ConvolutionOptions conv = {.out_channels = options.out_channels};
  Value hidden = GroupNorm(scope.Child("norm1"), x, options.groups, options.epsilon);
  hidden = Convolution(scope.Child("conv1"), Activate(b, hidden, options.activation), conv);
  hidden = NormWithTime(scope, hidden, time, options);
  hidden = Convolution(scope.Child("conv2"), Activate(b, hidden, options.activation), conv);
  Value shortcut = x;
  if (Dimension(b, x, 1) != options.out_channels) {
    shortcut = Convolution(scope.Child("conv_shortcut"), x,
                           {.out_channels = options.out_channels, .kernel = 1});
  }
  const Value sum = b.Add(shortcut, hidden);
  if (options.output_scale == 1) return sum;
  return b.Div(sum, b.Scalar(static_cast<float>(options.output_scale)));
}

}  // namespace latentd::networks
