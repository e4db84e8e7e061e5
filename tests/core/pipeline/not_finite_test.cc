// NaN and infinity: an error that says where they came from, and no picture.
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "core/pipeline/picture/finite.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/function_executable.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A decoder that says of its results that they are not finite.
ExecutablePointer Broken(const ExecutablePointer& like) {
  return std::make_shared<testing::FunctionExecutable>(
      backends::ExecutableInfo{.inputs = like->inputs(), .outputs = like->outputs()},
      [](auto, absl::Span<const device::Buffer> outputs) {
        for (const device::Buffer& output : outputs) {
          for (uint8_t& x : output.as<uint8_t>()) x = 0;
        }
        return absl::OkStatus();
      });
}

// A decoder that overflows in f16 and not in f32.
constexpr char kLargeTensor[] = "post_quant_conv.weight";
constexpr float kLarge = 49152;

LoadOptions DecodingInF16(const std::string& path) {
  return {.base = path, .precision = {{"vae_decoder", device::DType::kF16}}};
}

// The status of drawing with a checkpoint in which one number is infinite.
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
                               AllOf(HasSubstr("decoded picture: some values are not finite"),
                                     HasSubstr("the checkpoint's tensors of the base's vae"))));
  EXPECT_EQ(GetReason(status), kNotFinite);
}

TEST(NotFiniteTest, FailsAnInitImageThatTheVaeMakesInfinite) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "vae", "encoder.conv_out.bias", kInfinity);
  const Rig rig({.base = path});
  Asked spec = SmallSpec();
  spec.inputs.image = image::Encode(rig.Finish(SmallSpec())->pixels, {}).value();
  const absl::Status status = rig.Run(*rig.Start(spec));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               HasSubstr("encoded image: some values are not finite")));
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

// The pooled state alone, which only the UNet reads.
TEST(NotFiniteTest, NamesTheTextEncoderOfAProjection) {
  const absl::Status status = DrawDoctored("text_encoder_2", "text_projection.weight");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("encoded prompt: "),
                                     HasSubstr("tensors of the base's text_encoder_2"))));
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
  EXPECT_EQ(picture->request->decode_fallback, nullptr);
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
  EXPECT_NE(picture->request->decode_fallback, nullptr);
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
