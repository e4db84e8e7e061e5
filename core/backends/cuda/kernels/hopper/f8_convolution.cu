#include <cutlass/bfloat16.h>
#include <cutlass/device_kernel.h>
#include <cutlass/float8.h>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>

#include <cute/tensor.hpp>
#include <cutlass/cuda_host_adapter.hpp>
#include <cutlass/epilogue/collective/collective_epilogue.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp>
#include <type_traits>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/products/f8_convolution.h"

namespace latentd::backends::cuda::kernels {
namespace {

namespace fusion = cutlass::epilogue::fusion;

using Operand = cutlass::float_e4m3_t;

constexpr int kTaps = 9;

// How tensor maps show 8-bit floats to tensor cores, of which a load brings so many channels.
constexpr auto kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
constexpr CUtensorMapSwizzle SwizzleOf(int chunk) {
  return chunk == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

// Pixels in the order in which they lie, of which loads take `pixels` from any on, each moved by a
// tap: those beyond the image's edges are 0.
CUresult MapImage(const F8ConvolutionArgs& a, cuuint32_t pixels, cuuint32_t chunk,
                  CUtensorMap& map) {
  const cuuint64_t channels = a.channels, width = a.width, height = a.height;
  const cuuint64_t sizes[] = {channels, width, height, static_cast<cuuint64_t>(a.rows)};
  const cuuint64_t strides[] = {channels, channels * width, channels * width * height};
  const cuuint32_t ones[] = {1, 1, 1, 1};
  // From (-1, -1), the first pixel's first tap, to the last pixel's first tap.
  const int lower[] = {-1, -1}, upper[] = {-1, -1};
  return CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeIm2col)(
      &map, kType, 4, const_cast<void*>(a.x), sizes, strides, lower, upper, chunk, pixels, ones,
      CU_TENSOR_MAP_INTERLEAVE_NONE, SwizzleOf(chunk), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult MapWeight(const F8ConvolutionArgs& a, cuuint32_t lines, cuuint32_t chunk,
                   CUtensorMap& map) {
  const cuuint64_t depth = kTaps * a.channels;
  const cuuint64_t sizes[] = {depth, static_cast<cuuint64_t>(a.out)}, strides[] = {depth};
  const cuuint32_t box[] = {chunk, lines}, ones[] = {1, 1};
  return CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
      &map, kType, 2, const_cast<void*>(a.weight), sizes, strides, box, ones,
      CU_TENSOR_MAP_INTERLEAVE_NONE, SwizzleOf(chunk), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// CUTLASS's main loop of a product, but that it loads pixels where that loads lines of x. The depth
// is [tap, channel]; what fills its last step is 0. Blocks of a cluster have pixels of their own
// and load a part of the weight for each other. A load brings kChunk channels of its pixels.
template <typename Product, int kChunk>
struct ConvolutionMainLoop : Product {
  using Tile = typename Product::TileShape;
  using Pipeline = typename Product::MainloopPipeline;
  using State = typename Product::PipelineState;
  static constexpr int kRows = cute::size<0>(Tile{}), kColumns = cute::size<1>(Tile{}),
                       kDepth = cute::size<2>(Tile{});
  static constexpr int kSharing = cute::size<0>(typename Product::DispatchPolicy::ClusterShape{});
  static_assert(cute::size<1>(typename Product::DispatchPolicy::ClusterShape{}) == 1);

  struct Arguments {
    CUtensorMap x, weight;
    int height, width, channels, rows;
  };
  struct Params : Arguments {
    uint32_t tma_transaction_bytes = Product::TmaTransactionBytes;
  };

  template <typename Problem>
  static Params to_underlying_arguments(const Problem&, const Arguments& arguments, void*) {
    return {arguments};
  }
  template <typename Problem>
  static bool can_implement(const Problem&, const Arguments&) {
    return true;
  }
  CUTLASS_DEVICE static void prefetch_tma_descriptors(const Params& params) {
    for (const CUtensorMap* map : {&params.x, &params.weight}) {
      cute::prefetch_tma_descriptor(reinterpret_cast<const cute::TmaDescriptor*>(map));
    }
  }

  // Coordinates alone, of which the kernel asks how many tiles there are.
  template <typename Problem>
  CUTLASS_DEVICE auto load_init(const Problem& problem, const Params&) const {
    using namespace cute;  // NOLINT: what CUTLASS's names are made for
    const auto [rows, columns, depth, batch] = problem;
    return make_tuple(local_tile(make_identity_tensor(make_shape(rows, depth, batch)), Tile{},
                                 make_coord(_, _, _), Step<_1, Underscore, _1>{}),
                      local_tile(make_identity_tensor(make_shape(columns, depth, batch)), Tile{},
                                 make_coord(_, _, _), Step<Underscore, _1, _1>{}));
  }

  template <typename Inputs, typename Place, typename Steps>
  CUTLASS_DEVICE void load(const Params& params, Pipeline pipeline, State state, const Inputs&,
                           const Place& place, Steps, int steps, int, uint32_t rank,
                           typename Product::TensorStorage& shared) {
    if (!cute::elect_one_sync()) return;
    const int first = static_cast<int>(cute::get<0>(place)) * kRows;
    const int x = first % params.width - 1, line = first / params.width;
    const int y = line % params.height - 1, row = line / params.height;
    constexpr int kOwnColumns = kColumns / kSharing;
    const int own = static_cast<int>(rank) % kSharing * kOwnColumns;
    const int column = static_cast<int>(cute::get<1>(place)) * kColumns + own;
    int channel = 0, tap = 0;
    CUTLASS_PRAGMA_NO_UNROLL
    for (; steps > 0; --steps) {
      pipeline.producer_acquire(state);
      auto* const barrier = pipeline.producer_get_barrier(state);
      CUTLASS_PRAGMA_UNROLL
      for (int part = 0; part < kDepth / kChunk; ++part) {
        Operand* const to = shared.smem_A.data() + (state.index() * kDepth + part * kChunk) * kRows;
        cute::SM90_TMA_LOAD_IM2COL_4D::copy(
            &params.x, barrier, to, channel, x, y, tap < kTaps ? row : params.rows,
            static_cast<uint16_t>(tap % 3), static_cast<uint16_t>(tap / 3));
        LoadWeight(params, barrier,
                   shared.smem_B.data() + (state.index() * kDepth + part * kChunk) * kColumns +
                       own * kChunk,
                   tap * params.channels + channel, column);
        channel += kChunk;
        if (channel == params.channels) channel = 0, ++tap;
      }
      ++state;
    }
  }

  template <typename Sums>
  CUTLASS_DEVICE void mma(Pipeline pipeline, State state, Sums& sums, int steps, int thread,
                          typename Product::TensorStorage& shared, const Params&) {
    const typename Product::Params unread = {};
    Product::mma(pipeline, state, sums, steps, thread, shared, unread);
  }

 private:
  CUTLASS_DEVICE static void LoadWeight(const Params& params, uint64_t* barrier, Operand* to,
                                        int depth, int column) {
    constexpr auto kHint = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
    if constexpr (kSharing == 1) {
      cute::SM90_TMA_LOAD_2D::copy(&params.weight, barrier, kHint, to, depth, column);
    } else {
      constexpr uint16_t kAll = (1 << kSharing) - 1;
      cute::SM90_TMA_LOAD_MULTICAST_2D::copy(&params.weight, barrier, kAll, kHint, to, depth,
                                             column);
    }
  }
};

// As f8_product.cu has it, but for the main loop and for clusters of two blocks that share the
// weight: without them, the second cache is the limit.
template <int kChunk, bool kHasResidual>
struct F8ConvolutionOf {
  using Result = cutlass::bfloat16_t;
  using Residual = std::conditional_t<kHasResidual, Result, void>;
  static constexpr bool kTogether = kHasResidual;
  static constexpr int kRows = 128, kColumns = 160, kDepth = 128;
  using Tile = cute::Shape<cute::Int<kRows>, cute::Int<kColumns>, cute::Int<kDepth>>;
  static constexpr int kBlocks = 2;
  using Cluster = cute::Shape<cute::Int<kBlocks>, cute::_1, cute::_1>;
  using Stride = cute::Stride<int64_t, cute::_1, int64_t>;
  using Schedule = std::conditional_t<kTogether, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                                      cutlass::gemm::KernelTmaWarpSpecializedPingpong>;
  using Groups = cute::Shape<cute::Int<kTogether ? 2 : 1>, cute::_1, cute::_1>;

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
  using ScaledArguments =
      typename Scaled<std::conditional_t<kHasResidual, float, Result>>::Arguments;

  using Part = cute::Shape<cute::Int<kTogether ? 128 : 64>, cute::_32>;
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
  using SharedLayout =
      std::conditional_t<kChunk == 128, cute::SM90::GMMA::Layout_K_SW128_Atom<Operand>,
                         cute::SM90::GMMA::Layout_K_SW64_Atom<Operand>>;
  static constexpr int kSharedBytes = 227 << 10, kBarrierBytes = 1536;
  static constexpr int kStages =
      (kSharedBytes - kBarrierBytes - static_cast<int>(sizeof(typename Epilogue::SharedStorage))) /
      ((kRows + kColumns) * kDepth);
  using MainLoop = ConvolutionMainLoop<
      cutlass::gemm::collective::CollectiveMma<
          cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<kStages, Cluster, Schedule>, Tile,
          Operand, Stride, Operand, Stride, Mma, cute::SM90_TMA_LOAD, SharedLayout, void,
          cute::identity, cute::SM90_TMA_LOAD, SharedLayout, void, cute::identity>,
      kChunk>;
  static constexpr int kChannelsOfLoad = kChunk;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, MainLoop,
                                                      Epilogue, cutlass::gemm::PersistentScheduler>;
  static_assert(Kernel::SharedStorageSize <= kSharedBytes);
};

template <typename Types>
typename Types::Results::Arguments ResultsOf(const F8ConvolutionArgs& args) {
  using Result = typename Types::Result;
  const typename Types::ScaledArguments scaled = {
      {{1}, {args.scale}}, {}, {static_cast<const Result*>(args.bias), Result(0), {}}, {}};
  if constexpr (std::is_void_v<typename Types::Residual>) {
    return scaled;
  } else {
    return {scaled, {}, {}};
  }
}

// False: the driver makes no map of them.
template <typename Types>
bool MapOperands(const F8ConvolutionArgs& args, typename Types::MainLoop::Arguments& to) {
  to.height = static_cast<int>(args.height);
  to.width = static_cast<int>(args.width);
  to.channels = static_cast<int>(args.channels);
  to.rows = static_cast<int>(args.rows);
  constexpr int kChunk = Types::kChannelsOfLoad;
  return MapImage(args, Types::kRows, kChunk, to.x) == CUDA_SUCCESS &&
         MapWeight(args, Types::kColumns / Types::kBlocks, kChunk, to.weight) == CUDA_SUCCESS;
}

template <typename Types>
cudaError_t LaunchFor(const F8ConvolutionArgs& args, int multiprocessors, cudaStream_t stream) {
  using Kernel = typename Types::Kernel;
  using Result = typename Types::Result;
  const auto lines = [](int64_t pitch) { return typename Types::Stride{pitch, cute::_1{}, 0}; };
  const int64_t steps = (kTaps * args.channels + Types::kDepth - 1) / Types::kDepth;
  typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {static_cast<int>(args.rows * args.height * args.width), static_cast<int>(args.out),
       static_cast<int>(steps * Types::kDepth), 1},
      {},
      {ResultsOf<Types>(args), static_cast<const typename Types::Residual*>(args.residual),
       lines(args.out), static_cast<Result*>(args.result), lines(args.out)}};
  if (!MapOperands<Types>(args, arguments.mainloop)) return cudaErrorInvalidValue;
  arguments.hw_info.sm_count = multiprocessors;
  // Measured on an H200: a few percent faster each where it is.
  using Order = decltype(arguments.scheduler.raster_order);
  arguments.scheduler.raster_order = args.out > 2 * Types::kColumns ? Order::AlongM : Order::AlongN;
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
                     .shared_bytes = Kernel::SharedStorageSize,
                     .cluster = dim3(Types::kBlocks)};
  return Launch(kernel, grid, stream, placed);
}

template <int kChunk>
cudaError_t LaunchInChunks(const F8ConvolutionArgs& args, int multiprocessors,
                           cudaStream_t stream) {
  return args.residual != nullptr
             ? LaunchFor<F8ConvolutionOf<kChunk, true>>(args, multiprocessors, stream)
             : LaunchFor<F8ConvolutionOf<kChunk, false>>(args, multiprocessors, stream);
}

}  // namespace

cudaError_t F8Convolution(const F8ConvolutionArgs& args, cudaStream_t stream) {
  if (!HasF8Convolution(args) ||
      !Aligned(16, args.x, args.weight, args.bias, args.residual, args.result)) {
    return cudaErrorInvalidValue;
  }
  DeviceTraits device;
  if (auto error = QueryDevice(device); error != cudaSuccess) return error;
  if (device.compute_capability_major != 9) return cudaErrorNotSupported;
  // Loads of 128 channels take a tenth less, and need channels that consist of such.
  return args.channels % 128 == 0 ? LaunchInChunks<128>(args, device.multiprocessors, stream)
                                  : LaunchInChunks<64>(args, device.multiprocessors, stream);
}

}  // namespace latentd::backends::cuda::kernels
