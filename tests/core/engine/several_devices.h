// An engine of two devices. They are the tests' own, and held back by a gate each: what a device is
// at does not end before a test lets it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/device_fault.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {

// Counts what its driver would be asked for.
class CountedDevice : public ::latentd::testing::SeparateDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override {
    ++calls;
    if (fails) return device::FaultError("the test's fault");
    return ::latentd::testing::SeparateDevice::Allocate(dtype, std::move(shape), place);
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(const Clock& clock) override {
    ++calls;
    return ::latentd::testing::SeparateDevice::NewStream(clock);
  }
  absl::StatusOr<AvailableMemory> Available() const override {
    ++calls;
    if (available > 0) return AvailableMemory{available, "the test"};
    return ::latentd::testing::SeparateDevice::Available();
  }
  device::DeviceMemory Memory() const override {
    ++calls;
    return ::latentd::testing::SeparateDevice::Memory();
  }
  void GiveBack(device::Kept what) override {
    ++calls;
    ::latentd::testing::SeparateDevice::GiveBack(what);
  }

  mutable std::atomic<int> calls = 0;
  std::atomic<bool> fails = false;     // to allocate, with a fault
  std::atomic<int64_t> available = 0;  // 0: as much as the host has
};

struct TestDevice {
  CountedDevice device;
  Gate gate;  // holds every run
  std::atomic<int> runs = 0;
  std::atomic<bool> given_up = false;
  OnRun on_run = {.enqueue = [this] {
    ++runs;
    gate.Pass();
  }};
  std::function<absl::Status(const graph::Graph&)>
      plan;  // an error is of planning the graph; may be empty
};

class TestBackend : public RunWatch {
 public:
  explicit TestBackend(TestDevice& device)
      : RunWatch(device.on_run, device.device), device_(device) {}

  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    if (device_.plan) {
      if (absl::Status failed = device_.plan(graph); !failed.ok()) return failed;
    }
    return RunWatch::MakePlan(graph);
  }

 private:
  TestDevice& device_;
};

// A place in a device's queue.
struct Request {
  uint64_t handle = 0;
  std::shared_ptr<::latentd::testing::RecordingSink> sink =
      std::make_shared<::latentd::testing::RecordingSink>();
};

class SeveralDevicesTest : public ::testing::Test {
 protected:
  ~SeveralDevicesTest() override {
    for (TestDevice& device : devices_) device.gate.Open();
    engine_.reset();
  }

  void Make(const Config& config = SmallConfig(), const Clock& clock = SystemClock()) {
    std::vector<LocalEngine::Device> devices;
    for (int i = 0; i < 2; ++i) {
      devices.push_back({i, std::make_unique<TestBackend>(devices_[i]),
                         [this, i] { devices_[i].given_up = true; }});
    }
    ASSERT_OK_AND_ASSIGN(engine_, LocalEngine::Create(config, std::move(devices), clock));
  }
  void MakeAndLoad(const Config& config = SmallConfig()) {
    ASSERT_NO_FATAL_FAILURE(Make(config));
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady) << engine_->status().reason;
    for (TestDevice& device : devices_) device.runs = 0;
  }

  // Either device may take it, if both are free.
  Request Submit(const GenerateSpec& spec = SmallSpec()) {
    Request request;
    const absl::StatusOr<uint64_t> handle = engine_->Submit(spec, request.sink);
    EXPECT_OK(handle);
    request.handle = handle.value_or(0);
    return request;
  }
  // One on each device, where they wait for the gates.
  std::pair<Request, Request> HoldBoth() {
    for (TestDevice& device : devices_) device.gate.Close();
    std::pair<Request, Request> held = {Submit(), Submit()};
    for (TestDevice& device : devices_) device.gate.WaitForSomebody();
    return held;
  }
  // One on either device, where it waits for the gate. The other device is free.
  size_t HoldOne(Request& held) {
    for (TestDevice& device : devices_) {
      device.gate.Close();
      device.runs = 0;
    }
    held = Submit();
    while (devices_[0].runs + devices_[1].runs == 0) std::this_thread::yield();
    const size_t device = devices_[0].runs > 0 ? 0 : 1;
    devices_[1 - device].gate.Open();
    return device;
  }
  // One on that device, where it waits for the gate. The other device is free: one of the two has
  // ended.
  void HoldOn(size_t device, std::pair<Request, Request>& held) {
    const double ended = Count(metrics::kRequestsFinished);
    held = HoldBoth();
    devices_[1 - device].gate.Open();
    while (Count(metrics::kRequestsFinished) == ended) std::this_thread::yield();
  }
  double Count(const metrics::Family& family, const std::string& label = "") {
    return MetricOf(*engine_, family, label);
  }
  void ExpectCountsAddUp() {
    EXPECT_EQ(Count(metrics::kRequestsReceived),
              Count(metrics::kRequestsRejected) + Count(metrics::kRequestsInFlight) +
                  Count(metrics::kRequestsFinished) + Count(metrics::kRequestsCancelled) +
                  Count(metrics::kDeadlineMisses));
  }

  std::array<TestDevice, 2> devices_;
  ::latentd::testing::FakeClock clock_;  // clock of engines that are made with it
  std::unique_ptr<LocalEngine> engine_;
};

}  // namespace latentd::engine
