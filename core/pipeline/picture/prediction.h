// A step's prediction of its finished picture, on its way to a preview.
#pragma once

#include <cstddef>
#include <vector>

#include "core/device/buffer.h"

namespace latentd::pipeline {

// The sum of latents [1, C, h, w], of a video [1, F * C, h, w], each by its weight, or what a tiny
// VAE has made of it.
struct Prediction {
  struct Term {
    device::Buffer latents;  // on the host, there once the stream has come so far
    float weight;
  };
  size_t bytes() const;

  int step = 0;  // step of the picture's total_steps; 0: there is none
  std::vector<Term> terms;
  device::Buffer pixels;  // u8 [1, H, W, 3], likewise; without memory: nothing has been made
};

}  // namespace latentd::pipeline
