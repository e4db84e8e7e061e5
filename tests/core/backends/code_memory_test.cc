#include "core/backends/cpu/binding/code_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "core/base/errors/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

// Bytes of this process that RLIMIT_DATA limits.
rlim_t DataBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmData:") {
  }
  rlim_t kibibytes = 0;
  status >> kibibytes;
  return kibibytes << 10;
}

TEST(CodeMemoryTest, IsThereWithoutALimit) { EXPECT_OK(CheckCodeMemory()); }

TEST(CodeMemoryDeathTest, IsMissedBeforeAnythingIsGeneratedAtALimit) {
  const auto ask_at_limit = [] {
    const rlim_t limit = DataBytes() + (rlim_t{8} << 20);
    const rlimit limits = {limit, limit};
    setrlimit(RLIMIT_DATA, &limits);
    std::exit(GetReason(CheckCodeMemory()) == "OUT_OF_MEMORY" ? 0 : 1);
  };
  EXPECT_EXIT(ask_at_limit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace latentd::backends::cpu
