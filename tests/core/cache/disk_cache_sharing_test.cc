// Several threads and processes at one directory, and processes that die.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <csignal>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/cache/disk_cache.h"
#include "tests/core/cache/cache_fixture.h"
#include "tests/core/cache/child_process.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::cache {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

// A payload that shows which key it belongs to and that it is whole, of many lengths.
std::string PayloadOf(const std::string& key, int repeats) {
  std::string payload;
  for (int i = 0; i < repeats; ++i) absl::StrAppend(&payload, DigestOf(key).ToString(), "\n");
  return payload;
}

bool IsPayloadOf(const std::string& key, absl::string_view payload) {
  return payload == PayloadOf(key, static_cast<int>(payload.size() / 33));
}

std::unique_ptr<DiskCache> OpenShared(const std::string& root, int64_t max_bytes,
                                      metrics::Registry& registry) {
  auto cache =
      DiskCache::Open({.directory = root, .max_bytes = max_bytes}, SystemClock(), registry);
  EXPECT_OK(cache);
  return cache.ok() ? *std::move(cache) : nullptr;
}

// True where every entry can be read and is what its key says.
void ExpectAllWhole(DiskCache& cache) {
  for (const Kind kind : kKinds) {
    for (const EntryInfo& info : cache.List(kind)) {
      const auto entry = cache.Read(kind, info.key);
      ASSERT_OK(entry);
      EXPECT_TRUE(IsPayloadOf(info.key, entry->payload())) << info.key;
    }
  }
}

using DiskCacheSharingTest = CacheFixture;

TEST_F(DiskCacheSharingTest, DoesNotWaitForEverForAProcessThatKeepsTheLock) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  const FileDescriptor held(open((root + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  EXPECT_THAT(cache->Write(Kind::kArtifact, "b", "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process")));
  EXPECT_EQ(WriteFailures("other"), 1);
  EXPECT_OK(cache->Read(Kind::kArtifact, "a"));
  EXPECT_THAT(KeysOf(*Open()), ElementsAre("a"));
  ASSERT_EQ(flock(held.get(), LOCK_UN), 0);
  EXPECT_OK(cache->Write(Kind::kArtifact, "b", "x"));
}

TemporaryFile NewWeight(const CacheDirectory& directory, int64_t bytes) {
  const DirectoryLock lock = directory.Acquire().value();
  return directory.NewTemporary(Kind::kPackedWeight, bytes, lock).value();
}

bool Never() { return false; }

TEST_F(DiskCacheSharingTest, OneAtATimeHasTheLockOfAKey) {
  const auto one = Open();
  const auto other = Open();
  const auto locked = [&](const char* key, const std::function<bool()>& stop = Never) {
    return other->LockKey(Kind::kArtifact, key, absl::ZeroDuration(), stop).status();
  };
  {
    ASSERT_OK_AND_ASSIGN(const KeyLock lock,
                         one->LockKey(Kind::kArtifact, "a", absl::ZeroDuration(), Never));
    EXPECT_THAT(locked("a"),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("another process")));
    EXPECT_THAT(locked("a", [] { return true; }), StatusIs(absl::StatusCode::kCancelled, _));
    EXPECT_OK(locked("b"));
  }
  EXPECT_OK(locked("a"));
}

TEST_F(DiskCacheSharingTest, WaitsForTheLockOfAKeyUntilItsHolderLetsGo) {
  const auto one = Open();
  const auto other = Open();
  ASSERT_OK_AND_ASSIGN(KeyLock lock,
                       one->LockKey(Kind::kArtifact, "a", absl::ZeroDuration(), Never));
  std::optional<KeyLock> held(std::move(lock));
  int asked = 0;
  const auto let_go = [&] {
    if (++asked == 3) held.reset();
    return false;
  };
  EXPECT_OK(other->LockKey(Kind::kArtifact, "a", absl::InfiniteDuration(), let_go));
  EXPECT_EQ(asked, 3);
}

TEST_F(DiskCacheSharingTest, AProcessThatDiesLetsGoOfItsKeys) {
  const auto cache = Open();
  const int end = testing::RunInChild([&] {
    ASSERT_OK_AND_ASSIGN(const KeyLock lock,
                         cache->LockKey(Kind::kArtifact, "a", absl::ZeroDuration(), Never));
    raise(SIGKILL);
  });
  ASSERT_EQ(end, 128 + SIGKILL);
  EXPECT_OK(cache->LockKey(Kind::kArtifact, "a", absl::ZeroDuration(), Never));
}

TEST_F(DiskCacheSharingTest, RemovesWhatDeadProcessesLeftAndNothingElse) {
  Open();
  const CacheDirectory directory(root, absl::Seconds(1));
  testing::WriteFile(root + "/weights/abcdef.tmp", "left behind");
  std::string live;
  {
    TemporaryFile file = NewWeight(directory, 100);
    ASSERT_OK(file.Append("half"));
    Open();
    ASSERT_THAT(FilesIn("weights"), SizeIs(1));
    live = FilesIn("weights")[0];
    EXPECT_NE(live, "abcdef.tmp");
    ASSERT_OK(file.Finish(clock.Wall()));
    ASSERT_OK_AND_ASSIGN(const DirectoryLock lock, directory.Acquire());
    ASSERT_OK(file.Publish(root + "/weights/published", lock));
  }
  EXPECT_THAT(FilesIn("weights"), ElementsAre("published"));
}

// Guard: the size that NewTemporary gives its file before it is written.
TEST_F(DiskCacheSharingTest, KeepsTheRoomThatAnotherProcessIsWritingInto) {
  const auto cache = Open(3 * (kHeadBytes + 1));
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "b", "x"));
  const CacheDirectory directory(root, absl::Seconds(1));
  const TemporaryFile other = NewWeight(directory, 2 * (kHeadBytes + 1));
  Open(3 * (kHeadBytes + 1));  // counts what is there
  ASSERT_OK(cache->Write(Kind::kArtifact, "c", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("c"));
}

TEST_F(DiskCacheSharingTest, AnEntryThatAnotherOneEvictedIsNotThere) {
  const auto one = Open(2 * (kHeadBytes + 1));
  const auto other = Open(2 * (kHeadBytes + 1));
  ASSERT_OK(one->Write(Kind::kArtifact, "a", "x"));
  ASSERT_OK_AND_ASSIGN(const Entry entry, one->Read(Kind::kArtifact, "a"));
  clock.Advance(absl::Seconds(1));
  for (const char* key : {"b", "c"}) ASSERT_OK(other->Write(Kind::kArtifact, key, "y"));
  EXPECT_THAT(one->Read(Kind::kArtifact, "a"), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_EQ(entry.payload(), "x");
  EXPECT_THAT(KeysOf(*one), ElementsAre("c", "b"));
}

TEST_F(DiskCacheSharingTest, EachKeepsItsOwnBudget) {
  const auto large = Open();
  const auto small = Open(2 * (kHeadBytes + 1));
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(large->Write(Kind::kArtifact, key, "x"));
  EXPECT_THAT(KeysOf(*large), ElementsAre("c", "b", "a"));
  clock.Advance(absl::Seconds(1));
  ASSERT_OK(small->Write(Kind::kArtifact, "d", "x"));
  EXPECT_THAT(KeysOf(*large), ElementsAre("d", "c"));
}

constexpr int64_t kSharedBudget = 200'000;

// Everything that a cache does, on few keys, with a budget for a part of them.
void UseAtRandom(const std::string& root, uint32_t seed) {
  metrics::Registry registry;
  const auto cache = OpenShared(root, kSharedBudget, registry);
  std::mt19937 random(seed);
  for (int step = 0; step < 80; ++step) {
    const std::string key = absl::StrCat("key ", random() % 12);
    const Kind kind = random() % 2 == 0 ? Kind::kArtifact : Kind::kTensorDigests;
    switch (random() % 6) {
      case 0:
      case 1:
        ASSERT_OK(cache->Write(kind, key, PayloadOf(key, static_cast<int>(random() % 1000))));
        break;
      case 2:
      case 3: {
        const auto entry = cache->Read(kind, key);
        if (entry.ok()) {
          ASSERT_TRUE(IsPayloadOf(key, entry->payload()));
        } else {
          ASSERT_THAT(entry, StatusIs(absl::StatusCode::kNotFound, ::testing::_));
        }
        break;
      }
      case 4:
        ASSERT_OK(cache->Remove(kind, key));
        break;
      default:
        for (const EntryInfo& info : cache->List(kind)) ASSERT_EQ(info.kind, kind);
    }
  }
}

TEST_F(DiskCacheSharingTest, ThreadsAndProcessesShareOneDirectory) {
  const auto start = [this](uint32_t seed) {
    return testing::StartChild([this, seed] {
      std::thread other([this, seed] { UseAtRandom(root, seed + 1); });
      UseAtRandom(root, seed);
      other.join();
    });
  };
  const pid_t one = start(10);
  const pid_t two = start(20);
  EXPECT_EQ(testing::EndOf(one), 0);
  EXPECT_EQ(testing::EndOf(two), 0);

  const auto cache = OpenShared(root, kSharedBudget, registry);
  ExpectAllWhole(*cache);
  EXPECT_LE(cache->bytes(), kSharedBudget);
  EXPECT_THAT(FilesIn("quarantine"), IsEmpty());
  for (const Kind kind : kKinds) {
    for (const std::string& name : FilesIn(std::string(KindName(kind)))) {
      EXPECT_TRUE(absl::EndsWith(name, ".latent")) << name;
    }
  }
}

void WriteForEver(const std::string& root, uint32_t seed) {
  metrics::Registry registry;
  const auto cache = OpenShared(root, kSharedBudget, registry);
  std::mt19937 random(seed);
  while (cache != nullptr) {
    const std::string key = absl::StrCat("key ", random() % 12);
    const std::string payload = PayloadOf(key, static_cast<int>(random() % 2000));
    cache->Write(kKinds[random() % std::size(kKinds)], key, payload).IgnoreError();
  }
}

// Guard: that entries appear by rename only, in TemporaryFile::Publish.
TEST_F(DiskCacheSharingTest, SurvivesKillsAtAnyInstant) {
  std::mt19937 random(3);
  size_t seen = 0;
  for (int round = 0; round < 50; ++round) {
    const uint32_t seed = random();
    const pid_t child = testing::StartChild([&] { WriteForEver(root, seed); });
    // Not to wait for something, but to kill at a random instant: in Open, or in one of the first
    // Writes.
    absl::SleepFor(absl::Microseconds(random() % 30'000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(testing::EndOf(child), 128 + SIGKILL);

    const auto cache = OpenShared(root, kSharedBudget, registry);
    ASSERT_NE(cache, nullptr);
    ExpectAllWhole(*cache);
    EXPECT_LE(cache->bytes(), kSharedBudget);
    EXPECT_THAT(FilesIn("quarantine"), IsEmpty());
    for (const Kind kind : kKinds) {
      const size_t files = FilesIn(std::string(KindName(kind))).size();
      EXPECT_EQ(cache->List(kind).size(), files) << "something else than entries is left";
      seen += files;
    }
  }
  EXPECT_GT(seen, 50u);
  EXPECT_EQ(LoadFailures("corrupt") + LoadFailures("unreadable"), 0);
}

TEST_F(DiskCacheSharingTest, WhatHasBeenWrittenInPlaceOfWhatIsRefusedStays) {
  const auto cache = Open(), other = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "not an artifact"));
  ASSERT_OK_AND_ASSIGN(const Entry refused, cache->Read(Kind::kArtifact, "key"));
  ASSERT_OK(other->Write(Kind::kArtifact, "key", "an artifact"));
  EXPECT_THAT(cache->SetAside(Kind::kArtifact, "key", refused.payload_digest()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("in its place")));
  EXPECT_OK(cache->Read(Kind::kArtifact, "key"));
}

}  // namespace
}  // namespace latentd::cache
