// The numbers are those of torch 2.11.0 in Python:
//   torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed))
#include "core/noise/noise_generator.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::noise {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;

using ::testing::FloatEq;
using ::testing::Pointwise;

std::vector<float> Draw(NoiseGenerator& generator, const Shape& shape) {
  const Buffer buffer = generator.Normal(shape);
  return {buffer.as<float>().begin(), buffer.as<float>().end()};
}

TEST(NoiseGeneratorTest, FewNumbersEqualTorchs) {
  NoiseGenerator generator(0);
  EXPECT_THAT(Draw(generator, {1, 4}),
              Pointwise(FloatEq(), {1.54099607f, -0.293428898f, -2.17878938f, 0.568431258f}));
}

// torch draws 16 numbers and more by another method than fewer.
TEST(NoiseGeneratorTest, FifteenAndSixteenNumbersEqualTorchs) {
  NoiseGenerator fewer(5);
  EXPECT_THAT(Draw(fewer, {15}),
              Pointwise(FloatEq(),
                        {-0.486780763f, -0.603821576f, -0.55809623f, 0.667524278f, -0.197415099f,
                         1.94278347f, -1.40170205f, -0.762557149f, 0.631213427f, -0.899135172f,
                         -0.557793438f, 0.69071877f, 0.222458586f, -0.666225255f, 0.684642196f}));
  NoiseGenerator more(5);
  EXPECT_THAT(Draw(more, {16}),
              Pointwise(FloatEq(), {1.84232986f, 0.518887162f, -1.71192133f, -1.7013793f,
                                    2.01941943f, -0.268614441f, -0.130717501f, -1.43741381f,
                                    0.39076823f, -0.0189677607f, -1.35268736f, -0.730817795f,
                                    0.987922251f, -0.419407934f, -0.584895849f, -0.782335103f}));
}

TEST(NoiseGeneratorTest, LatentsEqualTorchs) {
  NoiseGenerator generator(7);
  const std::vector<float> numbers = Draw(generator, {1, 4, 4, 4});
  ASSERT_EQ(numbers.size(), 64u);
  EXPECT_FLOAT_EQ(numbers[0], -0.820134521f);
  EXPECT_FLOAT_EQ(numbers[3], -1.38840389f);
  EXPECT_FLOAT_EQ(numbers[60], 1.14500749f);
  EXPECT_FLOAT_EQ(numbers[63], 0.754192531f);
}

TEST(NoiseGeneratorTest, ACountThatIsNoMultipleOfSixteenEqualsTorchs) {
  NoiseGenerator generator(3);
  const std::vector<float> numbers = Draw(generator, {1, 4, 33, 5});
  ASSERT_EQ(numbers.size(), 660u);
  EXPECT_FLOAT_EQ(numbers[0], -0.076644294f);
  EXPECT_FLOAT_EQ(numbers[16], 0.261501163f);
  EXPECT_FLOAT_EQ(numbers[654], -1.06157279f);
  EXPECT_FLOAT_EQ(numbers[659], 0.213523686f);
}

TEST(NoiseGeneratorTest, DrawsGoOnWhereTheLastOneEnded) {
  NoiseGenerator generator(42);
  EXPECT_THAT(Draw(generator, {3}),
              Pointwise(FloatEq(), {0.336690366f, 0.128809407f, 0.234462366f}));
  EXPECT_THAT(Draw(generator, {5}), Pointwise(FloatEq(), {0.23033303f, -1.12285638f, -0.186328292f,
                                                          2.20820141f, -0.637997031f}));
  EXPECT_FLOAT_EQ(Draw(generator, {20}).back(), 2.26671791f);
  EXPECT_THAT(Draw(generator, {2}), Pointwise(FloatEq(), {0.522716045f, -0.238356873f}));
}

TEST(NoiseGeneratorTest, TheLargestSeedEqualsTorchs) {
  NoiseGenerator generator(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(Draw(generator, {3}), Pointwise(FloatEq(), {1.21976304f, -0.392979473f, 1.0230751f}));
}

TEST(NoiseGeneratorTest, GeneratorsDoNotDisturbEachOther) {
  NoiseGenerator first(42);
  NoiseGenerator second(0);
  Draw(first, {3});
  Draw(second, {100});
  EXPECT_FLOAT_EQ(Draw(first, {5}).front(), 0.23033303f);
}

TEST(NoiseGeneratorTest, AMovedGeneratorGoesOn) {
  NoiseGenerator first(42);
  Draw(first, {3});
  NoiseGenerator second(std::move(first));
  EXPECT_FLOAT_EQ(Draw(second, {5}).front(), 0.23033303f);
}

TEST(NoiseGeneratorTest, NoNumbersDrawNothing) {
  NoiseGenerator generator(42);
  EXPECT_TRUE(Draw(generator, {0}).empty());
  EXPECT_FLOAT_EQ(Draw(generator, {3}).front(), 0.336690366f);
}

}  // namespace
}  // namespace latentd::noise
