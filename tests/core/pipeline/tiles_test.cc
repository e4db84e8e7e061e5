#include "core/pipeline/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;

using device::Buffer;
using device::DType;

// [1, channels, height, width] with the values 0, 1, 2 and so on.
Buffer Counted(int64_t channels, int64_t height, int64_t width) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {1, channels, height, width});
  float next = 0;
  for (float& x : buffer.as<float>()) x = next++;
  return buffer;
}

std::vector<float> ValuesOf(const Buffer& buffer) {
  return {buffer.as<float>().begin(), buffer.as<float>().end()};
}

absl::StatusOr<Buffer> AsItIs(TileShape, const Buffer& tile) { return tile; }

TEST(TilesTest, TakesWholeWhatIsNotCut) {
  const TileGrid grid = TileGrid::Whole({5, 7});
  EXPECT_THAT(grid.Shapes(), ElementsAre(TileShape{5, 7}));
  EXPECT_EQ(grid.HeldArea(), 0);
  const Buffer image = Counted(2, 5, 7);
  ASSERT_OK_AND_ASSIGN(const Buffer joined, grid.Join(image, 1, 1, AsItIs));
  EXPECT_EQ(joined.data(), image.data());
}

TEST(TilesTest, CutsAsDiffusersDoes) {
  // range(0, 200, 96) with tiles of 128: 0-128, 96-200, 192-200.
  EXPECT_THAT(TileGrid::Overlapping({200, 64}, 128).Shapes(),
              ElementsAre(TileShape{8, 64}, TileShape{104, 64}, TileShape{128, 64}));
  EXPECT_EQ(TileGrid::Overlapping({200, 200}, 128).Shapes().size(), 9u);
  EXPECT_THAT(
      TileGrid::Overlapping({256, 256}, 128).Shapes(),
      ElementsAre(TileShape{64, 64}, TileShape{64, 128}, TileShape{128, 64}, TileShape{128, 128}));
}

TEST(TilesTest, JoinsToTheSameImageWhereTilesAgree) {
  for (const TileShape size : {TileShape{8, 8}, {9, 20}, {31, 13}, {8, 21}, {64, 7}}) {
    const Buffer image = Counted(3, size.height, size.width);
    ASSERT_OK_AND_ASSIGN(const Buffer joined,
                         TileGrid::Overlapping(size, 8).Join(image, 1, 1, AsItIs));
    EXPECT_EQ(joined.shape(), image.shape());
    const std::vector<float> expected = ValuesOf(image), actual = ValuesOf(joined);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_THAT(actual[i], FloatNear(expected[i], 1e-3f)) << i;
    }
  }
}

TEST(TilesTest, FadesFromOneTileToTheNext) {
  float number = 0;
  const auto numbered = [&](TileShape, const Buffer& tile) -> absl::StatusOr<Buffer> {
    Buffer filled = Buffer::Allocate(DType::kF32, tile.shape());
    for (float& x : filled.as<float>()) x = number;
    ++number;
    return filled;
  };
  // Tiles of 8 at 0, 6 and 12; the last one has 2 pixels, which all fade.
  ASSERT_OK_AND_ASSIGN(const Buffer joined,
                       TileGrid::Overlapping({1, 14}, 8).Join(Counted(1, 1, 14), 1, 1, numbered));
  EXPECT_THAT(ValuesOf(joined), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0.5, 1, 1, 1, 1, 1, 1.5));
}

TEST(TilesTest, ScalesBothWays) {
  const TileGrid grid = TileGrid::Overlapping({12, 8}, 8);
  const auto halved = [](TileShape shape, const Buffer& tile) -> absl::StatusOr<Buffer> {
    EXPECT_EQ(tile.shape(), (device::Shape{1, 3, 2 * shape.height, 2 * shape.width}));
    Buffer ones = Buffer::Allocate(DType::kF32, {1, 4, shape.height, shape.width});
    for (float& x : ones.as<float>()) x = 1;
    return ones;
  };
  ASSERT_OK_AND_ASSIGN(const Buffer joined, grid.Join(Counted(3, 24, 16), 2, 1, halved));
  EXPECT_EQ(joined.shape(), (device::Shape{1, 4, 12, 8}));
  EXPECT_THAT(ValuesOf(joined), Each(1));
}

TEST(TilesTest, EndsWithTheFirstError) {
  int runs = 0;
  const auto fails = [&](TileShape, const Buffer&) -> absl::StatusOr<Buffer> {
    ++runs;
    return absl::InternalError("no tile");
  };
  EXPECT_THAT(TileGrid::Overlapping({12, 8}, 8).Join(Counted(1, 12, 8), 1, 1, fails),
              StatusIs(absl::StatusCode::kInternal, "no tile"));
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace latentd::pipeline
