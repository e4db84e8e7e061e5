#include "server/config/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kNotFound = absl::StatusCode::kNotFound;

std::string CacheOf(const std::map<std::string, std::string>& environment) {
  return HubCacheDirectory([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

class HubCacheTest : public ::testing::Test {
 protected:
  // Leaves "org/model" as the Hub's tools do.
  HubCacheTest() {
    Write("refs/main", "c0ffee\n");
    Write("refs/refs/pr/1", "decade");
    Write("snapshots/c0ffee/model_index.json", "{}");
    Write("snapshots/decade/model_index.json", "{}");
  }

  void Write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = Repository(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string Repository(const std::string& file) const {
    return directory_.File("models--org--model/" + file);
  }
  absl::StatusOr<std::string> Find(const std::string& path) const {
    return FindCheckpoint(path, directory_.path());
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(HubCacheTest, ANameIsItsMainBranch) {
  EXPECT_EQ(Find("org/model").value_or("none"), Repository("snapshots/c0ffee"));
  EXPECT_EQ(Find("org/model@main").value_or("none"), Repository("snapshots/c0ffee"));
}

TEST_F(HubCacheTest, ARevisionIsABranchOrACommit) {
  EXPECT_EQ(Find("org/model@refs/pr/1").value_or("none"), Repository("snapshots/decade"));
  EXPECT_EQ(Find("org/model@decade").value_or("none"), Repository("snapshots/decade"));
  EXPECT_THAT(Find("org/model@v2"),
              StatusIs(kNotFound, AllOf(HasSubstr("no revision v2; it has c0ffee, decade"),
                                        HasSubstr("hf download org/model --revision v2"))));
}

TEST_F(HubCacheTest, APathThatIsThereIsMeant) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(directory_.File("here/org/model"));
  std::filesystem::current_path(directory_.File("here"));
  const auto found = Find("org/model");
  std::filesystem::current_path(before);
  EXPECT_EQ(found.value_or("none"), "org/model");
}

TEST_F(HubCacheTest, OtherPathsStay) {
  for (const char* path : {"/nowhere/model", "model", "a/b/c", "../model", "./model", "org/..",
                           "org/model@../../x", "org/model@", "org/mo del", ""}) {
    EXPECT_EQ(Find(path).value_or("none"), path);
  }
  EXPECT_EQ(FindCheckpoint("org/model", "").value_or("none"), "org/model");
}

TEST_F(HubCacheTest, OneThatIsNotThereSaysHowToGetIt) {
  EXPECT_THAT(Find("org/other"),
              StatusIs(kNotFound, AllOf(HasSubstr("org/other"), HasSubstr(directory_.path()),
                                        HasSubstr("`hf download org/other`"))));
}

TEST_F(HubCacheTest, ADownloadThatHasNotEndedIsSaid) {
  std::filesystem::remove_all(Repository("snapshots/c0ffee"));
  EXPECT_THAT(Find("org/model"), StatusIs(kNotFound, Not(HasSubstr("to its end"))));
  Write("blobs/abc.incomplete", "");
  EXPECT_THAT(Find("org/model"), StatusIs(kNotFound, HasSubstr("not downloaded to its end")));
}

TEST(HubCacheDirectoryTest, IsTheHubsOwn) {
  EXPECT_EQ(CacheOf({{"HF_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}, {"HOME", "/h"}}), "/a");
  EXPECT_EQ(CacheOf({{"HUGGINGFACE_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}}), "/a");
  EXPECT_EQ(CacheOf({{"HF_HOME", "/b"}, {"XDG_CACHE_HOME", "/x"}}), "/b/hub");
  EXPECT_EQ(CacheOf({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/huggingface/hub");
  EXPECT_EQ(CacheOf({{"HF_HUB_CACHE", ""}, {"HOME", "/h"}}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(CacheOf({}), "");
}

}  // namespace
}  // namespace latentd::server::config
