#include <cutlass/bfloat16.h>
#include <cutlass/device_kernel.h>
#include <cutlass/float8.h>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_epilogue.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp>
#include <type_traits>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/products/f8_product.h"

namespace latentd::backends::cuda::kernels {
namespace {

namespace fusion = cutlass::epilogue::fusion;

// CUTLASS's own epilogue: residual and results go through shared memory, 32 columns at a time. With
// a residual, two groups compute a tile together: where there is one tile for each multiprocessor,
// nothing else would hide the reading of it. Without one they take turns.
template <bool kHasResidual>
struct F8ProductOf {
  using Operand = cutlass::float_e4m3_t;
  using Result = cutlass::bfloat16_t;
  using Residual = std::conditional_t<kHasResidual, Result, void>;
  using Tile = cute::Shape<cute::Int<kF8ProductRows>, cute::Int<kF8ProductColumns>, cute::_128>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Stride = cute::Stride<int64_t, cute::_1, int64_t>;
  using Schedule =
      std::conditional_t<kHasResidual, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                         cutlass::gemm::KernelTmaWarpSpecializedPingpong>;
  using Groups = cute::Shape<cute::Int<kHasResidual ? 2 : 1>, cute::_1, cute::_1>;

  // scale * sum + bias, and the residual added to it.
  static constexpr auto kNearest = cutlass::FloatRoundStyle::round_to_nearest;
  template <typename To>
  using Scaled =
      fusion::Sm90EVT<fusion::Sm90Compute<cutlass::homogeneous_multiply_add, To, float, kNearest>,
                      fusion::Sm90ScalarBroadcast<float>, fusion::Sm90AccFetch,
                      fusion::Sm90RowBroadcast<0, Tile, Result, float>>;
  using Added = fusion::Sm90EVT<fusion::Sm90Compute<cutlass::plus, Result, float, kNearest>,
                                Scaled<float>, fusion::Sm90SrcFetch<Result>>;
  using Results = std::conditional_t<kHasResidual, Added, Scaled<Result>>;

  using Part = cute::Shape<cute::Int<kHasResidual ? 128 : 64>, cute::_32>;
  using PartLayout = cute::SM90::GMMA::Layout_K_SW64_Atom<Result>;
  static constexpr int kPartsIn = 4, kPartsOut = 2, kOfThread = 16;
  using Epilogue = cutlass::epilogue::collective::CollectiveEpilogue<
      cutlass::epilogue::Sm90TmaWarpSpecialized<kPartsIn, kPartsOut, kOfThread, kHasResidual,
                                                !kHasResidual>,
      Tile, Part, Residual, Stride, Result, Stride, Results, cute::SM90_TMA_LOAD, PartLayout,
      cute::SM75_U32x4_LDSM_N, cute::SM90_TMA_STORE, PartLayout, cute::SM90_U32x4_STSM_N,
      cute::Copy_Atom<cute::SM90_U32x4_STSM_N, cutlass::half_t>, void>;

  using Mma = decltype(cute::make_tiled_mma(
      cute::SM90::GMMA::ss_op_selector<Operand, Operand, float, Tile, cute::SM90::GMMA::Major::K,
                                       cute::SM90::GMMA::Major::K>(),
      cute::Layout<Groups>{}));
  using SharedLayout = cute::SM90::GMMA::Layout_K_SW128_Atom<Operand>;
  static constexpr int kStages = kHasResidual ? 5 : 6;  // 36 KiB each
  using MainLoop = cutlass::gemm::collective::CollectiveMma<
      cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<kStages, Cluster, Schedule>, Tile, Operand,
      Stride, Operand, Stride, Mma, cute::SM90_TMA_LOAD, SharedLayout, void, cute::identity,
      cute::SM90_TMA_LOAD, SharedLayout, void, cute::identity>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, MainLoop,
                                                      Epilogue, cutlass::gemm::PersistentScheduler>;
};

template <bool kHasResidual>
typename F8ProductOf<kHasResidual>::Kernel::Arguments ArgumentsOf(const F8ProductArgs& args,
                                                                  int multiprocessors) {
  using Types = F8ProductOf<kHasResidual>;
  using Kernel = typename Types::Kernel;
  using Operand = typename Types::Operand;
  using Result = typename Types::Result;
  const typename Types::template Scaled<std::conditional_t<kHasResidual, float, Result>>::Arguments
      scaled = {
          {{1}, {args.scale}}, {}, {static_cast<const Result*>(args.bias), Result(0), {}}, {}};
  typename Types::Results::Arguments results;
  if constexpr (kHasResidual) {
    results = {scaled, {}, {}};
  } else {
    results = scaled;
  }
  const auto lines = [](int64_t pitch) { return typename Types::Stride{pitch, cute::_1{}, 0}; };
  typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {static_cast<int>(args.rows), static_cast<int>(args.columns), static_cast<int>(args.depth),
       1},
      {static_cast<const Operand*>(args.x), lines(args.depth),
       static_cast<const Operand*>(args.weight), lines(args.depth)},
      {results, static_cast<const typename Types::Residual*>(args.residual), lines(args.columns),
       static_cast<Result*>(args.result), lines(args.columns)}};
  arguments.hw_info.sm_count = multiprocessors;
  return arguments;
}

template <bool kHasResidual>
cudaError_t LaunchFor(const F8ProductArgs& args, int multiprocessors, cudaStream_t stream) {
  using Kernel = typename F8ProductOf<kHasResidual>::Kernel;
  const auto arguments = ArgumentsOf<kHasResidual>(args, multiprocessors);
  if (!Kernel::can_implement(arguments)) return cudaErrorInvalidValue;
  const auto kernel = &cutlass::device_kernel<Kernel>;
  const auto placed = Kernel::to_underlying_arguments(arguments, nullptr);
  if (auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        Kernel::SharedStorageSize);
      error != cudaSuccess) {
    return error;
  }
  const Grid grid = {.blocks = Kernel::get_grid_shape(placed),
                     .threads = Kernel::get_block_shape(),
                     .shared_bytes = Kernel::SharedStorageSize};
  return Launch(kernel, grid, stream, placed);
}

}  // namespace

cudaError_t F8Product(const F8ProductArgs& args, cudaStream_t stream) {
  if (!HasF8Product(args) ||
      !Aligned(16, args.x, args.weight, args.bias, args.residual, args.result)) {
    return cudaErrorInvalidValue;
  }
  DeviceTraits device;
  if (auto error = QueryDevice(device); error != cudaSuccess) return error;
  if (device.compute_capability_major != 9) return cudaErrorNotSupported;
  return args.residual != nullptr ? LaunchFor<true>(args, device.multiprocessors, stream)
                                  : LaunchFor<false>(args, device.multiprocessors, stream);
}

}  // namespace latentd::backends::cuda::kernels
