// Latents that a client gives, and latents that a client wants.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/weights/containers/safetensors.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::F32Tensor;
using ::latentd::testing::SafetensorsBytes;
using ::testing::HasSubstr;

constexpr LatentSize kSize = {.height = 9, .width = 8};  // SmallSpec's

device::Buffer Noise(uint64_t seed, int64_t pictures = 1) {
  return noise::NoiseGenerator(seed).Normal({pictures, 4, 9, 8});
}

std::string FileOf(const device::Buffer& latents) {
  const std::vector<int64_t>& dims = latents.shape().dims();
  return SafetensorsBytes({F32Tensor("latents", dims, ValuesOf(latents))});
}

TEST(LatentsFileTest, ComesBackAsItWas) {
  const device::Buffer latents = Noise(3);
  const std::string file = LatentsFile(latents, kSize);
  EXPECT_EQ(static_cast<int64_t>(file.size()), LatentsFileBytes(4, kSize));
  ASSERT_OK_AND_ASSIGN(const auto tensors, weights::ParseSafetensorsBytes(file, "a file", nullptr));
  EXPECT_EQ(tensors.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const device::Buffer read,
                       ReadLatentsFile(file, ImageLatentsShape(1, 4, kSize)));
  EXPECT_EQ(read.shape(), latents.shape());
  EXPECT_EQ(ValuesOf(read), ValuesOf(latents));
}

TEST(LatentsFileTest, HasTheMiddleOfMore) {
  device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 2, 4, 5});
  const absl::Span<float> values = latents.as<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const LatentSize middle = {.height = 2, .width = 2};
  ASSERT_OK_AND_ASSIGN(const device::Buffer read, ReadLatentsFile(LatentsFile(latents, middle),
                                                                  ImageLatentsShape(1, 2, middle)));
  EXPECT_EQ(ValuesOf(read), (std::vector<float>{6, 7, 11, 12, 26, 27, 31, 32}));
}

TEST(LatentsFileTest, WhatIsWrongIsRefusedAndSaid) {
  const auto refusal = [](const std::string& file) {
    const auto read = ReadLatentsFile(file, ImageLatentsShape(2, 4, kSize));
    EXPECT_TRUE(absl::IsInvalidArgument(read.status()));
    return std::string(read.status().message());
  };
  EXPECT_THAT(refusal("no file"), HasSubstr("safetensors"));
  EXPECT_THAT(refusal(SafetensorsBytes({F32Tensor("noise", {1}, {0})})),
              HasSubstr("one tensor, named latents"));
  EXPECT_THAT(
      refusal(SafetensorsBytes({F32Tensor("latents", {1}, {0}), F32Tensor("more", {1}, {0})})),
      HasSubstr("one tensor"));
  EXPECT_THAT(refusal(SafetensorsBytes({{"latents", "F16", {1}, "12"}})), HasSubstr("F32"));
  EXPECT_THAT(refusal(SafetensorsBytes({{"latents", "F64", {1}, "12345678"}})), HasSubstr("F32"));
  EXPECT_THAT(refusal(FileOf(Noise(1, 3))), HasSubstr("[2,4,9,8], or with 1 as its first"));
  EXPECT_THAT(refusal(SafetensorsBytes({F32Tensor("latents", {1}, {0})})), HasSubstr("has [1]"));
  device::Buffer infinite = Noise(1);
  infinite.as<float>()[5] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(FileOf(infinite)), HasSubstr("finite"));
  EXPECT_THAT(refusal(std::string(1 << 20, ' ')), HasSubstr("must have at most"));
}

class LatentsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rig_ = new Rig(Demo(), "", backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() { delete rig_; }

  static PictureSpec Spec(const std::string& scheduler = "euler") {
    PictureSpec spec = SmallSpec();
    spec.scheduler.name = scheduler;
    return spec;
  }
  static Asked StartingFrom(Asked spec, const device::Buffer& latents) {
    spec.inputs.latents = FileOf(latents);
    return spec;
  }

  static inline Rig* rig_ = nullptr;
};

TEST_F(LatentsTest, WhatTheSeedWouldDrawMakesTheSamePicture) {
  for (const char* scheduler : {"euler", "ddim", "dpmpp_2m"}) {
    const std::vector<float> drawn = rig_->Latents(Spec(scheduler));
    EXPECT_EQ(rig_->Latents(StartingFrom(Spec(scheduler), Noise(3))), drawn) << scheduler;
    EXPECT_NE(rig_->Latents(StartingFrom(Spec(scheduler), Noise(4))), drawn) << scheduler;
  }
}

// As in diffusers, where nothing else takes numbers from the generator then.
TEST_F(LatentsTest, TheFirstNoiseOfTheSeedIsThatOfTheFirstStep) {
  const Asked spec = StartingFrom(Spec("euler_ancestral"), Noise(4));
  const auto given = rig_->Start(spec), drawn = rig_->Start(Spec("euler_ancestral"));
  for (Picture* picture : {given.get(), drawn.get()}) ASSERT_OK(testing::RunUnit(*picture));
  const device::Shape shape{1, 4, 9, 8};
  noise::NoiseGenerator seeded(3);
  EXPECT_EQ(ValuesOf(given->generator.Normal(shape)), ValuesOf(seeded.Normal(shape)));
  EXPECT_EQ(ValuesOf(drawn->generator.Normal(shape)), ValuesOf(seeded.Normal(shape)));
}

// The file is the caller's until then, and goes with the request.
TEST_F(LatentsTest, AreReadWhenThePictureBegins) {
  auto inputs = std::make_shared<Inputs>(Inputs{.latents = FileOf(Noise(8))});
  const std::weak_ptr<Inputs> watched = inputs;
  const SharedPlan plan = rig_->pipeline->Resolve(Spec(), *inputs).value();
  EXPECT_TRUE(plan->spec.has_latents);
  ASSERT_OK_AND_ASSIGN(auto pictures, rig_->pipeline->Start(plan, std::move(inputs)));
  EXPECT_FALSE(pictures.front()->latents.has_memory());
  ASSERT_OK(testing::RunUnit(*pictures.front()));
  EXPECT_TRUE(pictures.front()->latents.has_memory());
  EXPECT_FALSE(watched.expired());
  pictures.clear();
  EXPECT_TRUE(watched.expired());
}

TEST_F(LatentsTest, AreEachPicturesOwnOrAllPictures) {
  PictureSpec spec = Spec();
  spec.num_images_per_prompt = 2;
  const auto latents_of = [&](const device::Buffer& latents) {
    auto pictures = rig_->Begin(StartingFrom(spec, latents)).value();
    std::vector<std::vector<float>> all;
    for (const auto& picture : pictures) {
      EXPECT_OK(rig_->Run(*picture));
      all.push_back(ValuesOf(picture->latents));
    }
    return all;
  };
  const device::Buffer two = Noise(8, 2);
  const auto own = latents_of(two), same = latents_of(two.Rows(1, 2));
  EXPECT_NE(own[0], own[1]);
  EXPECT_EQ(same[0], own[1]);
  EXPECT_EQ(same[1], own[1]);
}

TEST_F(LatentsTest, OfAnotherSizeAreRefused) {
  Asked spec = StartingFrom(Spec(), Noise(3));
  spec.height = 64;
  const auto refused = rig_->Resolve(spec);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  const std::vector<FieldViolation> fields = GetFieldViolations(refused.status());
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields[0].field, "latents");
  EXPECT_THAT(fields[0].description, HasSubstr("[1,4,8,8]"));
}

TEST_F(LatentsTest, ThatAreWantedAreThoseThatWouldBeDecoded) {
  PictureSpec ensemble = Spec();
  ensemble.refine = true;
  for (PictureSpec spec : {Spec(), ensemble}) {
    const auto decoded = rig_->Finish(spec);
    spec.output_latents = true;
    const auto latents = rig_->Finish(spec);
    EXPECT_EQ(latents->request->decode, nullptr);
    EXPECT_TRUE(latents->pixels.rgb.empty());
    const auto values = latents->latents.as<float>();  // on the host
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), ValuesOf(decoded->latents));
  }
}

TEST_F(LatentsTest, ThatAreWantedTakeNoUnitAfterTheSteps) {
  PictureSpec spec = Spec();
  spec.output_latents = true;
  const auto picture = rig_->Start(spec);
  std::vector<UnitKind> kinds;
  while (picture->next != UnitKind::kDone) {
    EXPECT_THAT(picture->ahead().after, ::testing::IsEmpty());
    EXPECT_TRUE(picture->ahead().is_known());
    kinds.push_back(picture->next);
    ASSERT_OK(testing::RunUnit(*picture));
  }
  const UnitKind step = UnitKind::kStep;
  EXPECT_EQ(kinds, (std::vector<UnitKind>{UnitKind::kText, step, step, step, step}));
}

}  // namespace
}  // namespace latentd::pipeline
