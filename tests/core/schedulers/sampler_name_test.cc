#include "core/schedulers/sampler_name.h"

#include <gtest/gtest.h>

namespace latentd::schedulers {
namespace {

TEST(SamplerNameTest, IsTheWebUisWhereItHasOne) {
  EXPECT_EQ(SamplerOf({.name = "euler_a"}), "Euler a");
  EXPECT_EQ(SamplerOf({.name = "pndm"}), "PLMS");
  EXPECT_EQ(SamplerOf({.name = "PNDMScheduler"}), "PLMS");
  const Overrides singlestep = {.name = "dpmpp_2s"}, other = {.name = "another"};
  EXPECT_EQ(SamplerOf(singlestep), "dpmpp_2s");
  EXPECT_EQ(SamplerOf(other), "another");
}

TEST(SamplerNameTest, SaysTheAlgorithm) {
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m_sde"}), "DPM++ 2M SDE");
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m", .algorithm_type = "sde-dpmsolver++"}), "DPM++ 2M SDE");
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m", .algorithm_type = "dpmsolver++"}), "DPM++ 2M");
  EXPECT_EQ(SamplerOf({.name = "euler", .algorithm_type = "sde-dpmsolver++"}), "Euler");
}

TEST(SamplerNameTest, TheGridBehindANameIsTheScheduleType) {
  EXPECT_EQ(SamplerOf({.name = "dpmpp_2m_sde_karras"}), "DPM++ 2M SDE");
  EXPECT_EQ(ScheduleTypeOf({.name = "dpmpp_2m_sde_karras"}), "Karras");
  EXPECT_EQ(ScheduleTypeOf({.name = "euler_sgm_uniform"}), "SGM Uniform");
  EXPECT_EQ(ScheduleTypeOf({.name = "euler", .use_karras_sigmas = true}), "Karras");
  EXPECT_EQ(ScheduleTypeOf({.name = "euler", .use_karras_sigmas = false}), "");
  EXPECT_EQ(ScheduleTypeOf({.name = "another"}), "");
}

}  // namespace
}  // namespace latentd::schedulers
