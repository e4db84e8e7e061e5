#include "core/cache/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/core/cache/cache_fixture.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::cache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

using DiskCacheTest = CacheFixture;

TEST_F(DiskCacheTest, KeepsEntriesOfEveryKindOverAReopen) {
  {
    const auto cache = Open();
    for (const Kind kind : kKinds) {
      ASSERT_OK(cache->Write(kind, "key", absl::StrCat("of ", KindName(kind))));
    }
  }
  const auto cache = Open();
  for (const Kind kind : kKinds) {
    ASSERT_OK_AND_ASSIGN(const std::string payload, ReadPayload(*cache, "key", kind));
    EXPECT_EQ(payload, absl::StrCat("of ", KindName(kind)));
  }
}

TEST_F(DiskCacheTest, MapsPayloadsAtPageBoundaries) {
  const auto cache = Open();
  for (const size_t key_bytes : {1, 5000}) {
    const std::string key(key_bytes, 'k');
    ASSERT_OK(cache->Write(Kind::kPackedWeight, key, "weights"));
    ASSERT_OK_AND_ASSIGN(const Entry entry, cache->Read(Kind::kPackedWeight, key));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry.payload().data()) % 4096, 0u);
  }
}

TEST_F(DiskCacheTest, SaysThatThereIsNoEntry) {
  const auto cache = Open();
  EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(EntryFile("key"))));
  EXPECT_THAT(cache->Verify(Kind::kArtifact, "key"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_FALSE(cache->Contains(Kind::kArtifact, "key"));
  EXPECT_EQ(LoadFailures("unreadable") + LoadFailures("corrupt"), 0);
}

TEST_F(DiskCacheTest, ReplacesAnEntryAndLeavesTheOldOneReadable) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "old"));
  ASSERT_OK_AND_ASSIGN(const Entry old, cache->Read(Kind::kArtifact, "key"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "newer"));
  ASSERT_OK_AND_ASSIGN(const std::string payload, ReadPayload(*cache, "key"));
  EXPECT_EQ(payload, "newer");
  EXPECT_EQ(old.payload(), "old");
  EXPECT_EQ(cache->bytes(), kHeadBytes + 5);
}

TEST_F(DiskCacheTest, KeepsWhatWasGivenOutAfterItsRemoval) {
  const auto cache = Open();
  const std::string payload(100'000, 'x');
  ASSERT_OK(cache->Write(Kind::kPackedWeight, "key", payload));
  std::shared_ptr<const void> owner;
  absl::string_view bytes;
  {
    ASSERT_OK_AND_ASSIGN(const Entry entry, cache->Read(Kind::kPackedWeight, "key"));
    owner = entry.owner();
    bytes = entry.payload();
  }
  ASSERT_OK(cache->Remove(Kind::kPackedWeight, "key"));
  EXPECT_FALSE(cache->Contains(Kind::kPackedWeight, "key"));
  EXPECT_EQ(bytes, payload);
}

TEST_F(DiskCacheTest, RemovesQuietlyWhatIsNotThere) {
  EXPECT_OK(Open()->Remove(Kind::kArtifact, "key"));
}

// Guard: the comparison of the whole key in DiskCache::Map.
TEST_F(DiskCacheTest, RefusesAFileWhoseKeyIsNotTheOneOfItsName) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "mine", "payload"));
  std::filesystem::rename(EntryFile("mine"), EntryFile("yours"));
  EXPECT_FALSE(cache->Contains(Kind::kArtifact, "yours"));
  EXPECT_THAT(cache->List(Kind::kArtifact), IsEmpty());
  EXPECT_THAT(cache->Read(Kind::kArtifact, "yours"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another entry")));
}

TEST_F(DiskCacheTest, RefusesAFileOfAnotherKind) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kTensorDigests, "key", "payload"));
  std::filesystem::rename(EntryFile("key", "digests"), EntryFile("key"));
  EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another entry")));
}

TEST_F(DiskCacheTest, SetsADamagedFileAsideAndReportsItOnce) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "payload"));
  std::string bytes = FileBytes(EntryFile("key"));
  bytes.back() ^= 1;
  testing::WriteFile(EntryFile("key"), bytes);

  EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("the payload does not fit its checksum"),
                             HasSubstr(QuarantineFile("key")))));
  EXPECT_EQ(FileBytes(QuarantineFile("key")), bytes);
  EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_EQ(LoadFailures("corrupt"), 1);
  EXPECT_EQ(cache->bytes(), kHeadBytes + 7);

  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "payload"));
  EXPECT_OK(cache->Read(Kind::kArtifact, "key"));
}

TEST_F(DiskCacheTest, SetsAsideWhatItsReaderRefuses) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "not an artifact"));
  ASSERT_OK(cache->SetAside(Kind::kArtifact, "key", DigestOf("not an artifact")));
  EXPECT_TRUE(std::filesystem::exists(QuarantineFile("key")));
  EXPECT_FALSE(cache->Contains(Kind::kArtifact, "key"));
  EXPECT_EQ(LoadFailures("corrupt"), 1);
  // As after another process.
  EXPECT_OK(cache->SetAside(Kind::kArtifact, "key", DigestOf("not an artifact")));
}

TEST_F(DiskCacheTest, VerifyFindsDamageAndDoesNotMarkAsUsed) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "payload"));
  clock.Advance(absl::Seconds(1));
  ASSERT_OK(cache->Write(Kind::kArtifact, "b", "payload"));
  clock.Advance(absl::Seconds(1));
  EXPECT_OK(cache->Verify(Kind::kArtifact, "a"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("b", "a"));
  std::filesystem::resize_file(EntryFile("a"), 5000 - 1000);
  EXPECT_THAT(cache->Verify(Kind::kArtifact, "a"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short")));
  EXPECT_TRUE(std::filesystem::exists(QuarantineFile("a")));
}

TEST_F(DiskCacheTest, ListsWhatIsWholeMostRecentlyUsedFirst) {
  const auto cache = Open();
  for (const char* key : {"a", "b", "c", "damaged"}) {
    ASSERT_OK(cache->Write(Kind::kArtifact, key, key));
    clock.Advance(absl::Minutes(1));
  }
  ASSERT_OK(cache->Read(Kind::kArtifact, "a"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "c", true));
  testing::WriteFile(EntryFile("damaged"), "short");
  testing::WriteFile(root + "/artifacts/README", "of somebody else");

  const std::vector<EntryInfo> infos = cache->List(Kind::kArtifact);
  ASSERT_THAT(KeysOf(*cache), ElementsAre("a", "c", "b"));
  EXPECT_EQ(infos[0].last_use, clock.Wall());
  EXPECT_EQ(infos[1].last_use, clock.Wall() - absl::Minutes(2));
  EXPECT_EQ(infos[0].bytes, kHeadBytes + 1);
  EXPECT_EQ(infos[0].digest, DigestOf("a"));
  EXPECT_TRUE(infos[1].pinned);
  EXPECT_FALSE(infos[0].pinned);
  EXPECT_THAT(cache->List(Kind::kTensorDigests), IsEmpty());
}

TEST_F(DiskCacheTest, FindsWhatItWouldList) {
  const auto cache = Open();
  for (const char* key : {"a", "damaged"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  testing::WriteFile(EntryFile("damaged"), "short");
  const auto found = cache->Find(Kind::kArtifact, "a");
  ASSERT_TRUE(found.has_value());
  const EntryInfo listed = cache->List(Kind::kArtifact).at(0);
  EXPECT_EQ(found->key, "a");
  EXPECT_EQ(found->digest, listed.digest);
  EXPECT_EQ(found->bytes, listed.bytes);
  EXPECT_EQ(found->last_use, listed.last_use);
  EXPECT_TRUE(found->pinned);
  EXPECT_FALSE(cache->Find(Kind::kArtifact, "damaged").has_value());
  EXPECT_FALSE(cache->Find(Kind::kArtifact, "b").has_value());
  EXPECT_FALSE(cache->Find(Kind::kTensorDigests, "a").has_value());
}

TEST_F(DiskCacheTest, EvictsWhatWasNotUsedForLongest) {
  const auto cache = Open(3 * (kHeadBytes + 1));
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
  ASSERT_OK(cache->Read(Kind::kArtifact, "a"));
  ASSERT_OK(cache->Write(Kind::kTensorDigests, "d", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("a", "c"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "e", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("e", "a"));
  EXPECT_THAT(KeysOf(*cache, Kind::kTensorDigests), ElementsAre("d"));
  EXPECT_EQ(Evictions(), 2);
  EXPECT_EQ(cache->bytes(), 3 * (kHeadBytes + 1));
}

TEST_F(DiskCacheTest, EvictsWeightsBeforeAnythingElse) {
  const auto cache = Open(2 * (kHeadBytes + 1));
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  ASSERT_OK(cache->Write(Kind::kPackedWeight, "w", "x"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "b", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("b", "a"));
  EXPECT_THAT(KeysOf(*cache, Kind::kPackedWeight), IsEmpty());
}

// Guard: MayGoForWeight in DiskCache::MakeRoom.
TEST_F(DiskCacheTest, AWeightDrivesOutOnlyWeightsOfEarlierStarts) {
  {
    const auto cache = Open(3 * (kHeadBytes + 1));
    ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
    for (const char* key : {"v", "w"}) ASSERT_OK(cache->Write(Kind::kPackedWeight, key, "x"));
    EXPECT_THAT(cache->Write(Kind::kPackedWeight, "x", "x"),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("in use")));
  }
  const auto cache = Open(3 * (kHeadBytes + 1));
  ASSERT_OK(cache->Read(Kind::kPackedWeight, "v"));
  ASSERT_OK(cache->Write(Kind::kPackedWeight, "x", "x"));
  EXPECT_THAT(KeysOf(*cache, Kind::kPackedWeight), ElementsAre("x", "v"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("a"));
}

TEST_F(DiskCacheTest, KeepsTheOrderOfUseOverAReopen) {
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(Open()->Write(Kind::kArtifact, key, "x"));
  ASSERT_OK(Open()->Read(Kind::kArtifact, "a"));
  EXPECT_THAT(KeysOf(*Open()), ElementsAre("a", "c", "b"));
}

// Guard: newest_use_ in DiskCache::NextUse.
TEST_F(DiskCacheTest, KeepsTheOrderOfUseWhenTheClockJumpsBack) {
  ASSERT_OK(Open()->Write(Kind::kArtifact, "before", "x"));
  clock.Advance(-absl::Minutes(30));
  const auto cache = Open(2 * (kHeadBytes + 1));
  ASSERT_OK(cache->Write(Kind::kArtifact, "after", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("after", "before"));
  EXPECT_EQ(cache->List(Kind::kArtifact)[0].last_use, clock.Wall());  // none in the future
  ASSERT_OK(cache->Write(Kind::kArtifact, "last", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("last", "after"));
}

TEST_F(DiskCacheTest, KeepsTheOrderOfUseWhenTheClockJumpsForwardAndBack) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  clock.Advance(absl::Hours(24 * 365 * 50));
  ASSERT_OK(cache->Write(Kind::kArtifact, "b", "x"));
  clock.Advance(-absl::Hours(24 * 365 * 50));
  ASSERT_OK(cache->Read(Kind::kArtifact, "a"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("a", "b"));
}

TEST_F(DiskCacheTest, NeverEvictsPinnedEntriesAlsoAfterAReopen) {
  {
    const auto cache = Open();
    for (const char* key : {"a", "b"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
    ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  }
  const auto cache = Open(2 * (kHeadBytes + 1));
  ASSERT_OK(cache->Write(Kind::kArtifact, "c", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("c", "a"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", false));
  ASSERT_OK(cache->Write(Kind::kArtifact, "d", "x"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("d", "c"));
}

TEST_F(DiskCacheTest, StaysPinnedWhenWrittenAnewNotWhenRemoved) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "y"));
  EXPECT_TRUE(cache->List(Kind::kArtifact)[0].pinned);
  ASSERT_OK(cache->Remove(Kind::kArtifact, "a"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "z"));
  EXPECT_FALSE(cache->List(Kind::kArtifact)[0].pinned);
}

TEST_F(DiskCacheTest, PinsWhatIsNotThereYet) {
  ASSERT_OK(Open()->SetPinned(Kind::kArtifact, "a", true));
  const auto cache = Open();
  EXPECT_TRUE(cache->IsPinned(Kind::kArtifact, "a"));
  EXPECT_FALSE(cache->IsPinned(Kind::kArtifact, "b"));
  EXPECT_THAT(KeysOf(*cache), IsEmpty());
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  EXPECT_TRUE(cache->Find(Kind::kArtifact, "a")->pinned);
  ASSERT_OK(cache->Remove(Kind::kArtifact, "a"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", false));
  EXPECT_FALSE(cache->IsPinned(Kind::kArtifact, "a"));
}

TEST_F(DiskCacheTest, RefusesWhatThePinnedEntriesLeaveNoRoomForAndEvictsNothing) {
  const auto cache = Open(3 * (kHeadBytes + 1));
  for (const char* key : {"a", "b"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
  ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  EXPECT_THAT(cache->Write(Kind::kArtifact, "large", std::string(2 * kHeadBytes, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("pinned")));
  EXPECT_THAT(KeysOf(*cache), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(WriteFailures("no_space"), 1);
  EXPECT_EQ(Evictions(), 0);
}

TEST_F(DiskCacheTest, RefusesAnEntryLargerThanTheBudget) {
  const auto cache = Open(10'000);
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  EXPECT_THAT(cache->Write(Kind::kArtifact, "large", std::string(10'000, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10000")));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("a"));
  EXPECT_THAT(FilesIn("artifacts"), ElementsAre(DigestOf("a").ToString() + ".latent"));
}

TEST_F(DiskCacheTest, EvictsDownToASmallerBudgetAtOpen) {
  {
    const auto cache = Open();
    for (const char* key : {"a", "b", "c"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
    ASSERT_OK(cache->SetPinned(Kind::kArtifact, "a", true));
  }
  EXPECT_THAT(KeysOf(*Open(2 * (kHeadBytes + 1))), ElementsAre("c", "a"));
  EXPECT_THAT(KeysOf(*Open(1)), ElementsAre("a"));
}

TEST_F(DiskCacheTest, CountsQuarantineInTheBudgetAndEmptiesItFirstOldestFirst) {
  const auto cache = Open(4 * (kHeadBytes + 1));
  for (const char* key : {"old", "b", "new"}) {
    ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
    clock.Advance(absl::Minutes(1));
  }
  for (const char* key : {"old", "new"}) {
    std::string bytes = FileBytes(EntryFile(key));
    bytes[100] ^= 1;
    const auto time = std::filesystem::last_write_time(EntryFile(key));
    testing::WriteFile(EntryFile(key), bytes);
    std::filesystem::last_write_time(EntryFile(key), time);
    EXPECT_THAT(cache->Read(Kind::kArtifact, key),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  }
  EXPECT_EQ(cache->bytes(), 3 * (kHeadBytes + 1));
  for (const char* key : {"d", "e"}) ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
  EXPECT_THAT(FilesIn("quarantine"),
              ElementsAre("artifacts-" + DigestOf("new").ToString() + ".latent"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "f", "x"));
  EXPECT_THAT(FilesIn("quarantine"), IsEmpty());
  EXPECT_THAT(KeysOf(*cache), ElementsAre("f", "e", "d", "b"));
  EXPECT_EQ(Evictions(), 0);
}

TEST_F(DiskCacheTest, ShowsItsBytesAndBudget) {
  const auto cache = Open(3 * kHeadBytes);
  EXPECT_EQ(registry.GetGauge(metrics::kGraphCacheBudget, {"disk"}).Value(), 3 * kHeadBytes);
  EXPECT_EQ(ByteGauge(), 0);
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "12345"));
  EXPECT_EQ(ByteGauge(), kHeadBytes + 5);
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "1"));
  EXPECT_EQ(ByteGauge(), kHeadBytes + 1);
  ASSERT_OK(cache->Write(Kind::kArtifact, "b", "1"));
  ASSERT_OK(cache->Write(Kind::kArtifact, "c", "1"));
  EXPECT_EQ(ByteGauge(), 2 * (kHeadBytes + 1));
  ASSERT_OK(cache->Remove(Kind::kArtifact, "c"));
  EXPECT_EQ(ByteGauge(), kHeadBytes + 1);
}

TEST_F(DiskCacheTest, RefusesAKeyThatIsTooLong) {
  EXPECT_THAT(
      Open(int64_t{1} << 30)->Write(Kind::kArtifact, std::string(kMaxKeyBytes + 1, 'k'), "x"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1048576")));
}

TEST_F(DiskCacheTest, RefusesABudgetOfNothing) {
  EXPECT_THAT(TryOpen(0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

TEST_F(DiskCacheTest, MakesADirectoryForItsOwnerOnly) {
  root = temporary.File("several/levels/down");
  Open();
  struct stat info;
  ASSERT_EQ(stat(root.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DiskCacheTest, GoesOnWhenSomebodyEmptiedTheDirectory) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  std::filesystem::remove_all(root);
  EXPECT_THAT(cache->Read(Kind::kArtifact, "a"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_THAT(cache->List(Kind::kArtifact), IsEmpty());
  EXPECT_OK(cache->Write(Kind::kArtifact, "a", "x"));
  EXPECT_OK(cache->Read(Kind::kArtifact, "a"));
}

}  // namespace
}  // namespace latentd::cache
