// Previews by a checkpoint's tiny VAE: what they show, and that pictures are the same with and
// without.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/pipeline/picture/preview.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/separate_device.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using ::testing::ElementsAre;

// The demo checkpoint, and a tiny VAE.
class TinyVaeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<testing::TemporaryDirectory>();
    testing::MakeCheckpointWithTinyVae(Base(), testing::kDemoBase);
    rig_ = std::make_unique<Rig>(WithTinyVae(), "", backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() {
    rig_.reset();
    directory_.reset();
  }

  static std::string Base() { return directory_->File("base"); }
  static LoadOptions WithTinyVae() { return {.base = Base(), .refiner = testing::kDemoRefiner}; }

  static PictureSpec Spec(std::optional<int> previews_every) {
    PictureSpec spec = SmallSpec();
    spec.previews_every = previews_every;
    return spec;
  }

  // A drawn preview.
  struct Drawn {
    int step = 0;
    std::vector<float> latents;  // the latents that it shows
    std::vector<uint8_t> pixels;
    bool operator==(const Drawn&) const = default;
  };

  // Draws the picture to its end, each preview as soon as it can be.
  static std::vector<Drawn> Run(Picture& picture) {
    std::vector<Drawn> drawn;
    Lanes lanes;
    const auto stream = picture.stage().device().NewStream(SystemClock()).value();
    while (picture.next != UnitKind::kDone) {
      auto unit = EnqueueUnit({&picture}, lanes, *stream).value();
      EXPECT_OK(unit.parts[0].status);
      EXPECT_OK(CompleteUnit(unit, picture, unit.parts[0]));
      picture.prediction = unit.parts[0].prediction;
      if (!picture.has_preview()) continue;
      auto preview = EnqueuePreview(picture, *stream).value();
      EXPECT_FALSE(picture.has_preview());
      EXPECT_OK(CompleteUnit(preview, picture, preview.parts[0]));
      const Prediction& prediction = preview.parts[0].prediction;
      const auto pixels = prediction.pixels.as<uint8_t>();
      drawn.push_back(
          {prediction.step, ValuesOf(SumOf(prediction)), {pixels.begin(), pixels.end()}});
    }
    return drawn;
  }

  static inline std::unique_ptr<testing::TemporaryDirectory> directory_;
  static inline std::unique_ptr<Rig> rig_;
};

TEST_F(TinyVaeTest, DrawsEveryNthStepButTheLastAndChangesNothing) {
  const auto plain = rig_->Start(Spec(std::nullopt));
  EXPECT_EQ(plain->request->preview, nullptr);
  EXPECT_TRUE(Run(*plain).empty());
  const auto picture = rig_->Start(Spec(1));
  const std::vector<Drawn> drawn = Run(*picture);
  std::vector<int> steps;
  for (const Drawn& each : drawn) steps.push_back(each.step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
  EXPECT_EQ(picture->pixels, plain->pixels);
}

// The pixels of latents as the UNet has them, by diffusers' network: the golden cases compare it
// with that.
TEST_F(TinyVaeTest, PixelsAreThoseOfTheReferenceBackend) {
  const std::vector<Drawn> drawn = Run(*rig_->Start(Spec(2)));
  ASSERT_EQ(drawn.size(), 1u);
  const Rig reference(WithTinyVae());
  const auto picture = reference.Start(Spec(2));
  Buffer latents = Buffer::Allocate(DType::kF32, picture->request->preview->inputs()[0].shape);
  std::copy(drawn[0].latents.begin(), drawn[0].latents.end(), latents.as<float>().begin());
  const NamedBuffers outputs =
      testing::RunNamed(picture->request->preview, {{"latents", latents}}, {"pixels"}).value();
  const auto expected = outputs.at("pixels").as<uint8_t>();
  ASSERT_EQ(drawn[0].pixels.size(), expected.size());
  int largest = 0;
  std::set<uint8_t> different;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(int{drawn[0].pixels[i]} - int{expected[i]}));
    different.insert(expected[i]);
  }
  EXPECT_LE(largest, 1);  // rounding
  EXPECT_GT(different.size(), 20u);
}

TEST_F(TinyVaeTest, OfTheBaseDrawsTheRefinersStepsToo) {
  PictureSpec spec = Spec(3);
  spec.refine = true;
  spec.num_inference_steps = 9;
  const auto picture = rig_->Start(spec);
  EXPECT_EQ(picture->ahead().stages[0].previews + picture->ahead().stages[1].previews, 2);
  EXPECT_EQ(Run(*picture).size(), 2u);
}

TEST_F(TinyVaeTest, ThatIsOffLeavesPreviewsInColours) {
  LoadOptions options = WithTinyVae();
  options.components["vae_tiny"] = ComponentMode::kOff;
  const Rig off(options, "", backends::cpu::CpuBackend::Create().value());
  EXPECT_TRUE(off.pipeline->PreviewGraphsOf({}, {64, 72})->empty());
  const auto picture = off.Start(Spec(2));
  EXPECT_EQ(picture->request->preview, nullptr);
  EXPECT_TRUE(picture->request->colors.has_value());
  EXPECT_EQ(picture->ahead().stages[0].previews, 0);
}

TEST_F(TinyVaeTest, IsAComponentOfItsOwnWithItsOwnPrecision) {
  LoadOptions options = WithTinyVae();
  options.precision["vae_tiny"] = DType::kBF16;
  const Rig rig(options);
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig.pipeline->PreviewGraphsOf({}, {72, 64}));
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_EQ(compiler::GraphStore::LabelOf(graphs[0]).ToText(), "base vae_tiny 72x64 rows 1 bf16");
}

TEST_F(TinyVaeTest, ForecastsCountWhatIsLeft) {
  PictureSpec spec = Spec(2);
  spec.num_inference_steps = 7;
  const auto picture = rig_->Start(spec);
  std::vector<int> left;
  Lanes lanes;
  const auto stream = picture->stage().device().NewStream(SystemClock()).value();
  while (picture->next != UnitKind::kDone) {
    left.push_back(picture->ahead().stages[0].previews);
    auto unit = EnqueueUnit({picture.get()}, lanes, *stream).value();
    EXPECT_OK(CompleteUnit(unit, *picture, unit.parts[0]));
  }
  // Before the prompts, before each of 7 steps, and before the decode.
  EXPECT_THAT(left, ElementsAre(3, 3, 3, 2, 2, 1, 1, 0, 0));
}

// It asks for no memory that others have, and is not needed.
TEST_F(TinyVaeTest, WithoutMemoryForItPreviewsAreInColours) {
  const auto refusing = [](const compiler::GraphLabel& label, const backends::MemoryNeeds&,
                           const compiler::Eviction&) {
    return label.component == "vae_tiny" ? absl::ResourceExhaustedError("no memory")
                                         : absl::OkStatus();
  };
  metrics::Registry registry;
  const auto backend = backends::cpu::CpuBackend::Create().value();
  weights::WeightStore weights(*backend);
  compiler::GraphStore::Options options;
  options.before_load = refusing;
  compiler::GraphStore graphs(*backend, SystemClock(), registry, nullptr, options);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, LoadPipeline(WithTinyVae(), weights, graphs));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, pipeline->Resolve(Spec(2)));
  EXPECT_TRUE(plan->wants_tiny_vae());
  ASSERT_OK_AND_ASSIGN(const auto pictures, pipeline->Start(plan));
  EXPECT_EQ(pictures[0]->request->preview, nullptr);
}

TEST_F(TinyVaeTest, ThatDoesNotFitTheLatentsIsRefusedByName) {
  const testing::TemporaryDirectory directory;
  testing::MakeEditedCheckpoint(directory.File("base"), Base(), "vae_tiny/config.json",
                                "upsampling_scaling_factor", "1");
  Rig rig;
  const absl::Status refused =
      LoadPipeline({.base = directory.File("base")}, rig.weights, rig.graphs).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("vae_tiny"));
}

TEST_F(TinyVaeTest, IsTheSameOnADeviceWithMemoryOfItsOwn) {
  testing::SeparateDevice device;
  const Rig there(WithTinyVae(), "",
                  backends::cpu::CpuBackend::Create({.device = &device}).value());
  const auto picture = there.Start(Spec(1));
  EXPECT_EQ(Run(*picture), Run(*rig_->Start(Spec(1))));
}

}  // namespace
}  // namespace latentd::pipeline
