#include "core/schedulers/sampler_name.h"

#include <gtest/gtest.h>

namespace latentd::schedulers {
namespace {

TEST(SamplerNameTest, IsTheWebUisWhereItHasOne) {
  EXPECT_EQ(SamplerOf({.name = "euler_a"}), "Euler a");
  EXPECT_EQ(SamplerOf({.name = "pndm"}), "PLMS");
  EXPECT_EQ(SamplerOf({.name = "PNDMScheduler"}), "PLMS");
  const Overrides deis = {.name = "deis"}, other = {.name = "another"};
  EXPECT_EQ(SamplerOf(deis), "deis");
  EXPECT_EQ(SamplerOf(other), "another");
}

TEST(SamplerNameTest, SaysTheAlgorithm) {
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m_sde"}), "DPM++ 2M SDE");
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m", .algorithm_type = "sde-dpmsolver++"}), "DPM++ 2M SDE");
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m", .algorithm_type = "dpmsolver++"}), "DPM++ 2M");
  EXPECT_EQ(SamplerOf({.name = "euler", .algorithm_type = "sde-dpmsolver++"}), "Euler");
}

}  // namespace
}  // namespace latentd::schedulers
