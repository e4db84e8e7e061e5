#include "core/engine/models/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::engine {
namespace {

using ::testing::ElementsAre;

TEST(MemoryReportTest, CountsASharedWeightForEachComponentAndOnceInTheSum) {
  MemoryReport report;
  AddWeights({{.key = "1", .bytes = 10, .components = {"vae"}, .sets = {"base", "refiner"}},
              {.key = "2", .bytes = 5, .mapped = true, .components = {"unet"}, .sets = {"base"}}},
             {}, report);
  EXPECT_EQ(report.weight_bytes, 15);
  EXPECT_EQ(report.mapped_bytes, 5);
  ASSERT_EQ(report.weights.size(), 2u);
  EXPECT_EQ(report.weights[0].component, "unet");
  EXPECT_EQ(report.weights[0].model, "base");
  EXPECT_EQ(report.weights[0].shared_bytes, 0);
  EXPECT_EQ(report.weights[1].component, "vae");
  EXPECT_EQ(report.weights[1].model, "");
  EXPECT_EQ(report.weights[1].bytes, 10);
  EXPECT_EQ(report.weights[1].shared_bytes, 10);
  EXPECT_THAT(report.weights[1].users, ElementsAre("base", "refiner"));
}

// Two users of one executable: only the first one asked for weights.
TEST(MemoryReportTest, WhoUsesAGraphAndHoldsNoWeightsForItSharesThem) {
  compiler::GraphStatus decoder{.id = "1", .label = {.component = "vae_decoder"}};
  decoder.users = {"base", "refiner"};
  decoder.state = compiler::GraphState::kReady;
  const std::vector<weights::WeightInfo> held = {
      {.key = "1", .bytes = 10, .components = {"vae"}, .sets = {"base"}}};
  MemoryReport report;
  AddWeights(held, {decoder}, report);
  ASSERT_EQ(report.weights.size(), 1u);
  EXPECT_THAT(report.weights[0].users, ElementsAre("base", "refiner"));
  EXPECT_EQ(report.weights[0].shared_bytes, 10);
}

TEST(MemoryReportTest, ReadsWhatTheKernelSays) {
  EXPECT_EQ(ParsePeakResident("Name:\tlatentd\nVmHWM:\t    1024 kB\nVmRSS:\t 12 kB\n"), 1 << 20);
  EXPECT_EQ(ParsePeakResident("Name:\tlatentd\n"), 0);
}

}  // namespace
}  // namespace latentd::engine
