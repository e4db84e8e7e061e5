#include "tests/golden/synthetic_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/noise/noise_generator.h"
#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using device::Shape;

// Seeds are zlib.crc32 of the names.
constexpr uint64_t kMatrixSeed = 1002942743, kGainSeed = 4127177525, kBiasSeed = 4098647383;

TEST(SyntheticWeights, FollowTheRecipe) {
  ASSERT_OK_AND_ASSIGN(
      auto tensors,
      MakeSyntheticWeights({{"net.weight", {8, 4, 2}}, {"norm.weight", {6}}, {"net.bias", {6}}}));
  const float first = noise::NoiseGenerator(kMatrixSeed).Normal({8, 4, 2}).as<float>()[0];
  EXPECT_FLOAT_EQ(tensors.at("net.weight").data.as<float>()[0], first / std::sqrt(8.0f));
  const float gain = noise::NoiseGenerator(kGainSeed).Normal({6}).as<float>()[5];
  EXPECT_FLOAT_EQ(tensors.at("norm.weight").data.as<float>()[5], 1 + 0.1f * gain);
  const float bias = noise::NoiseGenerator(kBiasSeed).Normal({6}).as<float>()[5];
  EXPECT_FLOAT_EQ(tensors.at("net.bias").data.as<float>()[5], 0.1f * bias);
}

TEST(SyntheticWeights, OutliveTheirMap) {
  device::ConstBuffer kept;
  {
    ASSERT_OK_AND_ASSIGN(auto tensors, MakeSyntheticWeights({{"a", {2, 3}}, {"b", {4, 5}}}));
    kept = tensors.at("b").data;
  }
  EXPECT_EQ(kept.shape(), (Shape{4, 5}));
  EXPECT_NE(kept.as<float>()[19], 0.0f);
}

}  // namespace
}  // namespace latentd::golden
