// In what a graph's products compute: what core/passes/precision.h is told.
#pragma once

#include <string>
#include <vector>

#include "core/device/dtype.h"

namespace latentd::graph {

struct Precision {
  device::DType dtype = device::DType::kF32;  // or kBF16, kF16
  // Beginnings of weights' names ("vae/decoder.up_blocks."): what reads such a weight stays f32.
  std::vector<std::string> f32_weights;
  // Patterns of weights' names ("unet/*.attn1.to_q.weight", where * is anything): linears of these
  // multiply 8-bit floats where core/passes/f8_sites.h finds that they can.
  std::vector<std::string> f8_weights;
  std::vector<std::string> f8_convolutions;  // the same of convolutions
  std::vector<std::string> f8_exceptions;    // patterns of those that stay, though they are named

  bool operator==(const Precision&) const = default;
};

}  // namespace latentd::graph
