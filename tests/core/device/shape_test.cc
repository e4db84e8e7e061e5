#include "core/device/shape.h"

#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

TEST(ShapeTest, AScalarHasOneElementAndNoDimensions) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(ShapeTest, ElementsAreTheProductOfTheDimensions) {
  EXPECT_EQ(Shape({2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).elements(), 0);
}

TEST(ShapeTest, NegativeIndicesCountFromTheEnd) {
  const Shape shape({1, 4, 32, 64});
  EXPECT_EQ(shape[1], 4);
  EXPECT_EQ(shape[-1], 64);
  EXPECT_EQ(shape[-4], 1);
}

TEST(ShapeTest, IsWrittenAsInGraphTexts) {
  EXPECT_EQ(Shape({1, 4, 32, 32}).ToString(), "[1,4,32,32]");
}

TEST(ShapeTest, EqualShapesHaveEqualDimensions) {
  EXPECT_EQ(Shape({2, 3}), Shape(std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
  EXPECT_FALSE(Shape({1, 2}) == Shape({2}));
}

}  // namespace
}  // namespace latentd::device
