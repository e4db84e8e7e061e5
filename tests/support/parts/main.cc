// The main function of a test program that ctest runs in parts (PARTS of latentd_test in
// cmake/Library.cmake): LATENTD_TEST_PART says which one this is; without it, all tests run.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/parts/suite_parts.h"

namespace latentd::testing {
namespace {

std::vector<Suite> AllSuites() {
  const ::testing::UnitTest& program = *::testing::UnitTest::GetInstance();
  std::vector<Suite> suites;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *program.GetTestSuite(i);
    suites.push_back({suite.name(), suite.total_test_count()});
  }
  return suites;
}

// False: the text is no part.
bool TakePart(const std::string& text) {
  int part = 0, parts = 0;
  if (!ReadPart(text, part, parts)) return false;
  const std::vector<std::string> suites = SuitesOfPart(AllSuites(), part, parts);
  GTEST_FLAG_SET(filter, FilterOf(suites, GTEST_FLAG_GET(filter)));
  return true;
}

}  // namespace
}  // namespace latentd::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* part = std::getenv("LATENTD_TEST_PART");
  if (part != nullptr && !::latentd::testing::TakePart(part)) {
    std::fprintf(stderr, "LATENTD_TEST_PART=%s is no part such as 2/4\n", part);
    return 2;
  }
  return RUN_ALL_TESTS();
}
