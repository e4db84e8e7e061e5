#include "server/config/demo_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

TEST(DemoCheckpointTest, IsFoundWhereItIsInstalledAndInABuildTree) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / "demo_checkpoint_test";
  for (const char* place : {"share/latentd/demo-model", "deploy/demo-model"}) {
    fs::create_directories(root / place / "base");
    std::ofstream(root / place / "base/model_index.json") << "{}";
  }
  ASSERT_OK_AND_ASSIGN(const DemoCheckpoint installed, FindDemoCheckpoint(root / "bin", "/none"));
  EXPECT_EQ(installed.base, root / "share/latentd/demo-model/base");
  ASSERT_OK_AND_ASSIGN(const DemoCheckpoint built,
                       FindDemoCheckpoint(root / "build/server", "/none"));
  EXPECT_EQ(built.refiner, root / "deploy/demo-model/refiner");
  ASSERT_OK_AND_ASSIGN(const DemoCheckpoint source, FindDemoCheckpoint("/elsewhere/bin", root));
  EXPECT_EQ(source.base, root / "deploy/demo-model/base");
  EXPECT_THAT(FindDemoCheckpoint("/x/bin", "/none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--base")));
  fs::remove_all(root);
}

}  // namespace
}  // namespace latentd::server::config
