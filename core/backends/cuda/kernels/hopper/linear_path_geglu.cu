#include "core/backends/cuda/kernels/hopper/geglu_of_sums.cuh"
#include "core/backends/cuda/kernels/hopper/path_product.cuh"
#include "core/backends/cuda/kernels/launch.cuh"
#include "core/backends/cuda/kernels/linear_geglu.h"

namespace latentd::backends::cuda::kernels {
namespace {

template <typename T>
cudaError_t LaunchWithPath(const LinearGegluArgs& args, const LinearGegluPath& path,
                           cudaStream_t stream) {
  return hopper::LaunchPathProduct<T, hopper::GegluOfSums<T>>(
      {args.rows, 2 * args.columns, args.depth}, path.rows, static_cast<const T*>(args.x),
      static_cast<const T*>(args.weight),
      {static_cast<const T*>(path.hidden), static_cast<const T*>(path.up), path.ranks},
      {static_cast<const T*>(args.bias), static_cast<T*>(args.result), args.columns}, stream);
}

}  // namespace

cudaError_t LinearPathGeglu(const LinearGegluArgs& args, const LinearGegluPath& path,
                            cudaStream_t stream) {
  if (!HasLinearGeglu(args) || path.rows == 0 || args.rows % path.rows != 0 ||
      !Aligned(16, args.x, args.weight, args.bias, args.result, path.hidden, path.up)) {
    return cudaErrorInvalidValue;
  }
  return args.element == Element::kBF16 ? LaunchWithPath<cutlass::bfloat16_t>(args, path, stream)
                                        : LaunchWithPath<cutlass::half_t>(args, path, stream);
}

}  // namespace latentd::backends::cuda::kernels
