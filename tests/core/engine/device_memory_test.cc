// A device with memory of its own: what it has left decides what is loaded, not what the host has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/status_macros.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

using pipeline::BucketPolicy;

// Computes in the host's memory and says that it has its own.
class OwnMemory : public device::HostDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override {
    ASSIGN_OR_RETURN(const device::Buffer memory,
                     HostDevice::Allocate(dtype, std::move(shape), place));
    if (place != device::Place::kDevice) return memory;
    const auto bytes = static_cast<int64_t>(memory.bytes());
    Take(bytes);
    std::shared_ptr<void> owner(memory.data(), [this, memory, bytes](void*) { Take(-bytes); });
    return device::Buffer::Wrap(memory.data(), dtype, memory.shape(), std::move(owner), place);
  }
  absl::StatusOr<AvailableMemory> Available() const override {
    return AvailableMemory{left, "the test's device"};
  }
  bool SharesHostMemory() const override { return false; }
  device::DeviceMemory Memory() const override {
    return {.total = kTotal, .free = left, .idle = kIdle, .pinned = kPinned};
  }

  static constexpr int64_t kTotal = int64_t{4} << 30, kIdle = 1 << 20, kPinned = 3 << 20;
  std::atomic<int64_t> left = int64_t{1} << 30;
  std::atomic<bool> counts = false;  // from then on what is taken is missing of it

 private:
  void Take(int64_t bytes) {
    if (counts) left -= bytes;
  }
};

class DeviceMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<LocalEngine> Engine(Config config = SmallConfig()) {
    return std::make_unique<LocalEngine>(
        std::move(config), *backends::cpu::CpuBackend::Create({.device = &device_}), SystemClock());
  }
  OwnMemory device_;
};

TEST_F(DeviceMemoryTest, WeightsThatItHasNoRoomForAreRefused) {
  device_.left = 1 << 20;
  EXPECT_THAT(Engine()->Load(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("1048576 are available (the test's device)")));
}

TEST_F(DeviceMemoryTest, IsTheBudgetAndWhatAdmissionLooksAt) {
  const auto engine = Engine();
  ASSERT_OK(engine->Load());
  const MemoryReport report = engine->memory();
  EXPECT_EQ(report.available_bytes, device_.left);
  EXPECT_EQ(report.budget_bytes, device_.left - MemoryBudget::kReserve);
  device_.left = MemoryBudget::kReserve;
  const auto failed = Only<Failed>(RunOn(*engine, SpecOf({96, 64}, BucketPolicy::kColdOk)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(GetReason(failed[0].status), "OUT_OF_MEMORY");
  EXPECT_THAT(failed[0].status.message(), HasSubstr("and the test's device has "));
  device_.left = int64_t{1} << 30;
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf({96, 64}, BucketPolicy::kColdOk))).size(), 1u);
}

TEST_F(DeviceMemoryTest, IsReportedBesideTheHosts) {
  const auto engine = Engine();
  ASSERT_OK(engine->Load());
  const MemoryReport report = engine->memory();
  ASSERT_EQ(report.devices.size(), 1u);
  const DeviceMemoryReport& device = report.devices[0];
  EXPECT_EQ(device.name, "the test's device");
  EXPECT_EQ(device.total_bytes, OwnMemory::kTotal);
  EXPECT_EQ(device.free_bytes, device_.left);
  EXPECT_EQ(device.held_bytes, report.on_device());
  EXPECT_EQ(device.idle_bytes, OwnMemory::kIdle);
  // Together with what is idle they are what is in use, as the driver says.
  EXPECT_EQ(report.on_device() + device.other_bytes,
            OwnMemory::kTotal - device_.left - OwnMemory::kIdle);
  EXPECT_GT(report.on_device(), 0);
  EXPECT_GT(report.on_host(), 0);
  EXPECT_EQ(report.pinned_bytes, OwnMemory::kPinned);
  EXPECT_GT(report.host_available_bytes, 0);
  EXPECT_NE(report.host_available_bytes, report.available_bytes);
}

// As where the driver does not answer.
TEST_F(DeviceMemoryTest, WhatElseIsInUseIsNeverLessThanNothing) {
  const auto engine = Engine();
  ASSERT_OK(engine->Load());
  device_.left = OwnMemory::kTotal - 1;
  EXPECT_EQ(engine->memory().devices[0].other_bytes, 0);
}

TEST_F(DeviceMemoryTest, MetricsSayWhereBytesLie) {
  const auto engine = Engine();
  ASSERT_OK(engine->Load());
  engine->RefreshMetrics();
  const MemoryReport report = engine->memory();
  const auto at = [&](const metrics::Family& family, const char* place) {
    return static_cast<int64_t>(MetricOf(*engine, family, place));
  };
  EXPECT_EQ(at(metrics::kMemoryBytes, "device"), report.on_device());
  EXPECT_EQ(at(metrics::kMemoryBytes, "host"), report.on_host());
  EXPECT_EQ(at(metrics::kMemoryPredicted, "device"), report.predicted.total());
  EXPECT_EQ(at(metrics::kMemoryPredicted, "host"), 0);
  EXPECT_EQ(at(metrics::kMemoryBudget, "device"), report.budget_bytes);
  EXPECT_EQ(at(metrics::kMemoryBudget, "host"), 0);
  EXPECT_EQ(at(metrics::kMemoryAvailable, "device"), device_.left);
  EXPECT_GT(at(metrics::kMemoryAvailable, "host"), 0);
  EXPECT_EQ(MetricOf(*engine, metrics::kDeviceMemoryTotal, "0"), OwnMemory::kTotal);
  EXPECT_EQ(MetricOf(*engine, metrics::kDeviceMemoryFree, "0"), device_.left);
  EXPECT_EQ(MetricOf(*engine, metrics::kDeviceMemoryHeld, "weights"),
            MetricOf(*engine, metrics::kMemoryBytes, "weights"));
  EXPECT_EQ(MetricOf(*engine, metrics::kPinnedMemory), OwnMemory::kPinned);
}

class KeptTensorsOfAdaptersTest : public DeviceMemoryTest {
 protected:
  KeptTensorsOfAdaptersTest() {
    for (const char* name : {"kohya", "diffusers"}) {
      const std::string file = absl::StrCat(name, ".safetensors");
      std::filesystem::copy_file(
          ::latentd::testing::SourcePath(absl::StrCat("tests/golden/loras/", file)),
          folder_.File(file));
    }
  }

  Config WithAdapters() const {
    Config config = SmallConfig();
    config.adapters = folder_.path();
    return config;
  }

  static GenerateSpec With(const std::string& adapter, GenerateSpec spec = SmallSpec()) {
    spec.picture.adapters = {{adapter, 0.8}};
    return spec;
  }

  static std::string Draw(LocalEngine& engine, GenerateSpec spec) {
    const std::vector<Image> images = Only<Image>(RunOn(engine, std::move(spec)));
    if (images.size() != 1) return "";
    return images.front().bytes.substr(images.front().bytes.find("IDAT"));  // behind the texts
  }

  static int64_t KeptBy(LocalEngine& engine) { return engine.memory().kept_tensor_bytes; }

  const ::latentd::testing::TemporaryDirectory folder_;
};

TEST_F(KeptTensorsOfAdaptersTest, StayForTheNextSetAndAreCounted) {
  const auto engine = Engine(WithAdapters());
  ASSERT_OK(engine->Load());
  ASSERT_NE(Draw(*engine, SmallSpec()), "");
  EXPECT_EQ(KeptBy(*engine), 0);
  ASSERT_NE(Draw(*engine, With("kohya")), "");
  const int64_t kept = KeptBy(*engine);
  EXPECT_GT(kept, 0);
  const std::string drawn = Draw(*engine, With("diffusers"));
  EXPECT_GE(KeptBy(*engine), kept);
  engine->RefreshMetrics();
  for (const metrics::Family* family : {&metrics::kMemoryBytes, &metrics::kDeviceMemoryHeld}) {
    EXPECT_EQ(MetricOf(*engine, *family, "kept_tensors"), KeptBy(*engine));
  }
  // The host reads the files anew.
  LocalEngine on_host(WithAdapters(), *backends::cpu::CpuBackend::Create({}), SystemClock());
  ASSERT_OK(on_host.Load());
  EXPECT_EQ(Draw(on_host, With("diffusers")), drawn);
  EXPECT_EQ(KeptBy(on_host), 0);
}

TEST_F(KeptTensorsOfAdaptersTest, LeaveForAGraphThatFitsWithoutThem) {
  const auto engine = Engine(WithAdapters());
  ASSERT_OK(engine->Load());
  ASSERT_NE(Draw(*engine, With("kohya")), "");
  const int64_t before = KeptBy(*engine);
  ASSERT_GT(before, 0);
  const GenerateSpec cold = SpecOf({96, 64}, BucketPolicy::kColdOk);
  // Nothing fits: they would leave in vain.
  device_.left = MemoryBudget::kReserve;
  ASSERT_EQ(Only<Failed>(RunOn(*engine, cold)).size(), 1u);
  device_.counts = true;
  EXPECT_EQ(KeptBy(*engine), before);
  // Each time what was refused lacks one byte: the picture's own memory, then its graphs. As long
  // as one of them is refused nothing is loaded, and a question drops nothing.
  for (int refusals = 0; refusals < 20; ++refusals) {
    const auto failed = Only<Failed>(RunOn(*engine, cold));
    if (failed.empty()) break;
    EXPECT_EQ(KeptBy(*engine), before);
    const std::vector<ErrorFact> facts = GetFacts(failed[0].status);
    ASSERT_EQ(facts.size(), 2u) << failed[0].status;
    device_.left = MemoryBudget::kReserve + std::stoll(facts[0].value) - 1;
  }
  EXPECT_LT(KeptBy(*engine), before);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, cold)).size(), 1u);
}

// One memory, of which the report does not make two.
TEST(HostMemoryTest, IsTheDevicesToo) {
  LocalEngine engine(SmallConfig(), *backends::cpu::CpuBackend::Create({}), SystemClock());
  ASSERT_OK(engine.Load());
  engine.RefreshMetrics();
  const MemoryReport report = engine.memory();
  EXPECT_TRUE(report.devices.empty());
  EXPECT_EQ(report.pinned_bytes, 0);
  EXPECT_EQ(report.host_available_bytes, report.available_bytes);
  EXPECT_EQ(MetricOf(engine, metrics::kMemoryBytes, "device"), 0);
  EXPECT_EQ(static_cast<int64_t>(MetricOf(engine, metrics::kMemoryBytes, "host")),
            report.on_device() + report.on_host());
  EXPECT_EQ(static_cast<int64_t>(MetricOf(engine, metrics::kMemoryPredicted, "host")),
            report.predicted.total());
  EXPECT_EQ(static_cast<int64_t>(MetricOf(engine, metrics::kMemoryBudget, "host")),
            report.budget_bytes);
  EXPECT_EQ(MetricOf(engine, metrics::kMemoryBudget, "device"), 0);
  EXPECT_GT(MetricOf(engine, metrics::kMemoryAvailable, "host"), 0);
  EXPECT_EQ(MetricOf(engine, metrics::kDeviceMemoryTotal), 0);
}

TEST_F(DeviceMemoryTest, PicturesShareNoStepsThatThereIsNoRoomForNow) {
  Config config = SmallConfig();
  config.rows = {1, 2, 4};
  config.load_waits_for_shared_steps = true;
  const auto engine = Engine(config);
  ASSERT_OK(engine->Load());
  GenerateSpec spec = SmallSpec(/*steps=*/3);
  spec.picture.num_images_per_prompt = 4;
  const auto evaluations = [&] { return HistogramOf(engine->metrics(), metrics::kStepRows).first; };
  EXPECT_EQ(Only<Image>(RunOn(*engine, spec)).size(), 4u);
  EXPECT_EQ(evaluations(), 3);
  device_.left = MemoryBudget::kReserve;
  EXPECT_EQ(Only<Image>(RunOn(*engine, spec)).size(), 4u);
  EXPECT_EQ(evaluations(), 3 + 4 * 3);
}

// The host keeps an artifact for each compiled graph.
TEST_F(DeviceMemoryTest, WhatTheHostHoldsTakesNoneOfIt) {
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {96, 64}, {64, 96}};
  const auto first = Engine(config);
  ASSERT_OK(first->Load());
  const MemoryReport held = first->memory();
  // Beside a weight, at most; which of them is made last is up to the threads.
  constexpr int64_t kWhileMade = 1536 << 10;
  ASSERT_GT(held.artifact_bytes + held.definition_bytes, kWhileMade);
  // Just what the buckets need on the device.
  config.memory_bytes = held.predicted.total() + kWhileMade;
  const auto second = Engine(config);
  ASSERT_OK(second->Load());
  EXPECT_EQ(second->state(), State::kReady) << second->status().reason;
}

}  // namespace
}  // namespace latentd::engine
