#include "core/backends/cuda/kernels/hopper/geglu_of_sums.cuh"
#include "core/backends/cuda/kernels/hopper/product.cuh"
#include "core/backends/cuda/kernels/launch.cuh"
#include "core/backends/cuda/kernels/linear_geglu.h"

namespace latentd::backends::cuda::kernels {
namespace {

template <typename T>
cudaError_t LaunchOn(const LinearGegluArgs& args, cudaStream_t stream) {
  return hopper::LaunchProduct<T, hopper::GegluOfSums<T>>(
      {args.rows, 2 * args.columns, args.depth}, static_cast<const T*>(args.x),
      static_cast<const T*>(args.weight),
      {static_cast<const T*>(args.bias), static_cast<T*>(args.result), args.columns}, stream);
}

}  // namespace

cudaError_t LinearGeglu(const LinearGegluArgs& args, cudaStream_t stream) {
  if (!HasLinearGeglu(args) || !Aligned(16, args.x, args.weight, args.bias, args.result)) {
    return cudaErrorInvalidValue;
  }
  return args.element == Element::kBF16 ? LaunchOn<cutlass::bfloat16_t>(args, stream)
                                        : LaunchOn<cutlass::half_t>(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
