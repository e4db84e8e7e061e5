#include "server/config/video_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using pipeline::ModelSource;
using pipeline::Residency;
using pipeline::Size;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelSource VideoOf(const std::string& text) {
  const auto model = ToVideoModel(text);
  EXPECT_OK(model);
  return model.ok() ? *model : ModelSource();
}

std::string VideoErrorOf(const std::string& text) {
  const auto model = ToVideoModel(text);
  EXPECT_FALSE(model.ok()) << text;
  return std::string(model.status().message());
}

TEST(VideoFlagTest, AFolderIsEnough) {
  const ModelSource model = VideoOf("/models/svd-xt");
  EXPECT_EQ(model.name, "video");
  EXPECT_EQ(model.checkpoint, "/models/svd-xt");
  EXPECT_TRUE(model.draws_videos);
  EXPECT_EQ(model.decode_chunk, 0);
  EXPECT_THAT(model.buckets, IsEmpty());
  EXPECT_EQ(model.residency, Residency::kReady);
}

TEST(VideoFlagTest, TakesBucketsOfFramesAndAChunk) {
  const ModelSource model = VideoOf("/m,buckets=1024x576x25+576x1024x14,decode-chunk=7");
  EXPECT_EQ(model.checkpoint, "/m");
  EXPECT_THAT(model.buckets, ElementsAre(Size{1024, 576, 25}, Size{576, 1024, 14}));
  EXPECT_EQ(model.decode_chunk, 7);
}

TEST(VideoFlagTest, AFileTakesTheRestFromAFolder) {
  const ModelSource model = VideoOf("/svd.safetensors,components-from=/m,n,decode-chunk=7");
  EXPECT_EQ(model.checkpoint, "/svd.safetensors");
  EXPECT_EQ(model.parts.components_from, "/m,n");
  EXPECT_EQ(model.decode_chunk, 7);
  EXPECT_THAT(VideoErrorOf("/m,components-from="), HasSubstr("a value for components-from"));
}

TEST(VideoFlagTest, ACommaMayBelongToThePath) {
  EXPECT_EQ(VideoOf("/m,n,decode-chunk=2").checkpoint, "/m,n");
  EXPECT_EQ(VideoOf("/m,preset=x").checkpoint, "/m,preset=x");
}

TEST(VideoFlagTest, SaysWhatWouldBeRight) {
  EXPECT_THAT(VideoErrorOf(""), HasSubstr("a folder of Stable Video Diffusion"));
  EXPECT_THAT(VideoErrorOf(",decode-chunk=7"), HasSubstr("a folder of Stable Video Diffusion"));
  EXPECT_THAT(VideoErrorOf("/m,decode-chunk=0"), HasSubstr("decode-chunk=1 to 128"));
  EXPECT_THAT(VideoErrorOf("/m,decode-chunk=129"), HasSubstr("decode-chunk=1 to 128"));
  for (const char* buckets : {"", "1024", "1024x576", "64x64", "1024x576x0", "1024x576x129",
                              "1024x576xa", "1x1x5", "64x64,64x64x5"}) {
    EXPECT_THAT(VideoErrorOf(std::string("/m,buckets=") + buckets),
                AllOf(HasSubstr("--video"), HasSubstr("1024x576x25")))
        << buckets;
  }
  EXPECT_THAT(VideoErrorOf("/m,buckets=64x64x5+64x64x5"), HasSubstr("each bucket once"));
}

}  // namespace
}  // namespace latentd::server::config
