// Previews: which steps have one, what it shows, and that pictures are the same with and without.
#include "core/pipeline/picture/preview.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/pipeline/rig.h"
#include "tests/core/pipeline/step_lane_rig.h"
#include "tests/support/separate_device.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using ::testing::ElementsAre;
using ::testing::Pair;

Buffer Floats(device::Shape shape, const std::vector<float>& values) {
  Buffer buffer = Buffer::Allocate(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), buffer.as<float>().begin());
  return buffer;
}

TEST(LatentColorsTest, AreKnownOfAVaeByItsScalingAlone) {
  networks::AutoencoderKlConfig vae;
  vae.scaling_factor = 0.5;
  EXPECT_FALSE(KnownColors(vae).has_value());
  vae.scaling_factor = 0.13025;
  ASSERT_TRUE(KnownColors(vae).has_value());
  EXPECT_EQ(KnownColors(vae)->factors.size(), 4u);
  vae.latents_mean = {0, 0, 0, 0};
  EXPECT_FALSE(KnownColors(vae).has_value());
  EXPECT_FALSE(KnownColors(networks::AutoencoderTinyConfig()).has_value());
}

// Computed by hand from ComfyUI's table (comfy/latent_formats.py).
TEST(LatentColorsTest, AreThoseOfTheVae) {
  const auto color_of = [](double scaling_factor, const std::vector<float>& latents) {
    networks::AutoencoderKlConfig vae;
    vae.scaling_factor = scaling_factor;
    const LatentColors map = KnownColors(vae).value();
    Color color = map.bias;
    for (size_t i = 0; i < latents.size(); ++i) {
      for (size_t c = 0; c < color.size(); ++c) color[c] += latents[i] * map.factors[i][c];
    }
    return std::vector<float>(color.begin(), color.end());
  };
  const auto is = [](const std::vector<float>& color) {
    return ::testing::Pointwise(::testing::FloatNear(1e-5f), color);
  };
  EXPECT_THAT(color_of(0.13025, {1, 2, 3, 4}), is({-0.9763f, -0.2662f, -0.3372f}));
  EXPECT_THAT(color_of(0.18215, {1, 2, 3, 4}), is({-0.6955f, 0.7067f, -1.2618f}));
}

TEST(DrawPreviewTest, AddsWhatWasReadByItsWeightAndShowsTheMiddle) {
  const float no_number = std::numeric_limits<float>::quiet_NaN();
  const Prediction prediction = {.step = 1,
                                 .terms = {{Floats({1, 1, 1, 4}, {9, 1, 2, 9}), 0.5f},
                                           {Floats({1, 1, 1, 4}, {9, 0, no_number, 9}), 1}}};
  const LatentColors colors = {.factors = {{1, 2, -4}}, .bias = {0, 0.5f, 0}};
  // (0.5, 0.5 + 1, -2), of which each is shown from -1 to 1.
  const std::vector<image::Image> drawn = DrawPreview(prediction, colors, {2, 1});
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(drawn[0].rgb, (std::vector<uint8_t>{191, 255, 0, 0, 0, 0}));
}

TEST(DrawPreviewTest, ShowsEachFrameOfAVideo) {
  // Frames one after the other, each with two channels of two latents.
  const Prediction prediction = {
      .step = 1, .terms = {{Floats({1, 6, 1, 2}, {1, -1, 0, 0, 0, 0, 1, -1, -1, 1, -1, 1}), 1}}};
  const LatentColors colors = {.factors = {{1, 0, 0}, {0, 1, -1}}};
  const std::vector<image::Image> drawn = DrawPreview(prediction, colors, {2, 1});
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_EQ(drawn[0].rgb, (std::vector<uint8_t>{255, 128, 128, 0, 128, 128}));
  EXPECT_EQ(drawn[1].rgb, (std::vector<uint8_t>{128, 255, 0, 128, 0, 255}));
  EXPECT_EQ(drawn[2].rgb, (std::vector<uint8_t>{0, 0, 255, 255, 255, 0}));
}

// Correlation of the preview's pixels with those of the picture, as many taken together.
double Correlation(const image::Image& preview, const image::Image& picture) {
  const int scale = picture.width / preview.width;
  std::vector<double> small(preview.rgb.begin(), preview.rgb.end()), large(small.size());
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width * 3; ++x) {
      const int column = x / 3 / scale * 3 + x % 3;
      large[y / scale * preview.width * 3 + column] += picture.rgb[y * picture.width * 3 + x];
    }
  }
  const auto centre = [](std::vector<double>& values) {
    double mean = 0;
    for (double value : values) mean += value / static_cast<double>(values.size());
    for (double& value : values) value -= mean;
  };
  centre(small);
  centre(large);
  double both = 0, of_small = 0, of_large = 0;
  for (size_t i = 0; i < small.size(); ++i) {
    both += small[i] * large[i];
    of_small += small[i] * small[i];
    of_large += large[i] * large[i];
  }
  return both / std::sqrt(of_small * of_large);
}

class PreviewTest : public ::testing::Test {
 protected:
  using Previews = std::vector<std::pair<int, image::Image>>;  // by step

  static void SetUpTestSuite() {
    rig_ = std::make_unique<Rig>(Demo(), "", backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() { rig_.reset(); }

  static PictureSpec Spec(const std::string& scheduler, std::optional<int> previews_every) {
    PictureSpec spec = SmallSpec();
    spec.scheduler.name = scheduler;
    spec.previews_every = previews_every;
    return spec;
  }

  // Draws the picture to its end.
  static Previews Run(Picture& picture) {
    Previews previews;
    Lanes lanes;
    const auto stream = picture.stage().device().NewStream(SystemClock()).value();
    while (picture.next != UnitKind::kDone) {
      auto unit = EnqueueUnit({&picture}, lanes, *stream).value();
      EXPECT_OK(unit.parts[0].status);
      EXPECT_OK(CompleteUnit(unit, picture, unit.parts[0]));
      const Prediction& prediction = unit.parts[0].prediction;
      if (prediction.step == 0) continue;
      const Size size{picture.size().width / 8, picture.size().height / 8};
      previews.emplace_back(prediction.step,
                            DrawPreview(prediction, *picture.request->colors, size).front());
    }
    return previews;
  }

  static std::vector<int> StepsOf(const Previews& previews) {
    std::vector<int> steps;
    for (const auto& [step, image] : previews) steps.push_back(step);
    return steps;
  }

  static inline std::unique_ptr<Rig> rig_;
};

TEST_F(PreviewTest, ComeEveryNStepsAndChangeNothingWithAnyScheduler) {
  for (const char* scheduler : {"euler", "euler_a", "ddim", "dpmpp_2m", "heun", "lcm"}) {
    SCOPED_TRACE(scheduler);
    const auto plain = rig_->Start(Spec(scheduler, std::nullopt));
    EXPECT_TRUE(Run(*plain).empty());
    const auto picture = rig_->Start(Spec(scheduler, 2));
    const Previews previews = Run(*picture);
    EXPECT_THAT(StepsOf(previews), ElementsAre(2, 4));
    EXPECT_EQ(picture->pixels, plain->pixels);
  }
}

// The last step of these ends at what the network predicts.
TEST_F(PreviewTest, ThePredictionOfTheLastStepIsThePicture) {
  for (const char* scheduler : {"euler", "euler_a", "dpmpp_2m", "heun"}) {
    SCOPED_TRACE(scheduler);
    const auto picture = rig_->Start(Spec(scheduler, 4));
    Lanes lanes;
    const auto stream = picture->stage().device().NewStream(SystemClock()).value();
    Prediction prediction;
    while (picture->next != UnitKind::kDecode) {
      auto unit = EnqueueUnit({picture.get()}, lanes, *stream).value();
      EXPECT_OK(CompleteUnit(unit, *picture, unit.parts[0]));
      prediction = unit.parts[0].prediction;
    }
    ASSERT_EQ(prediction.step, 4);
    const std::vector<float> latents = ValuesOf(picture->latents);
    std::vector<float> sum(latents.size());
    for (const Prediction::Term& term : prediction.terms) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += term.weight * term.latents.as<float>()[i];
    }
    EXPECT_THAT(sum, ::testing::Pointwise(::testing::FloatNear(1e-3f), latents));
  }
}

TEST_F(PreviewTest, ResembleThePictureMoreAndMore) {
  PictureSpec spec = Spec("euler", 6);
  spec.width = spec.height = 128;
  spec.num_inference_steps = 12;
  const auto picture = rig_->Start(spec);
  const Previews previews = Run(*picture);
  ASSERT_THAT(StepsOf(previews), ElementsAre(6, 12));
  EXPECT_GT(Correlation(previews[0].second, picture->pixels), 0.3);
  EXPECT_GT(Correlation(previews[1].second, picture->pixels), 0.4);
}

TEST_F(PreviewTest, CountTheStepsOfBothModels) {
  PictureSpec spec = Spec("euler", 3);
  spec.refine = true;
  spec.num_inference_steps = 9;
  const auto picture = rig_->Start(spec);
  EXPECT_THAT(StepsOf(Run(*picture)), ElementsAre(3, 6, 9));
}

TEST_F(PreviewTest, ShowTheMiddleOfALargerBucket) {
  Asked spec = Spec("euler", 4);
  spec.executed_size = Size{80, 72};
  const auto picture = rig_->Start(spec);
  const Previews previews = Run(*picture);
  EXPECT_THAT(previews, ElementsAre(Pair(4, ::testing::_)));
  EXPECT_EQ(previews[0].second.width, 8);
}

TEST_F(PreviewTest, AreNotDrawnWhereThereIsNoWayTo) {
  const testing::TemporaryDirectory directory;
  testing::MakeEditedCheckpoint(directory.File("base"), testing::kDemoBase, "vae/config.json",
                                "scaling_factor", "0.5");
  const Rig other({.base = directory.File("base")}, "",
                  backends::cpu::CpuBackend::Create().value());
  const auto plan = other.pipeline->Resolve(Spec("euler", 2)).value();
  EXPECT_THAT(plan->warnings,
              ElementsAre(::testing::HasSubstr("previews.every_n_steps has no effect")));
  EXPECT_TRUE(rig_->pipeline->Resolve(Spec("euler", 2)).value()->warnings.empty());
  EXPECT_TRUE(Run(*other.Start(Spec("euler", 2))).empty());
}

// Without memory for a step of two rows, a picture takes its steps later, and its previews are then
// those that it has alone.
TEST_F(PreviewTest, OfAPictureThatRestsComeWithTheStepsThatItTakes) {
  const Rig rig({.base = testing::kDemoBase, .row_counts = {1, 2}}, "",
                backends::cpu::CpuBackend::Create().value());
  ModelGraphs& graphs = rig.pipeline->first().graphs();
  rig.kept.push_back(graphs.Find({.shape = {2, 9, 8}}).value());
  ASSERT_OK(graphs.Get(rig.kept.back()));
  PictureSpec spec = Spec("euler_a", 1);
  spec.guidance_scale = 1;
  spec.num_images_per_prompt = 2;
  ASSERT_OK_AND_ASSIGN(const auto pictures, rig.Begin(spec));
  ExecutablePointer& two_rows = pictures[0]->request->stages[0].steps.at(2);
  two_rows = std::make_shared<RefusingExecutable>(two_rows, 2, [](int, Refused what) {
    return what == Refused::kEnqueue ? absl::ResourceExhaustedError("no memory") : absl::OkStatus();
  });
  std::map<uint64_t, Previews> shown;  // by seed
  int rests = 0;
  Lanes lanes;
  const auto stream = pictures[0]->stage().device().NewStream(SystemClock()).value();
  for (const auto& picture : pictures) ASSERT_OK(testing::RunUnit(*picture));
  while (true) {
    std::vector<Picture*> stepping;
    for (const auto& picture : pictures) {
      if (picture->next == UnitKind::kStep) stepping.push_back(picture.get());
    }
    if (stepping.empty()) break;
    auto unit = EnqueueUnit(stepping, lanes, *stream).value();
    for (size_t i = 0; i < stepping.size(); ++i) {
      EXPECT_OK(CompleteUnit(unit, *stepping[i], unit.parts[i]));
      const Prediction& prediction = unit.parts[i].prediction;
      EXPECT_EQ(prediction.step == 0, unit.parts[i].waits);
      rests += unit.parts[i].waits;
      if (prediction.step == 0) continue;
      shown[stepping[i]->seed].emplace_back(
          prediction.step,
          DrawPreview(prediction, *pictures[0]->request->colors, Size{8, 9}).front());
    }
  }
  EXPECT_EQ(rests, 4);
  spec.num_images_per_prompt = 1;
  for (const auto& [seed, previews] : shown) {
    spec.seed = seed;
    EXPECT_EQ(Run(*rig_->Start(spec)), previews);
  }
  EXPECT_EQ(shown.size(), 2u);
}

// The host touches no memory of the device, and waits for what it reads.
TEST_F(PreviewTest, AreTheSameOnADeviceWithMemoryOfItsOwn) {
  testing::SeparateDevice device;
  for (const char* scheduler : {"euler_a", "dpmpp_2m"}) {
    const auto expected = rig_->Start(Spec(scheduler, 1));
    const Rig there(Demo(), "", backends::cpu::CpuBackend::Create({.device = &device}).value());
    const auto picture = there.Start(Spec(scheduler, 1));
    EXPECT_EQ(Run(*picture), Run(*expected));
  }
}

TEST(ShrinkPixelsTest, TakesTheMeanOfSixteenOfTheMiddle) {
  Buffer pixels = Buffer::Allocate(DType::kU8, {1, 6, 10, 3});
  const absl::Span<uint8_t> bytes = pixels.as<uint8_t>();
  std::fill(bytes.begin(), bytes.end(), 255);
  for (int y = 1; y < 5; ++y) {
    for (int x = 1; x < 9; ++x) {
      for (int c = 0; c < 3; ++c) bytes[(y * 10 + x) * 3 + c] = x < 5 ? x * 10 : c;
    }
  }
  const image::Image small = ShrinkPixels(pixels, {8, 4});
  EXPECT_EQ((Size{small.width, small.height}), (Size{2, 1}));
  EXPECT_EQ(small.rgb, (std::vector<uint8_t>{25, 25, 25, 0, 1, 2}));
  EXPECT_EQ(ShrinkPixels(pixels, {10, 6}).width, 10);  // for sides that are no multiples of four
}

}  // namespace
}  // namespace latentd::pipeline
