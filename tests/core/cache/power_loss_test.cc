// Written entries survive a loss of power, which at no moment leaves half of an entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cache/disk_cache.h"
#include "tests/core/cache/cache_fixture.h"
#include "tests/core/cache/volatile_directory.h"

namespace latentd::cache {
namespace {

using ::testing::UnorderedElementsAre;
using testing::VolatileDirectory;

const std::string kKey = "graph a", kOld = "the old graph", kNew = "the new graph, which is longer";

class PowerLossTest : public CacheFixture {
 protected:
  // The cache as a loss of power now would leave it.
  std::unique_ptr<DiskCache> Survivor() {
    const std::string lost = std::exchange(root, absl::StrCat(root, "-", ++losses_));
    disk.LosePower(root);
    std::unique_ptr<DiskCache> survivor = Open();
    root = lost;
    return survivor;
  }

  std::unique_ptr<DiskCache> cache = Open();
  VolatileDirectory disk{root};

 private:
  int losses_ = 0;
};

TEST_F(PowerLossTest, LeavesWhatWasWritten) {
  ASSERT_OK(cache->Write(Kind::kArtifact, kKey, kOld));
  EXPECT_EQ(ReadPayload(*Survivor(), kKey).value_or("nothing"), kOld);
}

TEST_F(PowerLossTest, LeavesWhatReplacedAnEntry) {
  ASSERT_OK(cache->Write(Kind::kArtifact, kKey, kOld));
  ASSERT_OK(cache->Write(Kind::kArtifact, kKey, kNew));
  EXPECT_EQ(ReadPayload(*Survivor(), kKey).value_or("nothing"), kNew);
}

TEST_F(PowerLossTest, LeavesPinsAndTakesBackNone) {
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, kKey, true));
  EXPECT_TRUE(Survivor()->IsPinned(Kind::kArtifact, kKey));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, kKey, false));
  EXPECT_FALSE(Survivor()->IsPinned(Kind::kArtifact, kKey));
}

// Every state of the disk is one between two syncs.
TEST_F(PowerLossTest, LeavesAWholeEntryAtEveryMoment) {
  ASSERT_OK(cache->Write(Kind::kArtifact, kKey, kOld));
  std::set<std::string> seen;
  disk.OnSync([&] { seen.insert(ReadPayload(*Survivor(), kKey).value_or("nothing")); });
  ASSERT_OK(cache->Write(Kind::kArtifact, kKey, kNew));
  EXPECT_THAT(seen, UnorderedElementsAre(kOld, kNew));
  EXPECT_EQ(LoadFailures("corrupt"), 0);
}

}  // namespace
}  // namespace latentd::cache
