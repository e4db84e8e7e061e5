#include <cutlass/bfloat16.h>
#include <cutlass/half.h>

#include <type_traits>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/hopper/product.cuh"
#include "core/backends/cuda/kernels/products/linear_geglu.h"
#include "core/backends/cuda/kernels/values/activation.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

// From a thread's sums to its part of the result; see GatedRow for which sums are whose.
template <typename T>
struct GegluOfSums {
  // CUDA's own type of the elements: two of them are rounded at once.
  using Native = std::conditional_t<std::is_same_v<T, cutlass::half_t>, __half, __nv_bfloat16>;
  using Result = T;
  struct Params {
    const T* bias;
    T* result;
    int64_t columns;
  };
  static constexpr int kWidth = 32;  // columns of the product that belong together

  // Four numbers that lie next to each other.
  using Quad = Pack<Native, 4>;

  // Numbers that are equal for all rows; biases as they are in memory, which takes half of the
  // registers.
  struct Columns {
    int64_t first;  // column of the result
    uint2 value_bias = {}, gate_bias = {};
  };

  // Tiles that can be computed without asking.
  __device__ static bool IsPlain(const Params& params) { return params.bias != nullptr; }

  __device__ explicit GegluOfSums(const Params& from) : params(from) {}

  // Four eights of columns of the product from `column` on, as a thread of number `t` modulo 4 has
  // them. kPlain: they are there, and IsPlain is true.
  template <bool kPlain>
  __device__ Columns ColumnsAt(int64_t column, int, int t) const {
    Columns columns = {.first = column / 2 + 4 * t};
    if (!kPlain && (params.bias == nullptr || columns.first >= params.columns)) return columns;
    // Constant during the launch, so it may be read before what the code stores earlier.
    const T* const from = params.bias + columns.first;
    columns.value_bias = __ldg(reinterpret_cast<const uint2*>(from));
    columns.gate_bias = __ldg(reinterpret_cast<const uint2*>(from + params.columns));
    return columns;
  }

  // sum(j, i) is of the columns 8j + 2t + i.
  template <bool kPlain, typename SumAt>
  __device__ void Store(const Columns& columns, int, int64_t row, const SumAt& sum) const {
    if (!kPlain && columns.first >= params.columns) return;
    const Quad value_bias = *reinterpret_cast<const Quad*>(&columns.value_bias);
    const Quad gate_bias = *reinterpret_cast<const Quad*>(&columns.gate_bias);
    float results[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = sum(i / 2, i % 2) + ToFloat(value_bias.at[i]);
      results[i] = value * FastGelu(sum(2 + i / 2, i % 2) + ToFloat(gate_bias.at[i]));
    }
    Quad quad;
    Narrow(results, quad);
    *reinterpret_cast<Quad*>(params.result + row * params.columns + columns.first) = quad;
  }

  const Params& params;
};

template <typename T>
cudaError_t LaunchOn(const LinearGegluArgs& args, cudaStream_t stream) {
  return hopper::LaunchProduct<T, GegluOfSums<T>>(
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
