// The configurations of schedulers that single files get, which have none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/schedulers/config.h"
#include "core/schedulers/schedule.h"
#include "core/weights/containers/recognize/file_family.h"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

using ::testing::IsEmpty;
using weights::FileFamily;
using weights::NoisePrediction;

constexpr FileFamily kFileFamilies[] = {FileFamily::kSd1, FileFamily::kSd2, FileFamily::kXlBase,
                                        FileFamily::kXlRefiner};

SchedulerConfig ConfigOf(FileFamily family, NoisePrediction prediction) {
  auto config = ParseSchedulerConfig(weights::SchedulerConfigOf(family, prediction));
  EXPECT_OK(config);
  return config.value_or(SchedulerConfig());
}

TEST(SingleFileConfigsTest, AreReadWhole) {
  for (const FileFamily family : kFileFamilies) {
    for (const NoisePrediction prediction :
         {NoisePrediction::kEpsilon, NoisePrediction::kVelocity, NoisePrediction::kVelocityZeroSnr,
          NoisePrediction::kEdm}) {
      const SchedulerConfig config = ConfigOf(family, prediction);
      EXPECT_THAT(config.unknown_fields, IsEmpty());
      ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                           MakeSchedule(config, {.num_inference_steps = 20}));
      EXPECT_EQ(schedule.denoising_steps(), 20);
    }
  }
}

TEST(SingleFileConfigsTest, SayHowNoiseIsPredicted) {
  for (const FileFamily family : kFileFamilies) {
    EXPECT_EQ(ConfigOf(family, NoisePrediction::kEpsilon).prediction_type,
              PredictionType::kEpsilon);
    EXPECT_EQ(ConfigOf(family, NoisePrediction::kVelocity).prediction_type,
              PredictionType::kVPrediction);
    EXPECT_FALSE(ConfigOf(family, NoisePrediction::kVelocity).rescale_betas_zero_snr);
    const SchedulerConfig zero = ConfigOf(family, NoisePrediction::kVelocityZeroSnr);
    EXPECT_EQ(zero.prediction_type, PredictionType::kVPrediction);
    EXPECT_TRUE(zero.rescale_betas_zero_snr);
    // Another spacing would not begin where there is no signal.
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, MakeSchedule(zero, {.num_inference_steps = 20}));
    EXPECT_EQ(schedule.steps.front().timestep, 999);
  }
}

}  // namespace
}  // namespace latentd::schedulers
