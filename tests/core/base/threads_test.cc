#include "core/base/threads/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <thread>

namespace latentd {
namespace {

using ::testing::Optional;

TEST(ParseCpuMaxTest, DividesQuotaByPeriod) {
  EXPECT_THAT(ParseCpuMax("250000 100000\n"), Optional(2.5));
  EXPECT_THAT(ParseCpuMax("50000 100000"), Optional(0.5));
}

TEST(ParseCpuMaxTest, KnowsNoLimit) { EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt); }

TEST(ParseCpuMaxTest, IgnoresWhatIsNoQuota) {
  for (const char* text : {"", "100000", "x y", "100000 0", "0 100000", "-5 100000", "1 2 3"}) {
    EXPECT_EQ(ParseCpuMax(text), std::nullopt) << text;
  }
}

TEST(ParseCfsQuotaTest, DividesQuotaByPeriod) {
  EXPECT_THAT(ParseCfsQuota("150000\n", "100000\n"), Optional(1.5));
}

TEST(ParseCfsQuotaTest, KnowsNoLimit) {
  EXPECT_EQ(ParseCfsQuota("-1\n", "100000\n"), std::nullopt);
}

TEST(UsableCpusTest, FollowsTheAffinityMask) {
  // On a thread of its own, whose mask dies with it.
  int cpus = 0;
  std::thread([&] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(sched_getcpu(), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    cpus = UsableCpus();
  }).join();
  EXPECT_EQ(cpus, 1);
}

TEST(UsableCpusTest, IsAtLeastOne) { EXPECT_GE(UsableCpus(), 1); }

TEST(NameThisThreadTest, KeepsWhatTheKernelTakes) {
  std::array<char, 32> name = {};
  std::thread([&] {
    NameThisThread("a-name-that-is-too-long");
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }).join();
  EXPECT_STREQ(name.data(), "a-name-that-is-");
}

TEST(StartThreadTest, RunsTheBodyUnderTheName) {
  std::array<char, 32> name = {};
  StartThread("a-name-that-is-too-long", [&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }).join();
  EXPECT_STREQ(name.data(), "a-name-that-is-");
}

TEST(StartThreadDeathTest, EndsTheProcessWithALineWhereThereIsNoThread) {
  const auto start = [] {
    // Stacks of more than there is of address space: pthread_create fails with EAGAIN, as it does
    // at a limit on processes, which does not bind root.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);
    pthread_setattr_default_np(&attributes);
    StartThread("encoder", [] {}).join();
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(1),
              "cannot start the thread 'encoder': .*ulimit -u, pids.max");
}

}  // namespace
}  // namespace latentd
