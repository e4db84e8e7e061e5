// Models that are placed on several devices by the budget of each (--placement=budget).
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/several_devices.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using pipeline::Placement;
using pipeline::Residency;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class PlacementTest : public SeveralDevicesTest {
 protected:
  // Models "base" and "other", of equal sizes and with no weight in common.
  Config TwoModels(Placement placement) {
    testing::MakeCheckpointStoredIn(other_, testing::kDemoBase, device::DType::kF32);
    Config config = SmallConfig();
    config.models = {{.name = "other", .checkpoint = other_}};
    config.placement = placement;
    config.warn = [this](absl::string_view what) { warnings_.emplace_back(what); };
    return config;
  }
  // A budget for one of the two.
  static int64_t BytesForOne() {
    constexpr int64_t kSlack = int64_t{5} << 20;  // as eviction_test.cc has it
    LocalEngine engine(SmallConfig(), *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine.Load());
    const MemoryReport report = engine.memory();
    return report.weight_bytes + report.arena_bytes + report.executable_bytes +
           report.artifact_bytes + kSlack;
  }
  static GenerateSpec SpecFor(const std::string& model) {
    GenerateSpec spec = SmallSpec();
    spec.picture.model = model;
    return spec;
  }
  std::string Draw(const std::string& model) {
    const std::vector<Event> events = RunOn(*engine_, SpecFor(model));
    const std::vector<Image> images = Only<Image>(events);
    EXPECT_THAT(images, SizeIs(1)) << model;
    return images.empty() ? "" : images.front().bytes;
  }
  static std::string DrawAlone(const std::string& checkpoint) {
    Config config = SmallConfig();
    config.base = checkpoint;
    LocalEngine engine(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine.Load());
    return Only<Image>(RunOn(engine, SmallSpec())).front().bytes;
  }
  std::vector<std::string> DevicesOf(const std::string& model) {
    const std::vector<ModelStatus> models = engine_->models().List().value();
    for (const ModelStatus& status : models) {
      if (status.name == model) return status.devices;
    }
    ADD_FAILURE() << "no model " << model;
    return {};
  }

  ::latentd::testing::TemporaryDirectory directory_;
  const std::string other_ = directory_.File("other");
  std::vector<std::string> warnings_;  // told while it loads
};

TEST_F(PlacementTest, ModelsThatFitApartAreServedEachByItsDevice) {
  Config config = TwoModels(Placement::kBudget);
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_THAT(DevicesOf("base"), ElementsAre("device 0"));
  EXPECT_THAT(DevicesOf("other"), ElementsAre("device 1"));
  const std::string base = DrawAlone(SmallConfig().base), other = DrawAlone(other_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Draw("other"), other);
    EXPECT_EQ(devices_[0].runs, 0);
  }
  devices_[1].runs = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Draw("base"), base);
    EXPECT_EQ(devices_[1].runs, 0);
  }
  EXPECT_GT(devices_[0].runs, 0);
  EXPECT_THAT(warnings_, SizeIs(0));
  EXPECT_EQ(Count(metrics::kModelLoaded, "base"), 1);
  EXPECT_EQ(Count(metrics::kModelLoaded, "other"), 1);
  EXPECT_EQ(Count(metrics::kBucketWarm, "64x64"), 1);
}

TEST_F(PlacementTest, WithoutItEachDeviceWouldNeedAllOfThem) {
  Config config = TwoModels(Placement::kAll);
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(Make(config));
  const absl::Status loaded = engine_->Load();
  EXPECT_TRUE(!loaded.ok() || engine_->state() == State::kDegraded) << loaded;
}

TEST_F(PlacementTest, ModelsThatFitTogetherAreOnEachDevice) {
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(TwoModels(Placement::kBudget)));
  EXPECT_THAT(DevicesOf("base"), ElementsAre("device 0", "device 1"));
  EXPECT_THAT(DevicesOf("other"), ElementsAre("device 0", "device 1"));
}

TEST_F(PlacementTest, ADeviceWithMoreRoomTakesWhatTheOtherHasNot) {
  const int64_t one = BytesForOne();
  Config config = TwoModels(Placement::kBudget);
  devices_[0].device.available = one / 4 + MemoryBudget::kReserve;
  devices_[1].device.available = 4 * one + MemoryBudget::kReserve;
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_THAT(DevicesOf("base"), ElementsAre("device 1"));
  EXPECT_THAT(DevicesOf("other"), ElementsAre("device 1"));
}

TEST_F(PlacementTest, WhatHasRoomNowhereIsLoadedOnDemandAndTold) {
  Config config = TwoModels(Placement::kBudget);
  const std::string third = directory_.File("third");
  testing::MakeCheckpointStoredIn(third, testing::kDemoBase, device::DType::kF16);
  config.models.push_back({.name = "third", .checkpoint = third});
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_THAT(warnings_, Contains(HasSubstr("model third, with ")));
  EXPECT_THAT(DevicesOf("third"), SizeIs(0));
  EXPECT_FALSE(Draw("third").empty());
}

TEST_F(PlacementTest, AFaultOfItsDeviceMakesAModelColdOnTheOther) {
  Config config = TwoModels(Placement::kBudget);
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  const std::string drawn = Draw("other");
  devices_[1].on_run.work = [] { return device::FaultError("the test's fault"); };
  const auto failed = Only<Failed>(RunOn(*engine_, SpecFor("other")));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(GetReason(failed[0].status), "DEVICE_FAULT");
  devices_[0].runs = 0;
  EXPECT_EQ(Draw("other"), drawn);
  EXPECT_GT(devices_[0].runs, 0);
  EXPECT_FALSE(Draw("base").empty());
}

TEST_F(PlacementTest, APinnedModelIsPinnedWhereItIs) {
  Config config = TwoModels(Placement::kBudget);
  config.models[0].residency = Residency::kPinned;
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_THAT(DevicesOf("other"), ElementsAre("device 0"));  // before base
  EXPECT_THAT(DevicesOf("base"), ElementsAre("device 1"));
  const std::vector<ModelStatus> models = engine_->models().List().value();
  for (const ModelStatus& status : models) {
    EXPECT_EQ(status.pinned, status.name == "other") << status.name;
  }
}

TEST_F(PlacementTest, AnOperatorLoadsModelsWhereTheyAre) {
  Config config = TwoModels(Placement::kBudget);
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  const auto go_on = [](const WarmProgress&) { return true; };
  for (const GraphSelector& selector :
       {GraphSelector{.all = true}, GraphSelector{.models = {"other"}},
        GraphSelector{.models = {"base"}}, GraphSelector{.buckets = {{64, 64}}}}) {
    ASSERT_OK_AND_ASSIGN(const WarmOutcome warmed,
                         engine_->graphs().Warm(selector, /*dry_run=*/false, go_on));
    EXPECT_EQ(warmed.failed, 0);
    ASSERT_OK(engine_->graphs().Load(selector));
    EXPECT_THAT(DevicesOf("base"), ElementsAre("device 0"));
    EXPECT_THAT(DevicesOf("other"), ElementsAre("device 1"));
  }
}

// A device that the model does not fit on is asked last, though it is free first.
TEST_F(PlacementTest, AModelOnDemandIsLoadedWhereItHasRoomBesideWhatIsPinned) {
  Config config = TwoModels(Placement::kBudget);
  config.models[0].residency = Residency::kPinned;
  const std::string third = directory_.File("third");
  testing::MakeCheckpointStoredIn(third, testing::kDemoBase, device::DType::kF16);
  config.models.push_back(
      {.name = "third", .checkpoint = third, .residency = Residency::kOnDemand});
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_FALSE(Draw("third").empty());
  EXPECT_EQ(devices_[0].runs, 0);
  EXPECT_GT(devices_[1].runs, 0);
}

TEST_F(PlacementTest, AModelThatNoDeviceHasRoomForEndsTheStart) {
  Config config = TwoModels(Placement::kBudget);
  config.memory_bytes = int64_t{16} << 20;
  ASSERT_NO_FATAL_FAILURE(Make(config));
  const absl::Status loaded = engine_->Load();
  EXPECT_TRUE(absl::IsResourceExhausted(loaded)) << loaded;
  EXPECT_THAT(loaded.message(), HasSubstr("--base: the weights need "));
  EXPECT_THAT(loaded.message(), HasSubstr("no device has more than 16777216"));
}

TEST_F(PlacementTest, ABucketIsColdOnceTheOnlyDeviceOfTheFirstModelHasFailed) {
  Config config = TwoModels(Placement::kBudget);
  config.memory_bytes = BytesForOne();
  ASSERT_NO_FATAL_FAILURE(MakeAndLoad(config));
  EXPECT_EQ(Count(metrics::kBucketWarm, "64x64"), 1);
  devices_[0].on_run.work = [] { return device::FaultError("the test's fault"); };
  EXPECT_THAT(Only<Failed>(RunOn(*engine_, SpecFor("base"))), SizeIs(1));
  while (Count(metrics::kDeviceFaulted) == 0) std::this_thread::yield();
  engine_->RefreshMetrics();
  EXPECT_EQ(Count(metrics::kBucketWarm, "64x64"), 0);
}

}  // namespace
}  // namespace latentd::engine
