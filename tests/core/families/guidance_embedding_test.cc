// The embedding of a guidance scale against what diffusers' get_guidance_scale_embedding gives.
#include "core/families/family/guidance_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace latentd::families {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

// An angle of w is exact to w / 2^23, and so are its sine and cosine.
constexpr float kExact = 1e-3f;

TEST(GuidanceEmbeddingTest, IsDiffusers) {
  EXPECT_THAT(GuidanceEmbedding(8, 8),
              Pointwise(FloatNear(kExact), {0.5068854f, -0.9704796f, 0.5866533f, 0.6442176f,
                                            0.8620135f, -0.2411831f, -0.8098382f, 0.7648422f}));
  EXPECT_THAT(GuidanceEmbedding(0, 8),
              Pointwise(FloatNear(kExact), {-0.8268796f, -0.6503158f, -0.8344632f, -0.09983341f,
                                            0.5623791f, -0.759664f, -0.5510637f, 0.9950042f}));
  const std::vector<float> wide = GuidanceEmbedding(8, 256);
  ASSERT_EQ(wide.size(), 256);
  EXPECT_NEAR(wide[1], 0.804287, kExact);
  EXPECT_NEAR(wide[50], -0.831187, kExact);
  EXPECT_NEAR(wide[200], 0.995835, kExact);
}

TEST(GuidanceEmbeddingTest, EndsInAZeroWhereFeaturesAreOdd) {
  EXPECT_THAT(
      GuidanceEmbedding(1.5, 9),
      Pointwise(FloatNear(kExact), {-0.4677718f, -0.9379936f, 0.8806428f, 0.04997916f, -0.8838493f,
                                    -0.3466526f, 0.4737807f, 0.9987503f, 0.0f}));
}

TEST(GuidanceEmbeddingTest, CountsFromAGuidanceOf1) {
  EXPECT_THAT(GuidanceEmbedding(1, 6), ::testing::ElementsAre(0, 0, 0, 1, 1, 1));
}

}  // namespace
}  // namespace latentd::families
