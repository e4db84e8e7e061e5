// In what a graph's products compute: what the precision pass (core/passes/precision.h) is told,
// and part of an artifact's key.
#pragma once

#include <string>
#include <vector>

#include "core/device/dtype.h"

namespace latentd::graph {

struct Precision {
  device::DType dtype = device::DType::kF32;  // or kBF16, kF16
  // Beginnings of weights' names ("vae/decoder.up_blocks."): what reads such a weight stays f32.
  std::vector<std::string> f32_weights;

  bool operator==(const Precision&) const = default;
};

// "f16 f32=\"vae/decoder.up_blocks.\",\"vae/decoder.conv_out.\""; for f32 the name alone. Two texts
// are equal iff what is computed is.
std::string ToText(const Precision& precision);

}  // namespace latentd::graph
