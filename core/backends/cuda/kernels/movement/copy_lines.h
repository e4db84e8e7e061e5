// Several copies by one launch, such as those of a merged product's slices.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace latentd::backends::cuda::kernels {

struct CopyLinesArgs {
  static constexpr int kMost = 64;

  // Lines of whole words of 16 bytes, at multiples of that. Pitches are from a line to the next, in
  // words.
  struct Part {
    const void* x = nullptr;
    void* result = nullptr;
    int64_t x_pitch = 0, result_pitch = 0;
    int32_t lines = 0, words = 0;  // fewer than 2^31 words in all
  };
  Part parts[kMost];
  int count = 0;
};

// No part's result overlaps what any part reads, or another's result. cudaErrorInvalidValue: there
// are no parts, or too many.
cudaError_t CopyLines(const CopyLinesArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
