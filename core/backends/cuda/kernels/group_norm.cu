#include "core/backends/cuda/kernels/group_moments.cuh"
#include "core/backends/cuda/kernels/group_norm.h"

namespace latentd::backends::cuda::kernels {

size_t GroupNormWorkspaceBytes(int64_t rows, int64_t groups) {
  return static_cast<size_t>(rows * groups * kMaxParts) * sizeof(Moments);
}

cudaError_t GroupNorm(const GroupNormArgs& args, cudaStream_t stream) {
  return args.nhwc ? GroupNormNhwc(args, stream) : GroupNormNchw(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
