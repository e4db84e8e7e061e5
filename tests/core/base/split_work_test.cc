#include "core/base/threads/split_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"

namespace latentd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(SplitWorkTest, CallsEachPartOnceWithoutHelpersInOrder) {
  std::vector<int> called;
  SplitWork({}, 4, [&](int part) { called.push_back(part); });
  EXPECT_THAT(called, ElementsAre(0, 1, 2, 3));
  SplitWork({}, 0, [](int) { FAIL(); });
}

TEST(SplitWorkTest, HelpersTakePartsBesideTheCaller) {
  Worker first("first"), second("second");
  const std::array<Worker*, 2> helpers = {&first, &second};
  // The barrier needs three threads, each at a part at once.
  auto* barrier = new absl::Barrier(3);
  std::array<std::thread::id, 3> threads;
  SplitWork(helpers, 3, [&](int part) {
    threads[part] = std::this_thread::get_id();
    if (barrier->Block()) delete barrier;
  });
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[0], threads[2]);
  EXPECT_NE(threads[1], threads[2]);
  EXPECT_THAT(threads, Contains(std::this_thread::get_id()));
}

TEST(SplitWorkTest, DoesNotWaitForAHelperThatIsBusy) {
  Worker busy("busy");
  absl::Notification go;
  busy.Add([&] { go.WaitForNotification(); });
  const std::array<Worker*, 1> helpers = {&busy};
  std::array<std::atomic<int>, 5> called = {};
  SplitWork(helpers, 5, [&](int part) { ++called[part]; });
  for (const auto& times : called) EXPECT_EQ(times, 1);
  // The parts that wait in the helpers do nothing any more.
  go.Notify();
  busy.Flush();
  for (const auto& times : called) EXPECT_EQ(times, 1);
}

TEST(SplitWorkTest, ReturnsWhenHelpersHaveReturned) {
  Worker helper("helper");
  const std::array<Worker*, 1> helpers = {&helper};
  for (int round = 0; round < 200; ++round) {
    std::vector<int> numbers(16);
    SplitWork(helpers, 16, [&](int part) { numbers[part] = part + round; });
    for (int part = 0; part < 16; ++part) ASSERT_EQ(numbers[part], part + round);
  }
}

TEST(SplitWorkTest, ThrowsOnceAllHaveReturnedWhereOneHasNoMemory) {
  Worker helper("helper");
  const std::array<Worker*, 1> helpers = {&helper};
  std::array<std::atomic<int>, 4> called = {};
  const auto part = [&](int i) {
    ++called[i];
    if (i < 2) throw std::bad_alloc();
  };
  EXPECT_THROW(SplitWork(helpers, 4, part), std::bad_alloc);
  EXPECT_THROW(SplitWorkOn(2, 4, part), std::bad_alloc);
  for (const auto& times : called) EXPECT_EQ(times, 2);
}

TEST(SplitWorkOnTest, CallsEachPartOnceOnSeveralThreads) {
  auto* barrier = new absl::Barrier(3);
  std::array<std::atomic<int>, 3> called = {};
  SplitWorkOn(3, 3, [&](int part) {
    ++called[part];
    if (barrier->Block()) delete barrier;
  });
  for (const auto& times : called) EXPECT_EQ(times, 1);
  SplitWorkOn(3, 0, [](int) { FAIL(); });
}

TEST(SplitWorkOnDeathTest, DoesAllOnOneThreadWhereThereAreNoOthers) {
  const auto split = [] {
    // Stacks of more than there is of address space: pthread_create fails with EAGAIN.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);
    pthread_setattr_default_np(&attributes);
    int called = 0;
    SplitWorkOn(4, 5, [&](int) { ++called; });
    std::_Exit(called);
  };
  EXPECT_EXIT(split(), ::testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace latentd
