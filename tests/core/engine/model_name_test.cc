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

}  // namespace
}  // namespace latentd::engine
