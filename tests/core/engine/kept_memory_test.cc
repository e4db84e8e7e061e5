// Memory that a device keeps for reuse: trimmed when the start is over, and when it stays unused;
// memory that pictures reuse again and again stays.
#include "core/engine/prepare/kept_memory.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/keeping_device.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::KeepingDevice;

class KeptMemoryTest : public ::testing::Test {
 protected:
  KeptMemoryTest() {
    Config config = SmallConfig();
    config.rows = {1, 2, 4};
    config.load_waits_for_shared_steps = true;
    engine_ = std::make_unique<LocalEngine>(
        config, *backends::cpu::CpuBackend::Create({.device = &device_}), clock_);
    EXPECT_OK(engine_->Load());
  }

  int64_t idle_bytes() { return engine_->memory().devices[0].idle_bytes; }
  void Draw() { EXPECT_EQ(Only<Completed>(RunOn(*engine_, SmallSpec())).size(), 1u); }
  // As a server does that ticks.
  void Wait(absl::Duration time) {
    clock_.Advance(time);
    engine_->GiveBackMemory();
  }
  // The same, where it is due.
  void WaitAndGiveBack() {
    Wait(KeptMemory::kUnused);
    ASSERT_TRUE(device_.WaitUntilToldToGiveBack(++told_));
  }

  KeepingDevice device_;
  FakeClock clock_;
  std::unique_ptr<LocalEngine> engine_;
  int told_ = 1;  // by the start
};

TEST_F(KeptMemoryTest, NothingIsKeptOfWhatTheStartTook) {
  EXPECT_GT(device_.driver_calls(), 0);
  EXPECT_TRUE(device_.WaitUntilToldToGiveBack(told_));
  EXPECT_EQ(idle_bytes(), 0);
}

TEST_F(KeptMemoryTest, PicturesThatComeAgainFindWhatTheLastOneTook) {
  Draw();
  Draw();
  const int driver_calls = device_.driver_calls();
  EXPECT_GT(idle_bytes(), 0);
  for (int minute = 0; minute < 3; ++minute) {
    WaitAndGiveBack();
    Draw();
    EXPECT_EQ(device_.driver_calls(), driver_calls) << "minute " << minute;
  }
}

TEST_F(KeptMemoryTest, WhatNobodyTakesForAMinuteIsGivenBack) {
  WaitAndGiveBack();
  Draw();
  const int64_t kept = idle_bytes();
  EXPECT_GT(kept, 0);
  Wait(KeptMemory::kUnused - absl::Nanoseconds(1));  // not due
  WaitAndGiveBack();                                 // taken since the last time
  EXPECT_EQ(idle_bytes(), kept);
  WaitAndGiveBack();
  EXPECT_EQ(idle_bytes(), 0);
  Draw();
}

}  // namespace
}  // namespace latentd::engine
