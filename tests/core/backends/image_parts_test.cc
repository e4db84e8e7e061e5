#include "core/backends/lowering/image_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/checks.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::lowering {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kElements = kMostCounted + 1;

TEST(ImagePartsTest, OneTakesAllImagesThatHaveFewerElements) {
  EXPECT_EQ(RowsOfPart(1, 1), 1);
  EXPECT_EQ(RowsOfPart(50, 9216 * 2560), 50);
  EXPECT_EQ(RowsOfPart(7, kMostCounted / 7), 7);
}

TEST(ImagePartsTest, OtherwiseEachTakesNearlyAsMany) {
  EXPECT_EQ(RowsOfPart(2, kElements / 2), 1);
  EXPECT_EQ(RowsOfPart(8, kElements / 8), 4);
  // 25 frames of 1024x576 with 256 channels: 13 and 12.
  EXPECT_EQ(RowsOfPart(25, int64_t{1024} * 576 * 256), 13);
}

// A 3x3 convolution that keeps the size of its images.
ImageLines Kept(int64_t rows, int64_t height, int64_t line_elements) {
  return {.rows = rows,
          .height = height,
          .result_height = height,
          .kernel_height = 3,
          .padding = 1,
          .line_elements = line_elements};
}

TEST(ImagePartsTest, ImagesAreWholeWhereTheyCanBe) {
  EXPECT_THAT(ImagePartsOf(Kept(5, 4, 10), /*most=*/80),
              ElementsAre(ImagePart{0, 2, 0, 4, 1, 0}, ImagePart{2, 2, 0, 4, 1, 0},
                          ImagePart{4, 1, 0, 4, 1, 0}));
}

// The first line and the last are of two lines each; then those between, in threes.
TEST(ImagePartsTest, AnImageThatIsLargerIsCut) {
  EXPECT_THAT(ImagePartsOf(Kept(1, 8, 10), /*most=*/50),
              ElementsAre(ImagePart{0, 1, 0, 2, 1, 0}, ImagePart{0, 1, 6, 2, 1, 6},
                          ImagePart{0, 1, 0, 5, 0, 1}, ImagePart{0, 1, 3, 5, 0, 4}));
  EXPECT_THAT(ImagePartsOf(Kept(2, 8, 10), /*most=*/50), SizeIs(8));
}

// Over 25 frames of 1024x1024 with 128 channels, of which 16 are too many.
TEST(ImagePartsTest, AConvolutionOverManyFramesIsCut) {
  const std::vector<ImagePart> parts = ImagePartsOf(Kept(1, 25, int64_t{1024} * 1024 * 128));
  EXPECT_THAT(parts, ElementsAre(ImagePart{0, 1, 0, 2, 1, 0}, ImagePart{0, 1, 23, 2, 1, 23},
                                 ImagePart{0, 1, 0, 14, 0, 1}, ImagePart{0, 1, 12, 13, 0, 13}));
  EXPECT_THAT(ImagePartsOf(Kept(1, 25, int64_t{1024} * 576 * 128)), SizeIs(1));
}

TEST(ImagePartsTest, NothingIsCutThatCannotBe) {
  ImageLines images = Kept(1, 8, 10);
  EXPECT_THAT(ImagePartsOf(images, /*most=*/29), IsEmpty());  // no line with those around it
  EXPECT_THAT(ImagePartsOf(Kept(1, 2, 10), /*most=*/19), IsEmpty());
  images.stride = 2;
  images.result_height = 4;
  EXPECT_THAT(ImagePartsOf(images, /*most=*/50), IsEmpty());
  images = Kept(1, 8, 10);
  images.padding = 0;
  images.result_height = 6;
  EXPECT_THAT(ImagePartsOf(images, /*most=*/50), IsEmpty());
}

struct ConvolvedImages {
  int64_t rows, height, width, channels, kernel_height, kernel_width;
};

std::shared_ptr<const graph::Graph> GraphOf(const ConvolvedImages& c, int64_t padding) {
  GraphBuilder b;
  const graph::Value x =
      b.Input("x", DType::kF32, {c.rows, c.height, c.width, c.channels}, Rate::kStep);
  const graph::Value weight =
      b.Weight("net/weight", {c.channels, c.channels, c.kernel_height, c.kernel_width});
  b.Output("y", b.Conv2d(x, weight, b.Weight("net/bias", {c.channels}),
                         {.padding = {padding, c.kernel_width / 2, padding, c.kernel_width / 2},
                          .layout = graph::Layout::kNhwc}));
  auto built = std::move(b).Build();
  EXPECT_OK(built.status());
  return std::make_shared<const graph::Graph>(*std::move(built));
}

ConstBuffer LinesOf(const ConstBuffer& images, const ImagePart& part) {
  const device::Shape& shape = images.shape();
  Buffer lines = Buffer::Allocate(DType::kF32, {part.rows, part.lines, shape[2], shape[3]});
  for (int64_t row = 0; row < part.rows; ++row) {
    const ConstBuffer image = images.Rows(part.first_row + row, part.first_row + row + 1)
                                  .Reshaped({shape[1], shape[2], shape[3]});
    const auto from = image.Rows(part.first_line, part.first_line + part.lines);
    std::ranges::copy(from.as<float>(), lines.Rows(row, row + 1).as<float>().begin());
  }
  return lines;
}

void WriteLines(const Buffer& from, const ImagePart& part, const Buffer& images) {
  const device::Shape& shape = images.shape();
  const int64_t lines = from.shape()[1];
  for (int64_t row = 0; row < part.rows; ++row) {
    const Buffer image = images.Rows(part.first_row + row, part.first_row + row + 1)
                             .Reshaped({shape[1], shape[2], shape[3]});
    std::ranges::copy(
        from.Rows(row, row + 1).as<float>(),
        image.Rows(part.first_result_line, part.first_result_line + lines).as<float>().begin());
  }
}

// Run in their order, the parts write what the whole does, on a backend that really computes them.
TEST(ImagePartsTest, GiveTheWholesResult) {
  ASSERT_OK_AND_ASSIGN(const auto cpu, cpu::CpuBackend::Create({}));
  for (const ConvolvedImages& c : std::vector<ConvolvedImages>{{1, 25, 6, 16, 3, 1},
                                                               {2, 9, 5, 8, 3, 3},
                                                               {1, 3, 4, 8, 3, 1},
                                                               {3, 11, 4, 8, 5, 1},
                                                               {2, 7, 4, 8, 1, 3}}) {
    const auto whole = GraphOf(c, c.kernel_height / 2);
    const testing::Leaves leaves = testing::RandomLeaves(*whole, /*seed=*/3);
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, testing::RunOn(*cpu, whole, leaves));
    const int64_t line = c.width * c.channels;
    for (int64_t lines = c.kernel_height; lines <= c.rows * c.height + 2; lines += 3) {
      ImageLines images = {c.rows, c.height, c.height, c.kernel_height, 1, c.kernel_height / 2,
                           line};
      const std::vector<ImagePart> parts = ImagePartsOf(images, lines * line);
      ASSERT_FALSE(parts.empty());
      const Buffer joined = Buffer::Allocate(DType::kF32, expected[0].shape());
      for (const ImagePart& part : parts) {
        ASSERT_LE(part.lines * part.rows, lines);
        ConvolvedImages piece = c;
        piece.rows = part.rows;
        piece.height = part.lines;
        testing::Leaves of_piece = leaves;
        of_piece.inputs[0] = LinesOf(leaves.inputs[0], part);
        ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs,
                             testing::RunOn(*cpu, GraphOf(piece, part.padding), of_piece));
        WriteLines(outputs[0], part, joined);
      }
      EXPECT_EQ(testing::Difference("cpu", joined, testing::ToDoubles(expected[0])), "")
          << lines << " lines of " << c.height << " by " << c.kernel_height;
    }
  }
}

}  // namespace
}  // namespace latentd::backends::lowering
