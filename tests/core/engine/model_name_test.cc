#include "core/engine/api/model_name.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace latentd::engine {
namespace {

std::string NameOfPath(const std::string& path) {
  return NameOf({.component = "base", .path = path});
}

TEST(ModelNameTest, IsTheDirectorysHoweverItsPathIsWritten) {
  for (const char* path : {"/models/sdxl", "/models/sdxl/", "/models/sdxl//", "/models/sdxl/.",
                           "/models/other/../sdxl", "sdxl", "sdxl/", "./sdxl"}) {
    EXPECT_EQ(NameOfPath(path), "sdxl") << path;
  }
}

TEST(ModelNameTest, IsTheWorkingDirectorysOrOneAbove) {
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(NameOfPath("."), here.filename());
  EXPECT_EQ(NameOfPath("./"), here.filename());
  EXPECT_EQ(NameOfPath(".."), here.parent_path().filename());
}

TEST(ModelNameTest, ASnapshotOfTheHubHasTheModelsName) {
  EXPECT_EQ(NameOfPath("/h/models--stabilityai--sdxl-turbo/snapshots/71153311d3d"), "sdxl-turbo");
  EXPECT_EQ(NameOfPath("/h/models--org--a--b/snapshots/71153311d3d/"), "a--b");
  EXPECT_EQ(NameOfPath("/h/models--gpt2/snapshots/71153311d3d"), "gpt2");
  EXPECT_EQ(NameOfPath("/h/plain/snapshots/71153311d3d"), "71153311d3d");
}

}  // namespace
}  // namespace latentd::engine
