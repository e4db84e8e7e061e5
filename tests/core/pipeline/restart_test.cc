// Compiled graphs that outlive a process, and checkpoints that share them.
#include <utility>

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
