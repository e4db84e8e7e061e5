#include "core/backends/cuda/kernels/norms/group_moments.cuh"
#include "core/backends/cuda/kernels/norms/group_norm.h"

namespace latentd::backends::cuda::kernels {

size_t GroupNormWorkspaceBytes(int64_t rows, int64_t groups) {
  return static_cast<size_t>(rows * groups * kMaxParts) * sizeof(Moments);
}

cudaError_t GroupNorm(const GroupNormArgs& args, cudaStream_t stream) {
  if (args.f8_scale != nullptr && (!args.nhwc || args.activation != UnaryFunction::kSilu)) {
    return cudaErrorInvalidValue;
  }
  if (!args.nhwc) return GroupNormNchw(args, stream);
  bool is_done = false;
  const cudaError_t error = GroupNormSlab(args, stream, is_done);
  return error != cudaSuccess || is_done ? error : GroupNormNhwc(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
