// ResnetBlock2D: two norm, activation, convolution groups beside a shortcut, moved by the time
// embedding between them.
#pragma once

#include "core/networks/layers/layers.h"

namespace latentd::networks {

// How the time embedding enters: added before the second norm, or as a scale and a shift after it.
enum class TimeShift : uint8_t { kAdd, kScaleAndShift };

struct ResnetOptions {
  int64_t out_channels = 1;
  int64_t groups = 32;
  double epsilon = 1e-5;
  Activation activation = Activation::kSilu;
  TimeShift time_shift = TimeShift::kAdd;
  double output_scale = 1;  // divisor of the sum
};

// x [n, c, h, w]; time [n, e], already activated, or kNone in networks without time (autoencoders).
Value ResnetBlock(const Scope& scope, Value x, Value time, const ResnetOptions& options);

}  // namespace latentd::networks
