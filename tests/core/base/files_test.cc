#include "core/base/files/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(ReadFileTest, GivesAllBytes) {
  const testing::TemporaryDirectory directory;
  const std::string bytes = std::string(100'000, 'x') + std::string("\0y", 2);
  testing::WriteFile(directory.File("a"), bytes);
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(directory.File("a"), bytes.size()));
  EXPECT_EQ(read, bytes);
}

TEST(ReadFileTest, RefusesMoreThanTheLimit) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.File("a"), std::string(100'001, 'x'));
  EXPECT_THAT(ReadFile(directory.File("a"), 100'000),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(directory.File("a")), HasSubstr("100000 bytes"))));
}

TEST(ReadFileTest, ReadsFilesThatSayTheyHaveNoBytes) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile("/proc/self/status", 1 << 20));
  EXPECT_THAT(text, HasSubstr("Name:"));
}

TEST(ReadFileTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(ReadFile("/nowhere/at/all", 10),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/at/all")));
}

TEST(ReadFileTest, SaysThatALinkLeadsNowhere) {
  const testing::TemporaryDirectory directory;
  std::filesystem::create_symlink("gone", directory.File("link"));
  EXPECT_THAT(ReadFile(directory.File("link"), 10),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("a symbolic link to gone")));
}

TEST(ReadFileTest, RefusesADirectory) {
  EXPECT_THAT(ReadFile("/proc", 10),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/proc is a directory")));
}

TEST(ReadFileTest, DoesNotWaitForAPipe) {
  const testing::TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(directory.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(directory.File("pipe"), 10),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(CheckDirectoryTest, TakesADirectory) {
  const testing::TemporaryDirectory directory;
  EXPECT_OK(CheckDirectory(directory.path()));
}

TEST(CheckDirectoryTest, SaysWhyADirectoryCannotBeOpened) {
  const testing::TemporaryDirectory directory;
  EXPECT_THAT(CheckDirectory(directory.File("gone")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone: No such file")));
  testing::WriteFile(directory.File("file"), "x");
  EXPECT_THAT(CheckDirectory(directory.File("file")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Not a directory")));
  std::filesystem::create_symlink("loop", directory.File("loop"));
  EXPECT_THAT(CheckDirectory(directory.File("loop")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("symbolic links")));
}

// Root may open everything, so the test does without its rights.
class AsNobody {
 public:
  AsNobody() : user_(geteuid()) {
    if (user_ == 0 && seteuid(65534) != 0) std::abort();
  }
  ~AsNobody() {
    if (user_ == 0 && seteuid(0) != 0) std::abort();
  }

 private:
  const uid_t user_;
};

TEST(CheckDirectoryTest, ADirectoryThatMayNotBeReadIsNotMissing) {
  const testing::TemporaryDirectory directory;
  const std::string inner = directory.File("inner");
  std::filesystem::create_directory(inner);
  for (const mode_t mode : {0000, 0444}) {  // the second lets it be listed
    ASSERT_EQ(chmod(inner.c_str(), mode), 0);
    ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
    const AsNobody nobody;
    EXPECT_THAT(CheckDirectory(inner), StatusIs(absl::StatusCode::kPermissionDenied,
                                                AllOf(HasSubstr(inner), HasSubstr("denied"))));
  }
  ASSERT_EQ(chmod(inner.c_str(), 0000), 0);
  {
    const AsNobody nobody;
    EXPECT_THAT(CheckDirectory(inner + "/deeper"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("deeper")));
  }
  ASSERT_EQ(chmod(inner.c_str(), 0111), 0);
  {
    const AsNobody nobody;
    EXPECT_OK(CheckDirectory(inner));  // names can be looked up, if not listed
  }
  ASSERT_EQ(chmod(inner.c_str(), 0755), 0);
}

}  // namespace
}  // namespace latentd
