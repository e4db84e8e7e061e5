#include "server/http/videos/video_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/spec/request/limits.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class VideoRequestTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& body, const std::string& type = "application/json") {
    request_.Clear();
    form_ = VideoForm();
    const Request http = {.method = "POST", .headers = {{"Content-Type", type}}, .body = body};
    return ReadVideoRequest(http, models_, request_, form_);
  }

  // Names of what is wrong, in the client's words.
  std::vector<std::string> BadOf(const std::string& body) {
    std::vector<std::string> names;
    for (const auto& violation : GetFieldViolations(Read(body))) names.push_back(violation.field);
    return names;
  }

  const std::vector<ServedModel> models_ = {
      {"svd-xt", "video", 25, {.width = 1024, .height = 576, .frames = 25}}};
  v1::GenerateVideoRequest request_;
  VideoForm form_;
};

TEST_F(VideoRequestTest, AFormAsStockClientsSendIt) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nwaves\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsora-2\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"size\"\r\n\r\n576x1024\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"seconds\"\r\n\r\n2\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"seed\"\r\n\r\n7\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\n\r\n"
      "PNG\r\n--b--\r\n";
  ASSERT_OK(Read(body, "multipart/form-data; boundary=b"));
  EXPECT_EQ(request_.image(), "PNG");
  EXPECT_EQ(request_.model(), "video");
  EXPECT_EQ(request_.width(), 576);
  EXPECT_EQ(request_.height(), 1024);
  EXPECT_EQ(request_.num_frames(), 14);
  EXPECT_EQ(request_.seed(), 7u);
  EXPECT_EQ(request_.output().file(), v1::VIDEO_FORMAT_WEBP);
  EXPECT_EQ(form_.model, "svd-xt");
  EXPECT_EQ(form_.prompt, "waves");
  EXPECT_EQ(form_.size, "576x1024");
  EXPECT_EQ(form_.seconds, "2");
}

TEST_F(VideoRequestTest, EveryFieldHasItsOwnName) {
  ASSERT_OK(Read(R"({"image": "QUJD", "num_frames": 5, "fps": 10, "steps": 4, "seed": -1,
                     "extra_body": {"motion_bucket_id": 3, "output_format": "apng"},
                     "max_guidance_scale": "2.5", "decode_chunk_size": 2, "user": "me",
                     "resize_mode": "crop", "guidance_interval": {"start": 0.25, "stop": 0.5},
                     "latents": "REVG",
                     "output": {"playback_fps": 12}, "request_id": "mine", "prompt": null})"));
  EXPECT_EQ(request_.image(), "ABC");
  EXPECT_EQ(request_.num_frames(), 5);
  EXPECT_EQ(request_.num_inference_steps(), 4);
  EXPECT_FALSE(request_.has_seed());
  EXPECT_EQ(request_.motion_bucket_id(), 3);
  EXPECT_EQ(request_.max_guidance_scale(), 2.5);
  EXPECT_EQ(request_.resize_mode(), v1::RESIZE_MODE_CROP);
  EXPECT_EQ(request_.guidance_interval().stop(), 0.5);
  EXPECT_EQ(request_.latents(), "DEF");
  EXPECT_EQ(request_.output().file(), v1::VIDEO_FORMAT_APNG);
  EXPECT_EQ(request_.output().playback_fps(), 12);
  EXPECT_EQ(request_.request_id(), "mine");
  EXPECT_EQ(form_.size, "1024x576");
  EXPECT_EQ(form_.seconds, "0.5");
}

TEST_F(VideoRequestTest, TheImageMayBeAnObject) {
  ASSERT_OK(Read(R"({"input_reference": {"image_url": "data:image/png;base64,QUJD"}})"));
  EXPECT_EQ(request_.image(), "ABC");
  EXPECT_THAT(BadOf(R"({"input_reference": {"file_id": "file-1"}})"),
              ElementsAre("input_reference"));
  EXPECT_THAT(BadOf(R"({"input_reference": "https://example.org/a.png"})"),
              ElementsAre("input_reference"));
}

TEST_F(VideoRequestTest, SecondsAreFramesAtTheSpeed) {
  ASSERT_OK(Read(R"({"seconds": "2.5", "fps": 10})"));
  EXPECT_EQ(request_.num_frames(), 25);
  EXPECT_THAT(BadOf(R"({"seconds": 2, "num_frames": 9})"), ElementsAre("seconds"));
  for (const char* bad : {"0", "-1", "\"soon\"", "1e9", "true"}) {
    EXPECT_THAT(BadOf(absl::StrCat("{\"seconds\": ", bad, "}")), ElementsAre("seconds")) << bad;
  }
}

// It is kept as long as the video.
TEST_F(VideoRequestTest, APromptHasTheLengthOfThoseOfPictures) {
  const std::string longest(pipeline::kMaxPromptBytes, 'a');
  ASSERT_OK(Read(absl::StrCat(R"({"image": "QUJD", "prompt": ")", longest, "\"}")));
  EXPECT_EQ(form_.prompt, longest);
  EXPECT_THAT(BadOf(absl::StrCat(R"({"image": "QUJD", "prompt": ")", longest, "a\"}")),
              ElementsAre("prompt"));
  EXPECT_EQ(form_.prompt, "");
}

TEST_F(VideoRequestTest, AllThatIsWrongIsNamed) {
  EXPECT_THAT(BadOf(R"({"nonsense": 1, "size": "big", "output_format": "mp4", "fps": "fast"})"),
              UnorderedElementsAre("nonsense", "size", "output_format", "fps"));
  EXPECT_THAT(BadOf(R"({"n": 2})"), ElementsAre("n"));
  EXPECT_THAT(BadOf(R"({"seeds": [1, 2]})"), ElementsAre("seeds"));
  EXPECT_THAT(BadOf(R"({"image": "QUJD", "input_reference": "QUJD"})"),
              ElementsAre("input_reference"));
  EXPECT_EQ(GetReason(Read(R"({"model": "another"})")), "MODEL_NOT_FOUND");
  EXPECT_EQ(GetReason(Read("no JSON")), "MALFORMED");
}

}  // namespace
}  // namespace latentd::server::http
