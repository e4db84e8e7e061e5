#include "core/engine/reports/device_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::SizeIs;

const std::vector<std::string> kDevices = {"device 0", "device 1"};

TEST(DeviceReportsTest, AGraphIsShownOnceAsFarAsWhereItIsLeastFar) {
  const GraphEntry ready{.id = "a", .state = GraphState::kReady, .device_bytes = 10, .hits = 1};
  GraphEntry cold = ready;
  cold.state = GraphState::kCold;
  cold.reason = "evicted";
  cold.device_bytes = 0;
  cold.pinned = true;
  for (const bool is_second : {false, true}) {
    const auto merged =
        MergeEntries(kDevices, std::vector<std::vector<GraphEntry>>{{is_second ? ready : cold},
                                                                    {is_second ? cold : ready}});
    ASSERT_THAT(merged, SizeIs(1));
    EXPECT_EQ(merged[0].state, GraphState::kCold);
    EXPECT_EQ(merged[0].reason, is_second ? "device 1: evicted" : "device 0: evicted");
    EXPECT_EQ(merged[0].device_bytes, 10);
    EXPECT_EQ(merged[0].hits, 2);
    EXPECT_TRUE(merged[0].pinned);
  }
  const auto same = MergeEntries(kDevices, std::vector<std::vector<GraphEntry>>{{cold}, {cold}});
  EXPECT_EQ(same[0].reason, "evicted");
}

TEST(DeviceReportsTest, AFailureOfOneDeviceIsTheGraphsAndKeepsItsReason) {
  const EntryResult good{.id = "a"};
  EntryResult bad = good;
  bad.status = WithReason(absl::ResourceExhaustedError("no room"), "OUT_OF_MEMORY");
  const auto merged = MergeResults(kDevices, std::vector<std::vector<EntryResult>>{{good}, {bad}});
  ASSERT_THAT(merged, SizeIs(1));
  EXPECT_THAT(merged[0].status,
              StatusIs(absl::StatusCode::kResourceExhausted, "device 1: no room"));
  EXPECT_EQ(GetReason(merged[0].status), "OUT_OF_MEMORY");
}

TEST(DeviceReportsTest, MemoryIsTheSumButForWhatIsTheProcesss) {
  MemoryReport one;
  one.weights = {{"base", "unet", 5, 1, {"base"}}};
  one.weight_bytes = 5;
  one.kept_tensor_bytes = 6;
  one.resident_bytes = one.host_available_bytes = 7;
  one.pinned_bytes = 2;
  one.budget_bytes = 9;
  one.predicted.weights = 4;
  one.devices = {{.name = "a GPU", .total_bytes = 80}};
  MemoryReport other = one;
  other.weights.push_back({"", "vae", 3, 0, {"refiner"}});
  const MemoryReport all = MergeReports(kDevices, {one, other});
  EXPECT_EQ(all.weight_bytes, 10);
  EXPECT_EQ(all.kept_tensor_bytes, 12);
  EXPECT_EQ(all.pinned_bytes, 4);
  EXPECT_EQ(all.budget_bytes, 18);
  EXPECT_EQ(all.resident_bytes, 7);
  EXPECT_EQ(all.host_available_bytes, 7);
  EXPECT_EQ(all.predicted.weights, 8);
  ASSERT_THAT(all.weights, SizeIs(2));
  EXPECT_EQ(all.weights[0].model, "base");
  EXPECT_EQ(all.weights[0].bytes, 10);
  EXPECT_EQ(all.weights[0].shared_bytes, 2);
  EXPECT_EQ(all.weights[1].component, "vae");
  ASSERT_THAT(all.devices, SizeIs(2));
  EXPECT_EQ(all.devices[0].name, "device 0: a GPU");
  EXPECT_EQ(all.devices[1].name, "device 1: a GPU");
  EXPECT_EQ(all.devices[1].total_bytes, 80);
}

}  // namespace
}  // namespace latentd::engine
