// Guidance of an output that is the same everywhere, whose deviation is 0.
#include <cmath>
#include <string>
#include <vector>

#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

// A UNet that answers 0 to everything.
class ConstantOutputTest : public ::testing::Test {
 protected:
  ConstantOutputTest() {
    testing::MakeFilledCheckpoint(directory_.File("base"), "unet",
                                  {"conv_out.weight", "conv_out.bias"}, 0);
  }

  std::vector<float> Latents(double guidance_rescale) const {
    PictureSpec spec = SmallSpec();
    spec.guidance_scale = 5;
    spec.guidance_rescale = guidance_rescale;
    return Rig({.base = directory_.File("base")}).Latents(spec);
  }

  const testing::TemporaryDirectory directory_;
};

// As in diffusers, which then does not compute the deviations at all.
TEST_F(ConstantOutputTest, IsDrawnWithoutRescaling) {
  for (const float value : Latents(0)) ASSERT_TRUE(std::isfinite(value));
}

// The two outputs are equal if rescale_noise_cfg of diffusers divides 0 by 0.
TEST_F(ConstantOutputTest, IsWhatItWasAfterRescaling) { EXPECT_EQ(Latents(0.7), Latents(0)); }

}  // namespace
}  // namespace latentd::pipeline
