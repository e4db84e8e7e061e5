// Compiled graphs that outlive a process, and checkpoints that share them.
#include <memory>
#include <string>
#include <utility>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

TEST(RestartTest, DrawsTheSameBytesWithoutCompiling) {
  const testing::TemporaryDirectory cache;
  PictureSpec spec = SmallSpec();
  spec.refine = true;
  image::Image before;
  int64_t compiled = 0;
  {
    const Rig first(Demo(), cache.path());
    before = first.Finish(spec)->pixels;
    compiled = first.compilations();
  }
  EXPECT_GT(compiled, 0);
  const Rig second(Demo(), cache.path());
  EXPECT_EQ(second.Finish(spec)->pixels, before);
  EXPECT_EQ(second.compilations(), 0);
  EXPECT_GE(second.graphs.totals().loads, compiled);
}

TEST(RestartTest, SharesArtifactsBetweenCheckpointsOfOneConfigurationAndNoWeights) {
  const testing::TemporaryDirectory cache, directory;
  const std::string path = directory.File("other");
  testing::MakeDoctoredCheckpoint(path, "unet", "conv_in.bias", 1.0f);
  const LoadOptions demo{.base = testing::kDemoBase}, other{.base = path};
  const image::Image of_demo = Rig(demo).Finish(SmallSpec())->pixels;
  const image::Image of_other = Rig(other).Finish(SmallSpec())->pixels;
  ASSERT_NE(of_demo, of_other);

  EXPECT_EQ(Rig(demo, cache.path()).Finish(SmallSpec())->pixels, of_demo);
  const Rig second(other, cache.path());
  EXPECT_EQ(second.Finish(SmallSpec())->pixels, of_other);
  EXPECT_EQ(second.compilations(), 0);
  EXPECT_EQ(Rig(demo, cache.path()).Finish(SmallSpec())->pixels, of_demo);
}

std::unique_ptr<backends::Backend> Cpu() {
  return backends::cpu::CpuBackend::Create({.threads = 2}).value();
}

std::unique_ptr<backends::Backend> Reference() {
  return std::make_unique<backends::reference::ReferenceBackend>();
}

// How a checkpoint is stored is not in its graphs.
TEST(RestartTest, SharesArtifactsBetweenCopiesInEveryDType) {
  const testing::TemporaryDirectory directory;
  const auto copy = [&](device::DType dtype) {
    const std::string path = directory.File(std::string(device::Name(dtype)));
    testing::MakeCheckpointStoredIn(path, testing::kDemoBase, dtype);
    return path;
  };
  const std::string half = copy(device::DType::kF16), brain = copy(device::DType::kBF16),
                    single = copy(device::DType::kF32);
  for (const auto& [backend, precision] :
       {std::pair(&Reference, device::DType::kF32), std::pair(&Cpu, device::DType::kBF16)}) {
    const testing::TemporaryDirectory cache;
    const auto draw = [&, make = backend, dtype = precision](const std::string& path,
                                                             int64_t* compilations) {
      const Rig rig({.base = path, .precision = {{"unet_base", dtype}}}, cache.path(), make());
      PictureSpec spec = SmallSpec();
      spec.num_inference_steps = 1;
      const image::Image pixels = rig.Finish(spec)->pixels;
      *compilations = rig.compilations();
      return pixels;
    };
    int64_t of_half = 0, of_brain = 0, of_single = 0;
    const image::Image pixels = draw(half, &of_half);
    EXPECT_NE(draw(brain, &of_brain), pixels);
    EXPECT_EQ(draw(single, &of_single), pixels);  // float32 has all numbers of float16
    EXPECT_GT(of_half, 0);
    EXPECT_EQ(of_brain, 0);
    EXPECT_EQ(of_single, 0);
  }
}

TEST(RestartTest, ServesTwoCheckpointsFromOneStore) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("other");
  testing::MakeDoctoredCheckpoint(path, "unet", "conv_in.bias", 1.0f);
  const image::Image of_other = Rig({.base = path}).Finish(SmallSpec())->pixels;
  Rig rig({.base = testing::kDemoBase});
  const image::Image of_demo = rig.Finish(SmallSpec())->pixels;
  const int64_t compiled = rig.compilations();
  const auto first =
      std::exchange(rig.pipeline, LoadPipeline({.base = path}, rig.weights, rig.graphs).value());
  EXPECT_EQ(rig.Finish(SmallSpec())->pixels, of_other);
  EXPECT_NE(of_other, of_demo);
  EXPECT_EQ(rig.compilations(), compiled);
}

}  // namespace
}  // namespace latentd::pipeline
