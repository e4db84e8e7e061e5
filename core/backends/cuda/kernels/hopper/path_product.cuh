// Products as product.cuh has them, with low-rank paths of rows as further depth: behind a tile's
// own depth come what a row's lines have for each rank, and the row's second matrix. So a path
// costs the product a fraction of its arithmetic, and its sums are never in memory apart.
//
// For .cu files that are compiled for sm_90a only.
#pragma once

#include <cstdint>
#include <utility>

#include "core/backends/cuda/kernels/hopper/product.cuh"

namespace latentd::backends::cuda::kernels::hopper {

// Behind the depth of x: hidden [rows, lines, ranks], and matrices [rows, columns, ranks], where
// ranks are so many that a line is of whole words of 16 bytes.
template <typename T>
struct PathOperands {
  const T* hidden;
  const T* matrices;
  int64_t ranks;
};

// CUTLASS's main loop, behind whose tiles of the depth come those of a path. The products' number
// is the row's, and all have one w.
template <typename Base>
struct PathLoop : Base {
  using T = typename Base::ElementA;
  using Tile = typename Base::TileShape;
  using One = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Stride = cute::Stride<int64_t, cute::_1, int64_t>;
  static constexpr int kTileDepth = cute::size<2>(Tile{});

  struct Arguments {
    typename Base::Arguments product;
    PathOperands<T> path;
    int depth;  // of x: what CUTLASS is told has the path's tiles too
  };

  static auto Lines(const T* from, int lines, int ranks, int rows) {
    return cute::make_tensor(from, cute::make_layout(cute::make_shape(lines, ranks, rows),
                                                     Stride{ranks, {}, int64_t{lines} * ranks}));
  }
  static auto LoadOfHidden(const T* from, int lines, int ranks, int rows) {
    return cute::make_tma_copy_A_sm90(cute::SM90_TMA_LOAD{}, Lines(from, lines, ranks, rows),
                                      typename Base::SmemLayoutA{}(cute::_, cute::_, cute::_0{}),
                                      Tile{}, One{});
  }
  static auto LoadOfMatrices(const T* from, int columns, int ranks, int rows) {
    return cute::make_tma_copy_B_sm90(cute::SM90_TMA_LOAD{}, Lines(from, columns, ranks, rows),
                                      typename Base::SmemLayoutB{}(cute::_, cute::_, cute::_0{}),
                                      Tile{}, One{});
  }

  struct Params : Base::Params {
    decltype(LoadOfHidden(nullptr, 0, 0, 0)) hidden;
    decltype(LoadOfMatrices(nullptr, 0, 0, 0)) matrices;
    int ranks;
  };

  // The depth that CUTLASS is told: whole tiles of x's and of the path's.
  static int DepthWithPath(int64_t depth, int64_t ranks) {
    return static_cast<int>((CeilDiv(depth, kTileDepth) + CeilDiv(ranks, kTileDepth)) * kTileDepth);
  }

  template <typename Problem>
  static Params to_underlying_arguments(const Problem& problem, const Arguments& arguments,
                                        void* workspace) {
    const auto [lines, columns, depth, rows] = problem;
    const int ranks = static_cast<int>(arguments.path.ranks);
    const auto own = cute::make_shape(lines, columns, arguments.depth, rows);
    return {Base::to_underlying_arguments(own, arguments.product, workspace),
            LoadOfHidden(arguments.path.hidden, lines, ranks, rows),
            LoadOfMatrices(arguments.path.matrices, columns, ranks, rows), ranks};
  }

  template <typename Problem>
  static bool can_implement(const Problem& problem, const Arguments& arguments) {
    const auto [lines, columns, depth, rows] = problem;
    return arguments.path.ranks * sizeof(T) % 16 == 0 &&
           Base::can_implement(cute::make_shape(lines, columns, arguments.depth, rows),
                               arguments.product);
  }

  // Every product's w is the same.
  template <typename Problem>
  CUTLASS_DEVICE auto load_init(const Problem& problem, const Params& params) const {
    using namespace cute;  // NOLINT: what CUTLASS's names are made for
    const auto [lines, columns, depth, rows] = problem;
    const auto x = params.tma_load_a.get_tma_tensor(make_shape(lines, depth, rows));
    const auto one = params.tma_load_b.get_tma_tensor(make_shape(columns, depth, 1));
    const auto w =
        make_tensor(one.data(), make_layout(make_shape(columns, depth, rows),
                                            make_stride(stride<0>(one), stride<1>(one), _0{})));
    const auto hidden = params.hidden.get_tma_tensor(make_shape(lines, params.ranks, rows));
    const auto matrices = params.matrices.get_tma_tensor(make_shape(columns, params.ranks, rows));
    const auto all = make_coord(_, _, _);
    return make_tuple(local_tile(x, Tile{}, all, Step<_1, X, _1>{}),
                      local_tile(w, Tile{}, all, Step<X, _1, _1>{}),
                      local_tile(hidden, Tile{}, all, Step<_1, X, _1>{}),
                      local_tile(matrices, Tile{}, all, Step<X, _1, _1>{}));
  }

  template <typename Inputs, typename Place, typename Tiles>
  CUTLASS_DEVICE void load(const Params& params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, const Inputs& inputs,
                           const Place& place, Tiles tiles, int count, int thread,
                           uint32_t block_of_cluster, typename Base::TensorStorage& storage) {
    using namespace cute;  // NOLINT: what CUTLASS's names are made for
    const int of_path = (params.ranks + kTileDepth - 1) / kTileDepth, own = count - of_path;
    Base::load(params, pipeline, state, make_tuple(get<0>(inputs), get<1>(inputs)), place, tiles,
               own, thread, block_of_cluster, storage);
    state.advance(own);
    if (!elect_one_sync()) return;
    const auto hidden = params.hidden.get_slice(_0{});
    const auto matrices = params.matrices.get_slice(_0{});
    const auto from_hidden =
        hidden.partition_S(get<2>(inputs)(_, _, get<0>(place), _, get<3>(place)));
    const auto from_matrices =
        matrices.partition_S(get<3>(inputs)(_, _, get<1>(place), _, get<3>(place)));
    const auto to_a = hidden.partition_D(
        make_tensor(make_smem_ptr(storage.smem_A.data()), typename Base::SmemLayoutA{}));
    const auto to_b = matrices.partition_D(
        make_tensor(make_smem_ptr(storage.smem_B.data()), typename Base::SmemLayoutB{}));
    for (int tile = 0; tile < of_path; ++tile, ++state) {
      pipeline.producer_acquire(state);
      auto& barrier = *pipeline.producer_get_barrier(state);
      const int stage = state.index();
      copy(params.hidden.with(barrier), from_hidden(_, _, _, tile), to_a(_, _, _, stage));
      copy(params.matrices.with(barrier), from_matrices(_, _, _, tile), to_b(_, _, _, stage));
    }
  }
};

template <typename Cluster, typename T, typename OfSums>
cudaError_t LaunchPathInClusters(const ProductSizes& sizes, int64_t rows, const T* x, const T* w,
                                 const PathOperands<T>& path, const typename OfSums::Params& params,
                                 cudaStream_t stream) {
  using Loop = PathLoop<typename Product<T, OfSums, Cluster>::MainLoop>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<
      cute::Shape<int, int, int, int>, Loop,
      cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<Epilogue<OfSums>>>;
  const int lines = static_cast<int>(sizes.rows / rows), depth = static_cast<int>(sizes.depth);
  const typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {lines, static_cast<int>(sizes.columns), Loop::DepthWithPath(depth, path.ranks),
       static_cast<int>(rows)},
      {{x, {depth, cute::_1{}, int64_t{lines} * depth}, w, {depth, cute::_1{}, 0}}, path, depth},
      params};
  return LaunchKernel<Kernel, Cluster>(arguments, stream);
}

// As LaunchProduct, of as many products as there are rows, each of sizes.rows / rows lines.
template <typename T, typename OfSums>
cudaError_t LaunchPathProduct(const ProductSizes& sizes, int64_t rows, const T* x, const T* w,
                              const PathOperands<T>& path, const typename OfSums::Params& params,
                              cudaStream_t stream) {
  return sizes.rows <= kFewRows
             ? LaunchPathInClusters<SharingW, T, OfSums>(sizes, rows, x, w, path, params, stream)
             : LaunchPathInClusters<SharingX, T, OfSums>(sizes, rows, x, w, path, params, stream);
}

}  // namespace latentd::backends::cuda::kernels::hopper
