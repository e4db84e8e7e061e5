#include "core/pipeline/graphs/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/pipeline/graphs/tiled_graph.h"
#include "core/weights/weight_store.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Value;
using Span = TileGrid::Span;

// [1, channels, height, width] with the values 0, 1, 2 and so on.
Buffer Counted(int64_t channels, int64_t height, int64_t width) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {1, channels, height, width});
  float next = 0;
  for (float& x : buffer.as<float>()) x = next++;
  return buffer;
}

// Runs a graph on the image's tiles, on the reference backend.
Buffer Join(const TileGrid& grid, const Buffer& image, int64_t scale_in, int64_t scale_out,
            absl::FunctionRef<Value(GraphBuilder&, Value)> network) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, image.shape(), graph::Rate::kStep);
  b.Output("y", OverTiles(b, grid, x, scale_in, scale_out,
                          [&](Value tile) { return network(b, tile); }));
  const auto graph = std::make_shared<const graph::Graph>(std::move(b).Build().value());
  backends::reference::ReferenceBackend backend;
  weights::WeightStore store(backend);
  const auto executable =
      backend.Load(graph, backend.MakePlan(*graph).value(), weights::WeightSet(&store)).value();
  return testing::RunExecutable(*executable, {image}).value().front();
}

std::vector<float> FloatsOf(const Buffer& buffer) {
  return {buffer.as<float>().begin(), buffer.as<float>().end()};
}

Value AsItIs(GraphBuilder&, Value tile) { return tile; }

TEST(TilesTest, TakesWholeWhatIsNotCut) {
  const TileGrid grid = TileGrid::Whole({5, 7});
  EXPECT_TRUE(grid.is_whole());
  EXPECT_THAT(grid.rows(), ElementsAre(Span{0, 5}));
  EXPECT_THAT(grid.columns(), ElementsAre(Span{0, 7}));
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 2, 5, 7}, graph::Rate::kStep);
  EXPECT_EQ(OverTiles(b, grid, x, 1, 1, [](Value tile) { return tile; }).id, x.id);
}

TEST(TilesTest, CutsAsDiffusersDoes) {
  // range(0, 200, 96) with tiles of 128: 0-128, 96-200, 192-200.
  const TileGrid grid = TileGrid::Overlapping({200, 64}, 128);
  EXPECT_THAT(grid.rows(), ElementsAre(Span{0, 128}, Span{96, 104}, Span{192, 8}));
  EXPECT_THAT(grid.columns(), ElementsAre(Span{0, 64}));
  EXPECT_FALSE(grid.is_whole());
  EXPECT_EQ(grid.overlap(), 32);
}

TEST(TilesTest, JoinsToTheSameImageWhereTilesAgree) {
  for (const TileShape size : {TileShape{8, 8}, {9, 20}, {31, 13}, {8, 21}, {64, 7}}) {
    const Buffer image = Counted(3, size.height, size.width);
    const Buffer joined = Join(TileGrid::Overlapping(size, 8), image, 1, 1, AsItIs);
    EXPECT_EQ(joined.shape(), image.shape());
    const std::vector<float> expected = FloatsOf(image), actual = FloatsOf(joined);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_THAT(actual[i], FloatNear(expected[i], 1e-3f)) << i;
    }
  }
}

TEST(TilesTest, FadesFromOneTileToTheNext) {
  float number = 0;
  const auto numbered = [&](GraphBuilder& b, Value tile) {
    return b.Add(b.Mul(tile, b.Scalar(0)), b.Scalar(number++));
  };
  // Tiles of 8 at 0, 6 and 12; the last one has 2 pixels, which all fade.
  const Buffer joined = Join(TileGrid::Overlapping({1, 14}, 8), Counted(1, 1, 14), 1, 1, numbered);
  EXPECT_THAT(FloatsOf(joined), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0.5, 1, 1, 1, 1, 1, 1.5));
}

TEST(TilesTest, ScalesBothWays) {
  const TileGrid grid = TileGrid::Overlapping({12, 8}, 8);
  const auto halved = [](GraphBuilder& b, Value tile) {
    const graph::Shape shape = b.shape(tile);
    EXPECT_EQ(shape[1], 3);
    const Value none = b.Mul(b.UpsampleNearest(tile, shape[2] / 2, shape[3] / 2), b.Scalar(0));
    return b.Add(b.Concat({none, b.Slice(none, 1, 0, 1)}, 1), b.Scalar(1));
  };
  const Buffer joined = Join(grid, Counted(3, 24, 16), 2, 1, halved);
  EXPECT_EQ(joined.shape(), (device::Shape{1, 4, 12, 8}));
  EXPECT_THAT(FloatsOf(joined), Each(1));
}

TEST(TilesTest, FadeInF32WhateverTheNetworkComputesIn) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 4, 12, 8}, graph::Rate::kStep);
  const auto network = [&](Value tile) {
    return b.Conv2d(tile, b.Weight("net/w", {3, 4, 1, 1}), graph::kNone, {});
  };
  b.Output("y", OverTiles(b, TileGrid::Overlapping({12, 8}, 8), x, 1, 1, network));
  const graph::Graph low =
      passes::ChoosePrecision(std::move(b).Build().value(), {DType::kBF16}).value();
  const auto expect = [&](graph::Op op, DType dtype) {
    EXPECT_FALSE(low.Select(op).empty());
    for (const graph::ValueId id : low.Select(op)) EXPECT_EQ(low.node(id).dtype, dtype);
  };
  expect(graph::Op::kConv2d, DType::kBF16);
  expect(graph::Op::kMul, DType::kF32);
  expect(graph::Op::kAdd, DType::kF32);
}

// Convolutions that widen an image to many channels, whole and in tiles.
size_t ArenaBytes(const TileGrid& grid) {
  GraphBuilder b;
  const graph::Shape shape{1, 4, grid.image().height, grid.image().width};
  const Value x = b.Input("x", DType::kF32, shape, graph::Rate::kStep);
  const auto wide = [&](Value tile) {
    const Value up = b.Conv2d(tile, b.Weight("net/up", {64, 4, 1, 1}), graph::kNone, {});
    return b.Conv2d(b.Silu(up), b.Weight("net/down", {3, 64, 1, 1}), graph::kNone, {});
  };
  b.Output("y", OverTiles(b, grid, x, 1, 1, wide));
  const auto backend = backends::cpu::CpuBackend::Create().value();
  const graph::Graph graph =
      passes::RunPasses(std::move(b).Build().value(), backend->target(), {}).value();
  return backend->MakePlan(graph).value().arena_bytes;
}

TEST(TilesTest, TakeTurnsInTheArena) {
  const size_t whole = ArenaBytes(TileGrid::Whole({128, 128}));
  const size_t tiled = ArenaBytes(TileGrid::Overlapping({128, 128}, 32));
  EXPECT_LT(tiled, whole / 4);
}

}  // namespace
}  // namespace latentd::pipeline
