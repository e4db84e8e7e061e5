// One budget for what comes in and what goes out.
#include "core/engine/requests/picture_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/latents_file.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/inputs.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

using PictureBytesTest = LoopTest;

// Here what another request has brought takes the place.
TEST_F(PictureBytesTest, WhatComesInAndWhatGoesOutShareOneBudget) {
  constexpr int64_t kBudget = 1 << 20;
  PictureLoop loop({.picture_bytes = kBudget}, device::Host(), metrics_, clock_);
  EXPECT_EQ(loop.most_input_bytes(), kBudget / 2);
  pipeline::SharedInputs brought = loop.Count(testing::ImageInput(std::string(kBudget, 'x')));
  EXPECT_EQ(loop.input_bytes(), kBudget);
  const auto slow = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, slow), 0));  // nothing waits to leave: it begins
  std::vector<Event> unread = slow->WaitForEnd();

  const auto next = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, next), 0));
  while (!loop.WaitsForReaders()) std::this_thread::yield();
  brought.reset();
  EXPECT_EQ(Only<Completed>(next->WaitForEnd()).size(), 1u);
  EXPECT_EQ(loop.input_bytes(), 0);
}

TEST_F(PictureBytesTest, BeginsNoPictureWhileAsManyWaitForTheEncoderAsMayWait) {
  absl::Notification go_on;
  std::atomic<int> encoded = 0;
  const auto encode = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                          const image::RunParts& run_parts) {
    go_on.WaitForNotification();
    ++encoded;
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.queue = {.pictures = 2}, .encode = encode}, device::Host(), metrics_, clock_);
  const auto first = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, first, /*pictures=*/2), 0));
  while (loop.result_bytes() < 2 * 64 * 64 * 3) std::this_thread::yield();
  int encoded_before = 0;
  model_->on_run.enqueue = [&] { encoded_before = encoded; };
  const auto next = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, next), 0));
  const auto cancelled = std::make_shared<RecordingSink>();
  const std::shared_ptr<Job> impatient = Request(loop, cancelled);
  ASSERT_OK(loop.Admit(impatient, 0));
  loop.Cancel(impatient->handle);  // a loop that waits hears of it
  EXPECT_EQ(Only<Failed>(cancelled->WaitForEnd()).size(), 1u);
  EXPECT_FALSE(loop.WaitsForReaders());  // no reader can do anything about it
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(next->WaitForEnd()).size(), 1u);
  EXPECT_GT(encoded_before, 0);
}

TEST(PictureMemoryTest, IsTheBoundOfWhatARequestBrings) {
  Config config = SmallConfig();
  config.picture_memory_bytes = 4096;
  LocalEngine engine(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  ASSERT_OK(engine.Load());
  GenerateSpec spec = SmallSpec();
  const auto file = pipeline::LatentsFile(noise::NoiseGenerator(1).Normal({1, 4, 8, 8}), {8, 8});
  spec.inputs = testing::LatentsInput(file);
  ASSERT_LE(file.size(), 2048u);
  EXPECT_EQ(Only<Completed>(RunOn(engine, spec)).size(), 1u);
  spec.inputs = testing::ImageInput(Only<Image>(RunOn(engine, SmallSpec())).at(0).bytes);
  spec.picture.strength = 1;
  ASSERT_GT(spec.inputs->bytes(), 2048u);
  const absl::Status refused = SubmitTo(engine, spec);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2048 bytes")));
  EXPECT_EQ(GetFieldViolations(refused).at(0).field, "image");
}

}  // namespace
}  // namespace latentd::engine
