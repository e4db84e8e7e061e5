// Pictures that are smaller than what the networks run at.
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/picture/pixels.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

constexpr Size kAsked{72, 64}, kBucket{88, 80};

PictureSpec SpecAsked() {
  PictureSpec spec = SmallSpec();
  spec.width = kAsked.width;
  spec.height = kAsked.height;
  return spec;
}

image::Image Gradient(int width, int height) {
  image::Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.rgb.insert(image.rgb.end(),
                       {static_cast<uint8_t>(3 * x), static_cast<uint8_t>(2 * y), 100});
    }
  }
  return image;
}

class ExecutedSizeTest : public ::testing::Test {
 protected:
  image::Image Draw(Asked spec, std::optional<Size> executed) {
    spec.executed_size = executed;
    return rig_.Finish(spec)->pixels;
  }

  Rig rig_;
};

TEST_F(ExecutedSizeTest, GivesTheCentreOfWhatTheBucketDraws) {
  PictureSpec whole = SpecAsked();
  whole.width = kBucket.width;
  whole.height = kBucket.height;
  whole.original_size = whole.target_size = kAsked;  // micro-conditioning follows the request
  const image::Image drawn = Draw(SpecAsked(), kBucket);
  EXPECT_EQ(drawn.width, kAsked.width);
  EXPECT_EQ(drawn.height, kAsked.height);
  EXPECT_EQ(drawn, CentreOf(ToPixels(Draw(whole, std::nullopt)), kAsked));
}

TEST_F(ExecutedSizeTest, IsTheSizeAskedForWhereNobodySetsIt) {
  EXPECT_EQ(Draw(SpecAsked(), std::nullopt), Draw(SpecAsked(), kAsked));
}

TEST_F(ExecutedSizeTest, ExtendsAnInitImageByItsEdges) {
  Asked asked = SpecAsked();
  asked.inputs.image = image::Encode(Gradient(100, 50), {}).value();
  asked.strength = 0.5;
  Asked whole = asked;
  whole.width = kBucket.width;
  whole.height = kBucket.height;
  whole.original_size = whole.target_size = kAsked;
  const image::Image resized =
      image::ResizeLanczos(Gradient(100, 50), kAsked.width, kAsked.height).value();
  whole.inputs.image = image::Encode(ExtendEdges(resized, kBucket), {}).value();
  EXPECT_EQ(Draw(asked, kBucket), CentreOf(ToPixels(Draw(whole, std::nullopt)), kAsked));
}

TEST_F(ExecutedSizeTest, HasToCoverThePicture) {
  Asked spec = SpecAsked();
  spec.executed_size = Size{64, 80};
  EXPECT_THAT(rig_.Resolve(spec).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("72x64")));
}

}  // namespace
}  // namespace latentd::pipeline
