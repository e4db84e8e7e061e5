#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/backends/lowering/view.h"

namespace latentd::backends::lowering {
namespace {

using device::DType;

TEST(Reshaped, SaysByStridesWhatItCan) {
  const View dense = DenseView(0, DType::kF32, {2, 30});
  View part = dense;  // elements 5 to 29 of each row, as [2, 24]
  part.offset = 5;
  part.shape = {2, 24};
  const std::optional<View> heads = Reshaped(part, {2, 3, 1, 8});
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(heads->offset, 5);
  EXPECT_THAT(heads->strides, ::testing::ElementsAre(30, 8, 8, 1));
  EXPECT_FALSE(Reshaped(part, {48}).has_value());
  EXPECT_FALSE(Reshaped(part, {4, 12}).has_value());
  EXPECT_FALSE(Reshaped(part, {3, 16}).has_value());
  EXPECT_TRUE(Reshaped(dense, {60})->dense());
  EXPECT_TRUE(Reshaped(DenseView(0, DType::kF32, {1}), {})->dense());
}

TEST(View, OfDenseRowsMayHaveThemAtAnyDistance) {
  View rows = DenseView(0, DType::kF32, {2, 3, 4});
  EXPECT_TRUE(rows.rows_dense());
  for (const int64_t distance : {0, 17}) {
    rows.strides = {distance, 4, 1};
    EXPECT_TRUE(rows.rows_dense());
    EXPECT_FALSE(rows.dense());
  }
  rows.strides = {15, 5, 1};
  EXPECT_FALSE(rows.rows_dense());
  rows.shape = {2, 3, 1};
  rows.strides = {1, 2, 1};
  EXPECT_FALSE(rows.rows_dense());
}

TEST(AsLines, HasThemAtOneDistanceWithinARow) {
  View part = DenseView(0, DType::kF32, {2, 3, 4, 10});  // columns 2 to 5 of ten
  part = Sliced(part, {.axis = 3, .begin = 2, .end = 6});
  const std::optional<View> lines = AsLines(part);
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(lines->shape, (graph::Shape{2, 12, 4}));
  EXPECT_EQ(lines->offset, 2);
  EXPECT_EQ(lines->strides[0], 120);
  EXPECT_EQ(lines->strides[1], 10);
  EXPECT_TRUE(AsLines(DenseView(0, DType::kF32, {3, 7})).has_value());
  EXPECT_TRUE(AsLines(DenseView(0, DType::kF32, {3, 1, 1})).has_value());
  EXPECT_FALSE(AsLines(Permuted(DenseView(0, DType::kF32, {3, 7, 5}), {0, 2, 1})).has_value());
  // Four of six columns of lines that are in groups of three lines each: two distances.
  View groups = DenseView(0, DType::kF32, {2, 4, 5, 6});
  groups = Sliced(Sliced(groups, {.axis = 2, .begin = 0, .end = 3}), {.axis = 3, .end = 4});
  EXPECT_FALSE(AsLines(groups).has_value());
}

// The offsets of a view's elements, in order.
std::vector<int64_t> OffsetsOf(const View& view) {
  std::vector<int64_t> offsets = {view.offset};
  for (int d = 0; d < view.shape.rank(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < view.shape[d]; ++i) next.push_back(offset + i * view.strides[d]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

// Every permutation, with a slice of each of its dimensions, under every shape of three dimensions.
TEST(Reshaped, KeepsTheOrderOfTheElements) {
  int reshaped = 0;
  std::vector<int64_t> order = {0, 1, 2};
  do {
    for (int axis = 0; axis < 3; ++axis) {
      View view = DenseView(0, DType::kF32, {4, 3, 4});
      std::vector<int64_t> dims, strides;
      for (const int64_t d : order) {
        dims.push_back(view.shape[static_cast<int>(d)] - (d == axis ? 1 : 0));
        strides.push_back(view.strides[d]);
      }
      view.shape = graph::Shape(dims);
      view.strides = strides;
      const int64_t elements = view.shape.elements();
      for (int64_t a = 1; a <= elements; ++a) {
        for (int64_t b = 1; a * b <= elements; ++b) {
          if (elements % (a * b) != 0) continue;
          const std::optional<View> result = Reshaped(view, {a, b, elements / (a * b)});
          if (!result.has_value()) continue;
          ++reshaped;
          EXPECT_EQ(OffsetsOf(*result), OffsetsOf(view));
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_GT(reshaped, 80);
}

}  // namespace
}  // namespace latentd::backends::lowering
