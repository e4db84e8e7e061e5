// The network cases on the CPU backend without each pass: no pass is needed for right numbers. The
// pictures are run so by hand (skip-each-pass).
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/passes/pipeline.h"
#include "tests/golden/network_cases.h"
#include "tests/support/source_directory.h"

namespace latentd::golden {
namespace {

std::vector<std::string> PassNames() {
  std::set<std::string> names;
  for (const passes::Pass& pass : passes::Passes()) names.emplace(pass.name);
  return {names.begin(), names.end()};
}

class SkippedPass : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Each, SkippedPass, ::testing::ValuesIn(PassNames()),
                         [](const auto& info) { return info.param; });

TEST_P(SkippedPass, ChangesNoNetwork) {
  const auto backend = backends::cpu::CpuBackend::Create().value();
  Report report;
  RunNetworkCases(
      {.cases = ::latentd::testing::SourcePath("tests/golden"), .skip_passes = {GetParam()}},
      *backend, report);
  EXPECT_TRUE(report.Finish());
}

}  // namespace
}  // namespace latentd::golden
