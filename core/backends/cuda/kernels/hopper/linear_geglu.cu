#include <cutlass/bfloat16.h>
#include <cutlass/half.h>

#include <type_traits>

#include "core/backends/cuda/kernels/activation.cuh"
#include "core/backends/cuda/kernels/hopper/product.cuh"
#include "core/backends/cuda/kernels/launch.cuh"
#include "core/backends/cuda/kernels/linear_geglu.h"

namespace latentd::backends::cuda::kernels {
namespace {

// From a thread's sums to its part of the result; see GatedRow for which sums are whose.
template <typename T>
struct GegluOfSums {
  struct Params {
    const T* bias;
    T* result;
    int64_t columns;
  };
  static constexpr int kWidth = 32;  // columns of the product that belong together

  // Four numbers that lie next to each other.
  struct alignas(4 * sizeof(T)) Quad {
    T at[4];
  };

  // Reads what is constant during the launch: maybe before what the code stores earlier.
  __device__ static Quad Load(const T* from) {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
    return *reinterpret_cast<const Quad*>(&words);
  }

  // Numbers that are equal for all rows.
  struct Columns {
    int64_t first;  // column of the result
    float value_bias[4] = {}, gate_bias[4] = {};
  };

  // Columns of the product from `column` on, as a thread of number `t` modulo 4 has them.
  __device__ static Columns ColumnsAt(const Params& params, int64_t column, int t) {
    Columns columns = {.first = column / 2 + 4 * t};
    if (params.bias == nullptr || columns.first >= params.columns) return columns;
    const Quad values = Load(params.bias + columns.first);
    const Quad gates = Load(params.bias + params.columns + columns.first);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      columns.value_bias[i] = static_cast<float>(values.at[i]);
      columns.gate_bias[i] = static_cast<float>(gates.at[i]);
    }
    return columns;
  }

  // sum(j, i) is of the columns 8j + 2t + i.
  template <typename SumAt>
  __device__ static void Store(const Params& params, const Columns& columns, int64_t row,
                               const SumAt& sum) {
    if (columns.first >= params.columns) return;
    Quad results;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = sum(i / 2, i % 2) + columns.value_bias[i];
      const float gate = sum(2 + i / 2, i % 2) + columns.gate_bias[i];
      results.at[i] = static_cast<T>(value * Gelu<T>(gate));
    }
    *reinterpret_cast<Quad*>(params.result + row * params.columns + columns.first) = results;
  }
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
