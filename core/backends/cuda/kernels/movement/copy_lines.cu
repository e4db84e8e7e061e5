#include <algorithm>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/movement/copy_lines.h"

namespace latentd::backends::cuda::kernels {
namespace {

// A word for each thread.
__global__ void CopyLinesKernel(__grid_constant__ const CopyLinesArgs args) {
  const CopyLinesArgs::Part& part = args.parts[blockIdx.y];
  const unsigned item = blockIdx.x * kThreads + threadIdx.x;
  const auto words = static_cast<unsigned>(part.words);
  const unsigned line = item / words, word = item % words;
  if (line >= static_cast<unsigned>(part.lines)) return;
  static_cast<uint4*>(part.result)[line * part.result_pitch + word] =
      static_cast<const uint4*>(part.x)[line * part.x_pitch + word];
}

}  // namespace

cudaError_t CopyLines(const CopyLinesArgs& args, cudaStream_t stream) {
  if (args.count < 1 || args.count > CopyLinesArgs::kMost) return cudaErrorInvalidValue;
  int64_t items = 0;
  for (int i = 0; i < args.count; ++i) {
    items = std::max(items, int64_t{args.parts[i].lines} * args.parts[i].words);
  }
  Grid grid = GridOf(items);
  grid.blocks.y = static_cast<unsigned>(args.count);
  return Launch(CopyLinesKernel, grid, stream, args);
}

}  // namespace latentd::backends::cuda::kernels
