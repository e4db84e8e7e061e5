// Faults of a machine under a cache: no room, no right to write, no right to enter.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "core/cache/disk_cache.h"
#include "tests/core/cache/cache_fixture.h"
#include "tests/core/cache/child_process.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::cache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kChildCannot;
using testing::RunInChild;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr uid_t kNobody = 65534;

void LimitFileSize(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// Leaves root, which may do everything; any other user stays.
void BecomeNobody() {
  if (geteuid() != 0) return;
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) {
    _exit(kChildCannot);
  }
}

// An empty file system of that size at `path`, which only this process sees.
void MountAt(const std::string& path, const char* options) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", path.c_str(), "tmpfs", 0, options) != 0) {
    _exit(kChildCannot);
  }
}

class DiskCacheFaultsTest : public CacheFixture {
 protected:
  // Lets all users read the cache and none write it.
  void MakeReadOnly() {
    SetModes(0555, 0444);
    chmod(temporary.path().c_str(), 0755);
  }
  // Read-only folders could not be removed where the test is not root.
  ~DiskCacheFaultsTest() override { SetModes(0755, 0644); }

 private:
  void SetModes(mode_t directories, mode_t files) {
    if (!std::filesystem::is_directory(root)) return;
    chmod(root.c_str(), 0755);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      chmod(entry.path().c_str(), entry.is_directory() ? 0755 : files);
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_directory()) chmod(entry.path().c_str(), directories);
    }
    chmod(root.c_str(), directories);
  }
};

TEST_F(DiskCacheFaultsTest, AFileThatMayNotGrowIsNoSpace) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "before", "x"));
  EXPECT_EQ(RunInChild([&] {
              LimitFileSize(50'000);
              EXPECT_THAT(cache->Write(Kind::kArtifact, "large", std::string(60'000, 'x')),
                          StatusIs(absl::StatusCode::kResourceExhausted,
                                   AllOf(HasSubstr(root), HasSubstr("File too large"))));
              EXPECT_EQ(WriteFailures("no_space"), 1);
              EXPECT_THAT(FilesIn("artifacts"), SizeIs(1));
              EXPECT_OK(cache->Read(Kind::kArtifact, "before"));
              EXPECT_OK(cache->Write(Kind::kArtifact, "small", "x"));
            }),
            0);
  EXPECT_OK(cache->Read(Kind::kArtifact, "small"));
}

// Guard: `replaced` in the room that DiskCache::MakeRoom notes.
TEST_F(DiskCacheFaultsTest, KeepsItsBudgetAfterAReplacementThatFailed) {
  const auto cache = Open(90'000);
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", std::string(60'000, 'x')));
  EXPECT_EQ(RunInChild([&] {
              LimitFileSize(20'000);
              EXPECT_THAT(cache->Write(Kind::kArtifact, "key", std::string(30'000, 'x')),
                          StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(root)));
              EXPECT_EQ(cache->bytes(), kHeadBytes + 60'000);
              for (const char* key : {"a", "b"}) {
                EXPECT_OK(cache->Write(Kind::kArtifact, key, std::string(15'000, 'x')));
              }
              EXPECT_LE(cache->bytes(), 90'000);
            }),
            0);
}

TEST_F(DiskCacheFaultsTest, AFullDiskIsNoSpaceAndLeavesNothingBehind) {
  std::filesystem::create_directory(root);
  const int status = RunInChild([&] {
    MountAt(root, "size=200k,mode=0700");
    const auto cache = Open();
    ASSERT_OK(cache->Write(Kind::kArtifact, "before", std::string(100'000, 'x')));
    EXPECT_THAT(cache->Write(Kind::kArtifact, "large", std::string(100'000, 'x')),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")));
    EXPECT_EQ(WriteFailures("no_space"), 1);
    EXPECT_EQ(ByteGauge(), kHeadBytes + 100'000);
    EXPECT_THAT(FilesIn("artifacts"), SizeIs(1));
    EXPECT_OK(cache->Read(Kind::kArtifact, "before"));
    EXPECT_OK(cache->Write(Kind::kArtifact, "small", "x"));
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not mount a file system";
  EXPECT_EQ(status, 0);
}

// The volume is exactly as large as the budget: room has to be made before it is taken.
TEST_F(DiskCacheFaultsTest, GoesOnEvictingOnADiskOfTheSizeOfItsBudget) {
  std::filesystem::create_directory(root);
  const int status = RunInChild([&] {
    MountAt(root, "size=200k,mode=0700");
    const auto cache = Open(200 << 10);
    for (const char* key : {"a", "b", "c", "d", "e"}) {
      ASSERT_OK(cache->Write(Kind::kArtifact, key, std::string(80'000, 'x')));
    }
    EXPECT_THAT(KeysOf(*cache), ElementsAre("e", "d"));
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not mount a file system";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheFaultsTest, ReadsFromAReadOnlyFileSystem) {
  std::filesystem::create_directory(root);
  const int status = RunInChild([&] {
    MountAt(root, "size=200k,mode=0700");
    ASSERT_OK(Open()->Write(Kind::kArtifact, "key", "payload"));
    ASSERT_EQ(mount("none", root.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    const auto cache = Open();
    ASSERT_OK_AND_ASSIGN(const std::string payload, ReadPayload(*cache, "key"));
    EXPECT_EQ(payload, "payload");
    EXPECT_THAT(cache->Write(Kind::kArtifact, "key", "x"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("Read-only")));
    EXPECT_EQ(WriteFailures("read_only"), 1);
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not mount a file system";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheFaultsTest, ReadsFromADirectoryThatItMayNotWrite) {
  ASSERT_OK(Open()->Write(Kind::kArtifact, "key", "payload"));
  ASSERT_OK(Open()->Write(Kind::kArtifact, "damaged", "payload"));
  testing::WriteFile(EntryFile("damaged"), "short");
  MakeReadOnly();
  const int status = RunInChild([&] {
    BecomeNobody();
    const auto cache = Open(1);  // nothing can be evicted, and that is no error
    ASSERT_OK_AND_ASSIGN(const std::string payload, ReadPayload(*cache, "key"));
    EXPECT_EQ(payload, "payload");
    EXPECT_THAT(KeysOf(*cache), ElementsAre("key"));
    for (int again = 0; again < 2; ++again) {
      EXPECT_THAT(cache->Read(Kind::kArtifact, "damaged"),
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr("cut short"), HasSubstr("could not be set aside"))));
    }
    EXPECT_THAT(Open()->Write(Kind::kArtifact, "new", "x"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(root)));
    EXPECT_EQ(WriteFailures("read_only"), 1);
    EXPECT_THAT(cache->Remove(Kind::kArtifact, "key"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(root)));
    EXPECT_THAT(cache->SetPinned(Kind::kArtifact, "key", true),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(root)));
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not become another user";
  EXPECT_EQ(status, 0);
}

// Guard: `refused_` in DiskCache: a server that may only read would take the file for an entry
// again.
TEST_F(DiskCacheFaultsTest, DoesNotListWhatItRefusedAndCouldNotSetAside) {
  const auto cache = Open();
  ASSERT_OK(cache->Write(Kind::kArtifact, "key", "payload"));
  std::string bytes = FileBytes(EntryFile("key"));
  bytes.back() ^= 1;
  testing::WriteFile(EntryFile("key"), bytes);
  EXPECT_THAT(KeysOf(*cache), ElementsAre("key"));
  {
    const FileDescriptor lock(open((root + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
    EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("could not be set aside")));
  }
  EXPECT_TRUE(std::filesystem::exists(EntryFile("key")));
  EXPECT_FALSE(cache->Contains(Kind::kArtifact, "key"));
  EXPECT_THAT(KeysOf(*cache), IsEmpty());
  ASSERT_OK(Open()->Write(Kind::kArtifact, "key", "anew"));
  EXPECT_THAT(KeysOf(*cache), ElementsAre("key"));
}

TEST_F(DiskCacheFaultsTest, SaysThatAFileMayNotBeRead) {
  ASSERT_OK(Open()->Write(Kind::kArtifact, "key", "payload"));
  MakeReadOnly();
  chmod(EntryFile("key").c_str(), 0);
  const int status = RunInChild([&] {
    BecomeNobody();
    const auto cache = Open();
    EXPECT_THAT(cache->Read(Kind::kArtifact, "key"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(EntryFile("key"))));
    EXPECT_EQ(LoadFailures("unreadable"), 1);
    EXPECT_FALSE(cache->Contains(Kind::kArtifact, "key"));
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not become another user";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheFaultsTest, SaysThatADirectoryMayNotBeEntered) {
  Open();
  chmod(temporary.path().c_str(), 0755);
  chmod(root.c_str(), geteuid() == 0 ? 0700 : 0);
  const int status = RunInChild([&] {
    BecomeNobody();
    EXPECT_THAT(TryOpen(), StatusIs(absl::StatusCode::kPermissionDenied,
                                    AllOf(HasSubstr("cannot enter"), HasSubstr(root))));
  });
  if (status == kChildCannot) GTEST_SKIP() << "may not become another user";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheFaultsTest, SaysThatADirectoryMayNotBeMade) {
  chmod(temporary.path().c_str(), 0555);
  const int status = RunInChild([&] {
    BecomeNobody();
    EXPECT_THAT(TryOpen(), StatusIs(absl::StatusCode::kPermissionDenied,
                                    HasSubstr("cannot make the directory " + root)));
    EXPECT_EQ(WriteFailures("read_only"), 1);
  });
  chmod(temporary.path().c_str(), 0755);
  if (status == kChildCannot) GTEST_SKIP() << "may not become another user";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheFaultsTest, RefusesADirectoryThatEverybodyMayWrite) {
  Open();
  for (const std::string& path : {root, root + "/artifacts"}) {
    chmod(path.c_str(), 0777);
    EXPECT_THAT(TryOpen(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod o-w " + path)));
    chmod(path.c_str(), 01777);
    EXPECT_OK(TryOpen());
  }
}

TEST_F(DiskCacheFaultsTest, RefusesAFileAsDirectory) {
  testing::WriteFile(root, "x");
  EXPECT_THAT(TryOpen(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr(root + " is not a directory")));
  EXPECT_EQ(WriteFailures("other"), 1);
}

// In their place no entry could be written: it would be made anew at each start.
TEST_F(DiskCacheFaultsTest, SetsAsideWhatIsNoFileAndTakesAnEntryInItsPlace) {
  const std::pair<const char*, void (*)(const std::string&)> cases[] = {
      {"is a directory",
       [](const std::string& path) { std::filesystem::create_directories(path + "/with/others"); }},
      {"is not a regular file", [](const std::string& path) { mkfifo(path.c_str(), 0600); }},
  };
  for (const auto& [what, make] : cases) {
    const std::string key = what;
    Open();
    make(EntryFile(key));
    const auto cache = Open();
    EXPECT_THAT(cache->Read(Kind::kArtifact, key),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(EntryFile(key)), HasSubstr(what),
                               HasSubstr("it is now " + QuarantineFile(key)))));
    EXPECT_TRUE(std::filesystem::exists(QuarantineFile(key)));
    EXPECT_EQ(cache->Read(Kind::kArtifact, key).status().code(), absl::StatusCode::kNotFound);
    ASSERT_OK(cache->Write(Kind::kArtifact, key, "x"));
    ASSERT_OK_AND_ASSIGN(const std::string payload, ReadPayload(*Open(), key));
    EXPECT_EQ(payload, "x");
  }
  EXPECT_EQ(LoadFailures("corrupt"), 2);
  EXPECT_EQ(LoadFailures("unreadable"), 0);
  EXPECT_EQ(WriteFailures("other"), 0);
}

}  // namespace
}  // namespace latentd::cache
