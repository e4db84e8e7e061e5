#include "core/base/errors/fatal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "absl/strings/string_view.h"

namespace latentd {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

TEST(FatalDeathTest, EndsWithOneAndTheLine) {
  EXPECT_EXIT(Fatal("no luck today"), ExitedWithCode(1), "no luck today");
}

TEST(FatalDeathTest, WritesWhereItIsTold) {
  const auto end = [] {
    SetFatalLog([](absl::string_view message) { std::cerr << "in the log: " << message; });
    Fatal("no luck today");
  };
  EXPECT_EXIT(end(), ExitedWithCode(1), "in the log: no luck");
}

TEST(ExplainTerminateDeathTest, NamesTheLimitWhereAThreadCannotStart) {
  const auto end = [] {
    ExplainTerminate();
    std::thread([] {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }).join();
  };
  EXPECT_EXIT(end(), KilledBySignal(SIGABRT), "aborted: .*no more threads.*ulimit -u");
}

TEST(ExplainTerminateDeathTest, NamesWhatWasThrown) {
  const auto end = [](const auto& what) {
    ExplainTerminate();
    std::thread([what] { throw what; }).join();
  };
  EXPECT_EXIT(end(std::bad_alloc()), KilledBySignal(SIGABRT), "aborted: out of memory");
  EXPECT_EXIT(end(std::runtime_error("tensor of nothing")), KilledBySignal(SIGABRT),
              "aborted: tensor of nothing");
  EXPECT_EXIT(end(7), KilledBySignal(SIGABRT), "aborted: an unknown exception");
}

}  // namespace
}  // namespace latentd
