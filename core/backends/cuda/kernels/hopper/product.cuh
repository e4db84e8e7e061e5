// Matrix products on Hopper's tensor cores by CUTLASS, with something computed of the sums before
// anything is stored. One warp loads tiles, two groups of four compute a tile each in turn: while
// one's sums become results, the tensor cores work for the other.
//
// For .cu files that are compiled for sm_90a only.
#pragma once

#include <cutlass/device_kernel.h>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>

#include <cstdint>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/detail.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp>
#include <type_traits>

#include "core/backends/cuda/kernels/common/launch.cuh"

namespace latentd::backends::cuda::kernels::hopper {

// x [rows, depth] times w [columns, depth] transposed.
struct ProductSizes {
  int64_t rows, columns, depth;
};

// Called by CUTLASS with a thread's sums. `OfSums` consumes them: kWidth columns that a thread has
// a part of, or what is left of a tile's, for each row that it has.
template <typename OfSums>
class Epilogue {
 public:
  // Names that CUTLASS asks for.
  using ElementC = void;
  using ElementD = typename OfSums::Result;
  using StrideC = cute::Stride<int64_t, cute::_1, int64_t>;
  using StrideD = StrideC;
  using DispatchPolicy = cutlass::epilogue::NoSmemWarpSpecialized;
  struct SharedStorage {};
  using Arguments = typename OfSums::Params;
  using Params = Arguments;

  template <typename Problem>
  static constexpr Params to_underlying_arguments(const Problem&, const Arguments& arguments,
                                                  void*) {
    return arguments;
  }
  template <typename Problem>
  static size_t get_workspace_size(const Problem&, const Arguments&) {
    return 0;
  }
  template <typename Problem>
  static cutlass::Status initialize_workspace(const Problem&, const Arguments&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
  template <typename Problem>
  static bool can_implement(const Problem&, const Arguments&) {
    return true;
  }

  CUTLASS_HOST_DEVICE explicit Epilogue(const Params& params, const SharedStorage& = {})
      : params_(params) {}
  CUTLASS_DEVICE bool is_source_needed() { return false; }

  template <typename Problem, typename Tile, typename Place, typename Engine, typename Layout,
            typename Mma, typename Residue>
  CUTLASS_DEVICE void operator()(const Problem& problem, Tile tile, const Place& place,
                                 const cute::Tensor<Engine, Layout>& sums, Mma mma, const Residue&,
                                 int thread, char*) {
    const int64_t end = int64_t{cute::get<1>(place) + 1} * cute::get<1>(tile);
    // Asking at each part keeps the parts' arithmetic from being interleaved.
    if (OfSums::IsPlain(params_) && end <= cute::get<1>(problem)) {
      Consume<true>(problem, tile, place, sums, mma, thread);
    } else {
      Consume<false>(problem, tile, place, sums, mma, thread);
    }
  }

 private:
  template <bool kPlain, typename Problem, typename Tile, typename Place, typename Engine,
            typename Layout, typename Mma>
  CUTLASS_DEVICE void Consume(const Problem& problem, Tile tile, const Place& place,
                              const cute::Tensor<Engine, Layout>& sums, Mma mma, int thread) {
    using namespace cute;  // NOLINT: what CUTLASS's names are made for
    // Sums are ((2 next to each other, 2 rows, eights of columns), blocks of 64 rows, 1).
    constexpr int kEights = size<0, 2>(Layout{}), kBlocks = size<1>(Layout{});
    constexpr int kStep = OfSums::kWidth / 8;
    static_assert(size<2>(Layout{}) == 1);
    const auto own =
        mma.get_thread_slice(thread).partition_C(make_identity_tensor(take<0, 2>(tile)));
    const int64_t first_row = int64_t{get<0>(place)} * get<0>(tile);
    const int64_t first_column = int64_t{get<1>(place)} * get<1>(tile);
    // Reads the next columns' numbers before it stores these: a load behind a store waits for
    // memory with nothing else to do.
    const OfSums of_sums(params_);
    auto columns = of_sums.template ColumnsAt<kPlain>(first_column, kStep, thread % 4);
    CUTLASS_PRAGMA_UNROLL
    for (int eight = 0; eight < kEights; eight += kStep) {
      const int eights = eight + kStep > kEights ? kEights - eight : kStep, end = eight + eights;
      const auto next = end == kEights
                            ? columns
                            : of_sums.template ColumnsAt<kPlain>(
                                  first_column + 8 * end,
                                  end + kStep > kEights ? kEights - end : kStep, thread % 4);
      CUTLASS_PRAGMA_UNROLL
      for (int block = 0; block < kBlocks; ++block) {
        CUTLASS_PRAGMA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int64_t row = first_row + get<0>(own(make_coord(_0{}, half, _0{}), block, _0{}));
          if (row >= get<0>(problem)) continue;
          of_sums.template Store<kPlain>(columns, eights, row, [&](int j, int i) {
            return sums(make_coord(i, half, eight + j), block, _0{});
          });
        }
      }
      columns = next;
    }
  }

  Params params_;
};

// One of a cluster's two blocks loads what both read: of x, or of w.
using SharingX = cute::Shape<cute::_1, cute::_2, cute::_1>;
using SharingW = cute::Shape<cute::_2, cute::_1, cute::_1>;

// Tiles of 128 x 160: all of SDXL's widths are multiples of 320 or 384, and its rows' of 128, so
// that nearly all multiprocessors have the same number of tiles.
template <typename T, typename OfSums, typename Cluster>
struct Product {
  using Tile = cute::Shape<cute::_128, cute::Int<160>, cute::Int<128 / sizeof(T)>>;
  template <int kBlocks>
  using Load = std::conditional_t<kBlocks == 1, cute::SM90_TMA_LOAD, cute::SM90_TMA_LOAD_MULTICAST>;
  using Stride = cute::Stride<int64_t, cute::_1, int64_t>;
  using Mma = decltype(cute::make_tiled_mma(
      cute::SM90::GMMA::ss_op_selector<T, T, float, Tile, cute::SM90::GMMA::Major::K,
                                       cute::SM90::GMMA::Major::K>()));
  using SharedLayout = cute::SM90::GMMA::Layout_K_SW128_Atom<T>;
  static constexpr int kStages = 6;  // 36 KiB each
  using MainLoop = cutlass::gemm::collective::CollectiveMma<
      cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<
          kStages, Cluster, cutlass::gemm::KernelTmaWarpSpecializedPingpong>,
      Tile, T, Stride, T, Stride, Mma, Load<cute::size<1>(Cluster{})>, SharedLayout, void,
      cute::identity, Load<cute::size<0>(Cluster{})>, SharedLayout, void, cute::identity>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<
      cute::Shape<int, int, int, int>, MainLoop,
      cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<Epilogue<OfSums>>>;
};

template <typename Cluster, typename T, typename OfSums>
cudaError_t LaunchInClusters(const ProductSizes& sizes, const T* x, const T* w,
                             const typename OfSums::Params& params, cudaStream_t stream) {
  using Kernel = typename Product<T, OfSums, Cluster>::Kernel;
  DeviceTraits device;
  if (auto error = QueryDevice(device); error != cudaSuccess) return error;
  if (device.compute_capability_major != 9) return cudaErrorNotSupported;
  typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {static_cast<int>(sizes.rows), static_cast<int>(sizes.columns), static_cast<int>(sizes.depth),
       1},
      {x, {sizes.depth, cute::_1{}, 0}, w, {sizes.depth, cute::_1{}, 0}},
      params};
  arguments.hw_info.sm_count = device.multiprocessors;
  if (std::is_same_v<Cluster, SharingX>) {
    using Order = decltype(arguments.scheduler.raster_order);
    arguments.scheduler.raster_order = Order::AlongM;
  }
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
                     .cluster = dim3(cute::size<0>(Cluster{}), cute::size<1>(Cluster{}))};
  return Launch(kernel, grid, stream, placed);
}

// REQUIRES: addresses aligned to 16 bytes, which CUTLASS asserts only. cudaErrorNotSupported: a GPU
// that is no Hopper. cudaErrorInvalidValue: a depth that is no multiple of 16 bytes.
template <typename T, typename OfSums>
cudaError_t LaunchProduct(const ProductSizes& sizes, const T* x, const T* w,
                          const typename OfSums::Params& params, cudaStream_t stream) {
  // Measured on an H100: 2 % to 6 % faster up to 1024 rows and from 2048 rows on.
  constexpr int64_t kFewRows = 1024;
  return sizes.rows <= kFewRows
             ? LaunchInClusters<SharingW, T, OfSums>(sizes, x, w, params, stream)
             : LaunchInClusters<SharingX, T, OfSums>(sizes, x, w, params, stream);
}

}  // namespace latentd::backends::cuda::kernels::hopper
