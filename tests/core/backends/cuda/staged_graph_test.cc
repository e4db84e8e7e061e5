#include "core/backends/cuda/staged_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::backends::cuda {
namespace {

using device::DType;
using ::testing::ElementsAre;

TEST(StagedPortsTest, LieBehindEachOtherAtAlignedPlaces) {
  const Port ids{"ids", DType::kI64, {1, 77}}, layer{"layer", DType::kI64, {1}};
  const StagedPorts places = PlacePorts({ids, layer}, {Port{"finite", DType::kU8, {1}}});
  EXPECT_EQ(places.inputs, 2u);
  EXPECT_THAT(places.offsets, ElementsAre(0, 768, 1024));
  EXPECT_THAT(places.sizes, ElementsAre(616, 8, 1));
  EXPECT_EQ(places.bytes, 1280u);
}

TEST(StagedPortsTest, AreNotThoseOfAStepNorLargeOnes) {
  const Port state{"state", DType::kF32, {1, 64}};
  EXPECT_EQ(PlacePorts({state}, {Port{"state", DType::kF32, {1, 64}, /*updates=*/0}}).bytes, 0u);
  const Port half{"half", DType::kU8, {1 << 24}};
  EXPECT_EQ(PlacePorts({half}, {half}).bytes, size_t{1} << 25);
  EXPECT_EQ(PlacePorts({half, state}, {half}).bytes, 0u);
}

}  // namespace
}  // namespace latentd::backends::cuda
