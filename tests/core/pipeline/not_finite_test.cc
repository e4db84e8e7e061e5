// NaN and infinity: an error that says where they came from, and no picture.
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error_details.h"
#include "core/pipeline/finite.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An executable whose results are all NaN.
class NanExecutable : public backends::Executable {
 public:
  explicit NanExecutable(ExecutablePointer like) : like_(std::move(like)) {}
  const std::vector<backends::Port>& inputs() const override { return like_->inputs(); }
  const std::vector<backends::Port>& outputs() const override { return like_->outputs(); }
  absl::Status Run(absl::Span<const device::Buffer> inputs,
                   absl::Span<device::Buffer> outputs) override {
    for (device::Buffer& output : outputs) {
      for (float& x : output.as<float>()) x = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }
  size_t arena_bytes() const override { return 0; }
  size_t own_bytes() const override { return 0; }
  std::vector<const void*> weights() const override { return {}; }

 private:
  const ExecutablePointer like_;
};

TiledExecutable Broken(TiledExecutable decoder) {
  for (auto& [shape, executable] : decoder.executables) {
    executable = std::make_shared<NanExecutable>(executable);
  }
  return decoder;
}

// A decoder that overflows in f16 and not in f32.
constexpr char kLargeTensor[] = "post_quant_conv.weight";
constexpr float kLarge = 49152;

LoadOptions DecodingInF16(const std::string& path) {
  return {.base = path, .precision = {{"vae_decoder", device::DType::kF16}}};
}

// What drawing with a checkpoint says in which one number is infinite.
absl::Status DrawDoctored(const std::string& component, const std::string& tensor) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, component, tensor, kInfinity);
  const Rig rig({.base = path, .refiner = testing::kDemoRefiner});
  const auto picture = rig.Start(SmallSpec());
  const absl::Status status = rig.Run(*picture);
  EXPECT_TRUE(picture->pixels.rgb.empty());
  return status;
}

TEST(NotFiniteTest, FailsAPictureThatTheVaeMakesInfinite) {
  const absl::Status status = DrawDoctored("vae", "decoder.conv_out.bias");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("decoded picture: "),
                                     HasSubstr("the checkpoint's tensors of the base's vae"))));
  EXPECT_EQ(GetReason(status), kNotFinite);
}

TEST(NotFiniteTest, FailsBeforeDecodingAndNamesTheStage) {
  const absl::Status status = DrawDoctored("unet", "conv_out.bias");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("latents of the base's"),
                                     HasSubstr("the checkpoint's tensors of the base's unet"))));
  EXPECT_EQ(GetReason(status), kNotFinite);
}

TEST(NotFiniteTest, NamesTheTextEncoder) {
  const absl::Status status =
      DrawDoctored("text_encoder_2", "text_model.encoder.layers.0.mlp.fc1.bias");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("encoded prompt: "),
                                     HasSubstr("tensors of the base's text_encoder_2"))));
  EXPECT_EQ(GetReason(status), kNotFinite);
}

TEST(NotFiniteTest, LeavesOtherPicturesOfTheProcessAlone) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "vae", "decoder.conv_out.bias", kInfinity);
  Rig rig;  // sound
  const auto doctored = LoadPipeline({.base = path}, rig.weights, rig.graphs).value();
  const auto broken = doctored->Start(doctored->Resolve(SmallSpec()).value()).value();
  EXPECT_FALSE(rig.Run(*broken.front()).ok());
  EXPECT_EQ(rig.Finish(SmallSpec())->pixels.width, 64);
}

TEST(NotFiniteTest, HasNoFallbackWhereTheVaeRunsInFloat32) {
  const Rig rig;
  const auto picture = rig.Finish(SmallSpec());
  EXPECT_FALSE(picture->request->decode_fallback.has_value());
  EXPECT_FALSE(picture->decode_redone);
}

TEST(NotFiniteTest, DecodesInF32WhatOverflowedInF16) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "vae", kLargeTensor, kLarge);
  const Rig exact({.base = path}), rig(DecodingInF16(path));
  const auto expected = exact.Finish(SmallSpec());
  EXPECT_FALSE(expected->decode_redone);
  const auto picture = rig.Finish(SmallSpec());
  EXPECT_TRUE(picture->decode_redone);
  EXPECT_EQ(picture->pixels, expected->pixels);
}

TEST(NotFiniteTest, DecodesOnceWhatDoesNotOverflowInF16) {
  const Rig rig(DecodingInF16(testing::kDemoBase));
  const auto picture = rig.Finish(SmallSpec());
  EXPECT_TRUE(picture->request->decode_fallback.has_value());
  EXPECT_FALSE(picture->decode_redone);
}

TEST(NotFiniteTest, FailsWhereTheDecoderIsNotFiniteInF32Either) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "vae", "decoder.conv_out.bias", kInfinity);
  const Rig rig(DecodingInF16(path));
  const auto picture = rig.Start(SmallSpec());
  const absl::Status status = rig.Run(*picture);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("decoded again in float32")));
  EXPECT_EQ(GetReason(status), kNotFinite);
  EXPECT_TRUE(picture->pixels.rgb.empty());
}

TEST(NotFiniteTest, DecodesAgainWithTheFallback) {
  const Rig rig;
  const auto expected = rig.Finish(SmallSpec());
  const auto picture = rig.Start(SmallSpec());
  Request& request = *picture->request;
  request.decode_fallback = request.decode;
  request.decode = Broken(request.decode);
  ASSERT_OK(rig.Run(*picture));
  EXPECT_TRUE(picture->decode_redone);
  EXPECT_EQ(picture->pixels, expected->pixels);
}

TEST(NotFiniteTest, FailsWhereTheFallbackIsNotFiniteEither) {
  const Rig rig;
  const auto picture = rig.Start(SmallSpec());
  Request& request = *picture->request;
  request.decode = Broken(request.decode);
  request.decode_fallback = request.decode;
  EXPECT_THAT(rig.Run(*picture),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("decoded again in float32")));
}

}  // namespace
}  // namespace latentd::pipeline
