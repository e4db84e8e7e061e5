// Masks: what they keep and what they draw over, with UNets that know of none and with those that
// read them. Whole images beside diffusers' are in tests/golden.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/weights/containers/safetensors.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr int kSide = 64, kLatentSide = 8;

// Grey of `left` in the left half, of `right` in the other.
std::string MaskFile(uint8_t left, uint8_t right) {
  image::Image image{kSide, kSide, {}};
  for (int i = 0; i < kSide * kSide; ++i) {
    image.rgb.insert(image.rgb.end(), 3, i % kSide < kSide / 2 ? left : right);
  }
  return image::Encode(image, {}).value();
}

std::string InitImage() {
  image::Image image{kSide, kSide, {}};
  for (int i = 0; i < kSide * kSide; ++i) {
    image.rgb.insert(image.rgb.end(), {static_cast<uint8_t>(4 * (i % kSide)),
                                       static_cast<uint8_t>(4 * (i / kSide)), uint8_t{90}});
  }
  return image::Encode(image, {}).value();
}

Asked Masked(const std::string& mask) {
  Asked asked;
  asked.prompt = "a red circle on a blue background";
  asked.guidance_scale = 1;
  asked.num_inference_steps = 4;
  asked.scheduler.name = "euler";
  asked.seed = 3;
  asked.inputs.image = InitImage();
  asked.inputs.mask_image = mask;
  return asked;
}

Rig OnCpu(const std::string& base = testing::kDemoBase) {
  return Rig({.base = base}, "", backends::cpu::CpuBackend::Create().value());
}

// Latents of the init image as the seed's first numbers draw them.
std::vector<float> ImageLatents(const Picture& picture) {
  const device::Shape shape{1, 4, kLatentSide, kLatentSide};
  const auto number = [](float value) {
    device::Buffer buffer = device::Buffer::Allocate(device::DType::kF32, {1});
    buffer.as<float>()[0] = value;
    return buffer;
  };
  const NamedBuffers inputs = {
      {"moments", *picture.request->encoded_image},
      {"sample_noise", noise::NoiseGenerator(picture.seed).Normal(shape)},
      {"noise", device::Buffer::Allocate(device::DType::kF32, shape)},
      {"drawn", device::Buffer::Allocate(device::DType::kF32, shape)},
      {"mask", device::Buffer::Allocate(device::DType::kF32, {1, 1, kLatentSide, kLatentSide})},
      {"image_scale", number(1)},
      {"noise_scale", number(0)}};
  return ValuesOf(
      testing::RunNamed(picture.request->sample, inputs, {"latents"}).value().at("latents"));
}

// The half of latents that lies left or right.
std::vector<float> Half(const std::vector<float>& latents, bool right) {
  std::vector<float> half;
  for (size_t i = 0; i < latents.size(); ++i) {
    if ((i % kLatentSide >= kLatentSide / 2) == right) half.push_back(latents[i]);
  }
  return half;
}

// Fields at fault of a request, in order.
std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(status)) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(InpaintingTest, ABlackMaskGivesBackTheImagesLatents) {
  const Rig rig = OnCpu();
  for (const char* scheduler : {"euler", "euler_ancestral", "dpmpp_2m", "heun", "ddim"}) {
    Asked asked = Masked(MaskFile(0, 0));
    asked.scheduler.name = scheduler;
    const auto picture = rig.Finish(asked);
    EXPECT_EQ(ValuesOf(picture->latents), ImageLatents(*picture)) << scheduler;
  }
}

TEST(InpaintingTest, KeepsTheBlackHalfAndDrawsTheOther) {
  const Rig rig = OnCpu();
  const auto picture = rig.Finish(Masked(MaskFile(0, 255)));
  const std::vector<float> drawn = ValuesOf(picture->latents), image = ImageLatents(*picture);
  EXPECT_EQ(Half(drawn, false), Half(image, false));
  EXPECT_NE(Half(drawn, true), Half(image, true));
}

// A strength of 1 begins with noise alone: the second that the seed draws, behind the image's.
TEST(InpaintingTest, AWhiteMaskOfFullStrengthDrawsWhatTextToImageDoes) {
  const Rig rig = OnCpu();
  Asked masked = Masked(MaskFile(255, 255));
  masked.strength = 1;
  Asked plain = masked;
  plain.inputs = {};
  plain.strength.reset();
  plain.width = plain.height = kSide;
  const device::Shape shape{1, 4, kLatentSide, kLatentSide};
  noise::NoiseGenerator generator(*masked.seed);
  generator.Normal(shape);
  plain.inputs.latents = LatentsFile(generator.Normal(shape), {kLatentSide, kLatentSide});
  EXPECT_EQ(rig.Latents(masked), rig.Latents(plain));
}

// Not `strength`, which would begin with noise alone.
TEST(InpaintingTest, GoesOnFromTheImageWithDenoisingStart) {
  const Rig rig = OnCpu();
  Asked asked = Masked(MaskFile(0, 255));
  asked.denoising_start = 0.5;
  const auto picture = rig.Finish(asked);
  EXPECT_FALSE(picture->plan().spec.strength.has_value());
  EXPECT_EQ(Half(ValuesOf(picture->latents), false), Half(ImageLatents(*picture), false));
}

TEST(InpaintingTest, CountsWhatAMaskHolds) {
  const Rig rig = OnCpu();
  Asked plain = Masked("");
  ASSERT_OK_AND_ASSIGN(const auto without, rig.Resolve(plain));
  const auto picture = rig.Start(Masked(MaskFile(0, 255)));
  while (picture->next != UnitKind::kStep) ASSERT_OK(testing::RunUnit(*picture));
  int64_t held = static_cast<int64_t>(picture->request->mask->keep.bytes() +
                                      picture->request->mask->latents.bytes());
  for (const auto& [name, buffer] : picture->kept) {
    if (name != "moments") held += static_cast<int64_t>(buffer.bytes());
  }
  EXPECT_GT(held, 0);
  EXPECT_GE(picture->plan().state_bytes - without->state_bytes, held);
  // A differential one may draw two images before the first step.
  Asked differential = Masked(MaskFile(0, 255));
  differential.differential = true;
  ASSERT_OK_AND_ASSIGN(const auto twice, rig.Resolve(differential));
  const int64_t of_latents = int64_t{sizeof(float)} * 4 * kLatentSide * kLatentSide;
  EXPECT_GE(twice->state_bytes - picture->plan().state_bytes, 6 * of_latents);
}

TEST(InpaintingTest, HasDefaultsOfItsOwn) {
  const Rig rig = OnCpu();
  Asked asked = Masked(MaskFile(0, 255));
  asked.guidance_scale.reset();
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(asked));
  EXPECT_EQ(plan->spec.strength, 0.9999);
  EXPECT_EQ(plan->spec.guidance_scale, 7.5);
  EXPECT_EQ(plan->total_steps(), 3);
  // A differential mask's are image-to-image's, but for the strength.
  asked.differential = true;
  ASSERT_OK_AND_ASSIGN(const auto differential, rig.Resolve(asked));
  EXPECT_EQ(differential->spec.strength, 1);
  EXPECT_EQ(differential->spec.guidance_scale, 5);
}

// White in one square of the image's size, black around it.
std::string SpotFile(int left, int top, int side) {
  image::Image image{kSide, kSide, std::vector<uint8_t>(size_t{3} * kSide * kSide)};
  for (int y = top; y < top + side; ++y) {
    for (int i = 3 * left; i < 3 * (left + side); ++i) image.rgb[3 * kSide * y + i] = 255;
  }
  return image::Encode(image, {}).value();
}

// The picture as it is sent.
image::Image Whole(const Picture& picture) {
  return picture.request->overlay->Over(picture.pixels).value();
}

// True if all pixels outside of a square are those of the init image.
bool IsKeptAround(const image::Image& image, int left, int top, int side) {
  const image::Image init = image::Decode(InitImage()).value();
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const bool inside = x >= left && x < left + side && y >= top && y < top + side;
      const size_t at = 3 * (size_t{1} * kSide * y + x);
      if (!inside && !std::equal(&init.rgb[at], &init.rgb[at] + 3, &image.rgb[at])) return false;
    }
  }
  return true;
}

TEST(InpaintingTest, DrawsACropAndPutsItBack) {
  const Rig rig = OnCpu();
  Asked asked = Masked(SpotFile(40, 8, 12));
  asked.padding_mask_crop = 2;
  asked.width = asked.height = 96;
  const auto picture = rig.Finish(asked);
  EXPECT_EQ(picture->request->crop, (image::Box{38, 6, 54, 22}));
  EXPECT_EQ(picture->pixels.width, 96);
  EXPECT_EQ(picture->plan().picture_size(), (Size{kSide, kSide}));
  const image::Image whole = Whole(*picture);
  ASSERT_EQ(whole.width, kSide);
  EXPECT_TRUE(IsKeptAround(whole, 40, 8, 12));
  EXPECT_FALSE(IsKeptAround(whole, 0, 0, 1));
  // Nothing of the image outside of the crop is read.
  Asked other = asked;
  other.inputs.image = SpotFile(0, 40, 20);
  asked.inputs.image = SpotFile(3, 30, 30);
  EXPECT_EQ(rig.Latents(asked), rig.Latents(other));
}

TEST(InpaintingTest, ACropIsOfTheModelsSizeByDefault) {
  const Rig rig = OnCpu();
  Asked asked = Masked(SpotFile(40, 8, 12));
  asked.padding_mask_crop = 0;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(asked));
  EXPECT_EQ((Size{*plan->spec.width, *plan->spec.height}),
            rig.pipeline->table().first().default_size);
  asked.padding_mask_crop.reset();
  ASSERT_OK_AND_ASSIGN(const auto whole, rig.Resolve(asked));
  EXPECT_EQ(*whole->spec.width, kSide);
  const int64_t overlay = int64_t{4} * kSide * kSide;
  Asked preserved = asked;
  preserved.preserve_unmasked = true;
  ASSERT_OK_AND_ASSIGN(const auto with, rig.Resolve(preserved));
  EXPECT_EQ(with->state_bytes, whole->state_bytes + overlay);
}

TEST(InpaintingTest, PutsBackWhatIsNotMasked) {
  const Rig rig = OnCpu();
  Asked asked = Masked(SpotFile(16, 24, 24));
  const auto plain = rig.Finish(asked);
  EXPECT_EQ(plain->request->overlay, nullptr);
  EXPECT_FALSE(IsKeptAround(plain->pixels, 16, 24, 24));
  asked.preserve_unmasked = true;
  const auto picture = rig.Finish(asked);
  EXPECT_EQ(picture->pixels, plain->pixels);
  const image::Image whole = Whole(*picture);
  EXPECT_TRUE(IsKeptAround(whole, 16, 24, 24));
  EXPECT_EQ(whole.rgb[3 * (kSide * 30 + 20)], plain->pixels.rgb[3 * (kSide * 30 + 20)]);
}

// Latents that image-to-image draws of an image with so much of the schedule, where the seed's
// third numbers draw the image and its fourth are its noise.
std::vector<float> DrawnOfThirdNumbers(const Rig& rig, double strength) {
  Asked asked = Masked("");
  asked.strength = strength;
  const auto picture = rig.Start(asked);
  absl::Status status;
  while (status.ok() && picture->next != UnitKind::kStep) status = testing::RunUnit(*picture);
  const device::Shape shape{1, 4, kLatentSide, kLatentSide};
  noise::NoiseGenerator generator(*asked.seed);
  generator.Normal(shape);
  generator.Normal(shape);
  NamedBuffers inputs = {
      {"moments", *picture->request->encoded_image},
      {"sample_noise", generator.Normal(shape)},
      {"noise", generator.Normal(shape)},
      {"drawn", device::Buffer::Allocate(device::DType::kF32, shape)},
      {"mask", device::Buffer::Allocate(device::DType::kF32, {1, 1, kLatentSide, kLatentSide})}};
  const schedulers::Schedule& schedule = picture->stage().schedule();
  inputs["image_scale"] = ScaleOf(device::Host(), schedule.start_image_scale).value();
  inputs["noise_scale"] = ScaleOf(device::Host(), schedule.start_noise_scale).value();
  picture->latents =
      testing::RunNamed(picture->request->sample, inputs, {"latents"}).value().at("latents");
  while (status.ok() && picture->next != UnitKind::kDone) status = testing::RunUnit(*picture);
  EXPECT_OK(status);
  return ValuesOf(picture->latents);
}

TEST(InpaintingTest, ADifferentialMaskDrawsAsMuchAsItsGreys) {
  const Rig rig = OnCpu();
  const auto drawn = [&](uint8_t left, uint8_t right) {
    Asked asked = Masked(MaskFile(left, right));
    asked.differential = true;
    return rig.Latents(asked);
  };
  const std::vector<float> white = drawn(255, 255), black = drawn(0, 0), grey = drawn(100, 100);
  // Its strength is 1, which is no noise alone.
  EXPECT_EQ(white, DrawnOfThirdNumbers(rig, /*strength=*/1));
  EXPECT_NE(white, black);
  EXPECT_NE(grey, black);
  EXPECT_NE(grey, white);
  // Four evaluations: a grey of 100 stays for 0.608 of the schedule, as one of 70 does.
  EXPECT_EQ(drawn(70, 70), grey);
  EXPECT_NE(drawn(130, 130), grey);
  const std::vector<float> halves = drawn(0, 255);
  EXPECT_NE(Half(halves, true), Half(black, true));
  EXPECT_NE(Half(halves, false), Half(white, false));
}

// The image that is put back is the one that the seed's third numbers draw, with its fourth.
TEST(InpaintingTest, ADifferentialMaskPutsTheImageBackUntilTheLastEvaluation) {
  const Rig rig = OnCpu();
  Asked asked = Masked(MaskFile(0, 0));
  asked.differential = true;
  // The last of four evaluations.
  EXPECT_EQ(rig.Latents(asked), DrawnOfThirdNumbers(rig, /*strength=*/0.25));
}

TEST(InpaintingTest, ADifferentialMaskIsRefusedWhereItHasNoMeaning) {
  const Rig rig = OnCpu();
  Asked asked = Masked(SpotFile(40, 8, 12));
  asked.differential = true;
  asked.mask_blur = 4;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(asked));
  EXPECT_EQ(plan->spec.strength, 1);
  asked.padding_mask_crop = 4;
  asked.preserve_unmasked = true;
  EXPECT_THAT(FieldsOf(rig.Resolve(asked).status()),
              ElementsAre("padding_mask_crop", "preserve_unmasked"));
  Asked without = Masked("");
  without.differential = true;
  EXPECT_THAT(FieldsOf(rig.Resolve(without).status()), ElementsAre("differential"));
}

TEST(InpaintingTest, ABlackMaskHasNoCrop) {
  const Rig rig = OnCpu();
  Asked asked = Masked(MaskFile(0, 0));
  asked.padding_mask_crop = 100;
  const auto picture = rig.Start(asked);
  absl::Status status;
  while (status.ok() && picture->next != UnitKind::kDone) status = testing::RunUnit(*picture);
  ASSERT_EQ(GetFieldViolations(status).size(), 1u);
  EXPECT_EQ(GetFieldViolations(status)[0].field, "mask_image");
  EXPECT_THAT(GetFieldViolations(status)[0].description, HasSubstr("black all over"));
}

TEST(InpaintingTest, RefusesWhatCannotBePutTogether) {
  const Rig rig = OnCpu();
  Asked asked = Masked(image::Encode({2, 2, std::vector<uint8_t>(12, 255)}, {}).value());
  EXPECT_OK(rig.Resolve(asked));
  asked.padding_mask_crop = 4;
  EXPECT_THAT(FieldsOf(rig.Resolve(asked).status()), ElementsAre("mask_image"));
  asked.inputs.mask_image = SpotFile(0, 0, 9);
  EXPECT_OK(rig.Resolve(asked));
  asked.preserve_unmasked = true;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(asked));
  EXPECT_THAT(plan->warnings, ElementsAre(HasSubstr("preserve_unmasked has no effect")));
  asked.output_latents = true;
  EXPECT_THAT(FieldsOf(rig.Resolve(asked).status()),
              ElementsAre("padding_mask_crop", "preserve_unmasked"));
  asked.output_latents = false;
  asked.mask_blur = 3;
  asked.inputs.mask_image.clear();
  EXPECT_THAT(FieldsOf(rig.Resolve(asked).status()),
              ElementsAre("mask_blur", "padding_mask_crop", "preserve_unmasked"));
}

TEST(InpaintingTest, NamesAMaskThatCannotBeRead) {
  const Rig rig = OnCpu();
  const absl::Status status = rig.Resolve(Masked("no image")).status();
  ASSERT_EQ(GetFieldViolations(status).size(), 1u);
  EXPECT_EQ(GetFieldViolations(status)[0].field, "mask_image");
}

// A checkpoint like the demo's, whose UNet reads a mask and a masked image: its first layer has the
// weights of the latents for them once more, the mask's those of the first channel.
class InpaintingUnetTest : public ::testing::Test {
 protected:
  InpaintingUnetTest() {
    testing::MakeEditedCheckpoint(path_, testing::kDemoBase, "unet/config.json", "in_channels",
                                  "9");
    const std::string file = path_ + "/unet/diffusion_pytorch_model.safetensors";
    const weights::TensorMap tensors = weights::ReadSafetensors(file).value();
    std::vector<testing::TensorToWrite> written;
    for (const auto& [name, tensor] : tensors) {
      written.push_back(name == "conv_in.weight" ? Widened(tensor.data)
                                                 : AsItIs(name, tensor.data));
    }
    std::filesystem::remove(file);
    testing::WriteSafetensors(file, written);
  }

  static testing::TensorToWrite AsItIs(const std::string& name, const device::ConstBuffer& data) {
    const std::string dtype = data.dtype() == device::DType::kF32 ? "F32" : "F16";
    return {name, dtype, data.shape().dims(),
            std::string(static_cast<const char*>(data.data()), data.bytes())};
  }

  static testing::TensorToWrite Widened(const device::ConstBuffer& data) {
    testing::TensorToWrite tensor = AsItIs("conv_in.weight", data);
    const size_t channel = data.bytes() / static_cast<size_t>(data.shape()[0] * data.shape()[1]);
    std::string bytes;
    for (int64_t out = 0; out < data.shape()[0]; ++out) {
      for (const int from : {0, 1, 2, 3, 0, 0, 1, 2, 3}) {
        bytes += tensor.bytes.substr((static_cast<size_t>(out) * 4 + from) * channel, channel);
      }
    }
    tensor.shape[1] = 9;
    tensor.bytes = bytes;
    return tensor;
  }

  const testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("inpainting");
};

TEST_F(InpaintingUnetTest, ReadsTheMaskAndTheImageAroundIt) {
  const Rig rig = OnCpu(path_);
  EXPECT_TRUE(rig.pipeline->table().rows().front().inpaints);
  Asked asked = Masked(MaskFile(0, 255));
  const std::vector<float> drawn = rig.Latents(asked);
  Asked other = asked;
  other.inputs.mask_image = MaskFile(255, 0);
  EXPECT_NE(rig.Latents(other), drawn);
  // With a strength of 1 nothing but the masked image tells it of the image.
  asked.strength = other.strength = 1;
  other.inputs.mask_image = asked.inputs.mask_image;
  other.inputs.image = MaskFile(200, 90);
  EXPECT_NE(rig.Latents(other), rig.Latents(asked));
  // The masked image is grey where it is drawn over.
  other.inputs.mask_image = asked.inputs.mask_image = MaskFile(255, 255);
  EXPECT_EQ(rig.Latents(other), rig.Latents(asked));
}

// Rows that leave and come back at an interval's ends read the mask where they are then.
TEST_F(InpaintingUnetTest, KeepsTheMaskWhereGuidanceEndsAndBegins) {
  const Rig rig = OnCpu(path_);
  Asked always = Masked(MaskFile(0, 255));
  always.guidance_scale = 4;
  Asked half = always;
  half.guidance_interval = {0.4, 0.8};
  Asked never = always;
  never.guidance_scale = 1;
  const std::vector<float> drawn = rig.Latents(half);
  EXPECT_NE(drawn, rig.Latents(always));
  EXPECT_NE(drawn, rig.Latents(never));
  // Guidance that changes nothing: the same prompt for both, so that rows alone differ.
  half.negative_prompt = half.prompt;
  never.negative_prompt = never.prompt;
  const std::vector<float> same = rig.Latents(half), plain = rig.Latents(never);
  for (size_t i = 0; i < same.size(); ++i) ASSERT_NEAR(same[i], plain[i], 1e-3) << i;
}

TEST_F(InpaintingUnetTest, ReadsNoDifferentialMask) {
  const Rig rig = OnCpu(path_);
  Asked asked = Masked(MaskFile(90, 200));
  EXPECT_OK(rig.Resolve(asked));
  asked.differential = true;
  const absl::Status status = rig.Resolve(asked).status();
  EXPECT_THAT(FieldsOf(status), ElementsAre("differential"));
  EXPECT_THAT(GetFieldViolations(status)[0].description, HasSubstr("whose UNet reads no mask"));
}

TEST_F(InpaintingUnetTest, NeedsAMask) {
  const Rig rig = OnCpu(path_);
  for (const bool with_image : {false, true}) {
    Asked asked = Masked("");
    if (!with_image) asked.inputs = {};
    const absl::Status status = rig.Resolve(asked).status();
    ASSERT_EQ(GetFieldViolations(status).size(), 1u);
    EXPECT_EQ(GetFieldViolations(status)[0].field, "mask_image");
    EXPECT_THAT(GetFieldViolations(status)[0].description, HasSubstr("inpainting model"));
  }
}

// As the lane has them in truth.
TEST_F(InpaintingUnetTest, KnowsThePortsOfItsSteps) {
  const Rig rig = OnCpu(path_);
  const auto picture = rig.Start(Masked(MaskFile(0, 255)));
  const auto& step = *picture->stage().steps.begin()->second;
  const std::vector<RowPort> known =
      rig.pipeline->first().graphs().StepPorts(int64_t{4} * kLatentSide * kLatentSide);
  EXPECT_EQ(StepLane::Bytes(known, 3), StepLane::Bytes(StepPortsOf(step.info()), 3));
}

TEST_F(InpaintingUnetTest, IsNoRefiner) {
  testing::MakeEditedCheckpoint(directory_.File("refiner"), testing::kDemoRefiner,
                                "unet/config.json", "in_channels", "9");
  Rig rig;
  EXPECT_THAT(LoadPipeline({.base = testing::kDemoBase, .refiner = directory_.File("refiner")},
                           rig.weights, rig.graphs),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give it as the base")));
}

}  // namespace
}  // namespace latentd::pipeline
