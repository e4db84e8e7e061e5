#include "core/base/threads/thread_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"

namespace latentd {
namespace {

using ::testing::ExitedWithCode;

TEST(CheckThreadsTest, TakesWhatThereIs) { EXPECT_OK(CheckThreads(20)); }

// Stacks that are larger than all addresses fail as threads beyond a limit on processes do, which
// does not bind root.
void WantHugeStacks() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 47);
  pthread_setattr_default_np(&attributes);
}

TEST(CheckThreadsDeathTest, SaysHowManyAndTheLimits) {
#if defined(LATENTD_SANITIZED)
  GTEST_SKIP() << "the sanitizer maps more than the limit that is set here, and ends the process";
#endif
  const auto check = [] {
    rlimit limit = {};
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = rlim_t{1} << 40;
    setrlimit(RLIMIT_DATA, &limit);
    WantHugeStacks();
    const absl::Status status = CheckThreads(7);
    const bool says = absl::IsFailedPrecondition(status) &&
                      status.message().find("0 more") != std::string::npos &&
                      status.message().find("needs 7") != std::string::npos &&
                      status.message().find("ulimit -d is 1073741824") != std::string::npos;
    std::_Exit(says ? 0 : 1);
  };
  EXPECT_EXIT(check(), ExitedWithCode(0), "");
}

TEST(CheckThreadsDeathTest, RefusesStacksThatAreTooSmall) {
  const auto check = [](rlim_t kib) {
    rlimit limit = {};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = kib << 10;
    setrlimit(RLIMIT_STACK, &limit);
    std::_Exit(CheckThreads(0).message() ==
                       "ulimit -s, the stack of each thread in KiB, is 511, and serving needs 512"
                   ? 1
                   : 0);
  };
  EXPECT_EXIT(check(511), ExitedWithCode(1), "");
  EXPECT_EXIT(check(512), ExitedWithCode(0), "");
}

TEST(ExplainExitDeathTest, EndsWithOneAndTheLimitsWhereALibraryEndsTheProcess) {
  const auto end = [] {
    ExplainExit();
    std::thread([] { std::exit(7); }).join();
  };
  EXPECT_EXIT(end(), ExitedWithCode(1), "a library ended this process");
}

TEST(ExplainExitDeathTest, LeavesTheMainThreadAlone) {
  const auto end = [] {
    ExplainExit();
    std::exit(7);
  };
  EXPECT_EXIT(end(), ExitedWithCode(7), "");
}

}  // namespace
}  // namespace latentd
