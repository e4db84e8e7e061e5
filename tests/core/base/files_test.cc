#include "core/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

}  // namespace
}  // namespace latentd
