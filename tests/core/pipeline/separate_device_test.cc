// The whole pipeline on a device whose memory it cannot touch and which works as late as it may,
// with two units enqueued at a time: the pictures are those that the host draws at once.
#include "tests/support/separate_device.h"

#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using testing::SeparateDevice;

std::unique_ptr<backends::Backend> CpuOn(device::HostDevice& device) {
  return backends::cpu::CpuBackend::Create({.device = &device}).value();
}

using PendingUnits = std::deque<std::pair<Picture*, PendingUnit>>;

// Finishes the pictures, one after the other, with two units enqueued at a time.
absl::Status TryRunAhead(const std::vector<std::unique_ptr<Picture>>& pictures,
                         device::Stream& stream, PendingUnits& pending) {
  Lanes lanes;
  for (const auto& picture : pictures) {
    while (picture->next != UnitKind::kDone) {
      if (picture->next != UnitKind::kWait) {
        auto unit = EnqueueUnit({picture.get()}, lanes, stream);
        if (!unit.ok()) return unit.status();
        EXPECT_OK(unit->parts[0].status);
        EXPECT_FALSE(unit->done->Reached());
        pending.emplace_back(picture.get(), *std::move(unit));
      }
      if (pending.size() < 2 && picture->next != UnitKind::kWait) continue;
      auto& [first, unit] = pending.front();
      const absl::Status done = CompleteUnit(unit, *first, unit.parts[0]);
      if (!done.ok()) return done;
      pending.pop_front();
    }
  }
  return absl::OkStatus();
}

absl::Status RunAhead(const std::vector<std::unique_ptr<Picture>>& pictures,
                      device::Stream& stream) {
  PendingUnits pending;
  const absl::Status status = TryRunAhead(pictures, stream, pending);
  stream.Synchronize().IgnoreError();  // before the units go
  return status;
}

class SeparateDeviceTest : public ::testing::Test {
 protected:
  // Draws with both; `options` load both.
  void ExpectTheHostsPictures(const Asked& spec, const LoadOptions& options = Demo()) {
    const Rig here(options, "", CpuOn(device::Host()));
    const auto expected = here.Begin(spec).value();
    for (const auto& picture : expected) ASSERT_OK(here.Run(*picture));
    const Rig there(options, "", CpuOn(device_));
    const auto pictures = there.Begin(spec).value();
    const auto stream = device_.NewStream(SystemClock()).value();
    ASSERT_OK(RunAhead(pictures, *stream));
    ASSERT_EQ(pictures.size(), expected.size());
    for (size_t i = 0; i < pictures.size(); ++i) {
      EXPECT_EQ(pictures[i]->pixels, expected[i]->pixels);
      EXPECT_EQ(pictures[i]->decode_redone, expected[i]->decode_redone);
    }
  }

  SeparateDevice device_;
};

TEST_F(SeparateDeviceTest, DrawsWithBaseAndRefiner) {
  PictureSpec spec = SmallSpec();
  spec.refine = true;
  spec.num_inference_steps = 10;
  spec.guidance_rescale = 0.5;
  spec.num_images_per_prompt = 2;
  ExpectTheHostsPictures(spec);
}

// Noise before each step: the host draws it while the step before has not run.
TEST_F(SeparateDeviceTest, DrawsWithNoiseOfEachStep) {
  PictureSpec spec = SmallSpec();
  spec.scheduler.name = "euler_ancestral";
  spec.guidance_scale = 1;
  spec.num_inference_steps = 6;
  ExpectTheHostsPictures(spec);
}

// Rows that come and go, of pictures side by side.
TEST_F(SeparateDeviceTest, DrawsWithGuidanceInSomeSteps) {
  PictureSpec spec = SmallSpec();
  spec.scheduler.name = "euler_ancestral";
  spec.guidance_interval = GuidanceInterval{0.3, 0.7};
  spec.num_inference_steps = 6;
  spec.num_images_per_prompt = 2;
  ExpectTheHostsPictures(spec);
}

TEST_F(SeparateDeviceTest, DrawsFromAnImageInTiles) {
  LoadOptions options = {.base = testing::kDemoBase, .refiner = ""};
  options.vae_tiling_above = 64 * 64;
  Asked spec = SmallSpec();
  const Rig rig({.base = testing::kDemoBase});
  spec.inputs.image = image::Encode(rig.Finish(spec)->pixels, {}).value();
  spec.width = spec.height = 96;
  spec.strength = 0.6;
  spec.clip_skip = 1;
  ExpectTheHostsPictures(spec, options);
}

TEST_F(SeparateDeviceTest, DecodesAgainWhatOverflowed) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "vae", "post_quant_conv.weight", 49152);
  PictureSpec spec = SmallSpec();
  spec.num_images_per_prompt = 2;
  ExpectTheHostsPictures(spec, {.base = path, .precision = {{"vae_decoder", device::DType::kF16}}});
}

TEST_F(SeparateDeviceTest, FailsWhatIsNotFiniteWhenItsUnitEnds) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "unet", "conv_out.bias",
                                  std::numeric_limits<float>::infinity());
  const Rig rig({.base = path}, "", CpuOn(device_));
  const auto pictures = rig.Begin(SmallSpec()).value();
  const auto stream = device_.NewStream(SystemClock()).value();
  const absl::Status status = RunAhead(pictures, *stream);
  EXPECT_EQ(GetReason(status), kNotFinite);
}

TEST_F(SeparateDeviceTest, LeavesNoMemoryOnTheDevice) {
  { ExpectTheHostsPictures(SmallSpec()); }
  EXPECT_EQ(device_.allocations(), 0u);
}

}  // namespace
}  // namespace latentd::pipeline
