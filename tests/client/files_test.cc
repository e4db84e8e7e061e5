#include "client/options/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;

class FilesTest : public ::testing::Test {
 protected:
  size_t FileCount() const {
    const std::filesystem::directory_iterator files(folder_.path());
    return std::distance(begin(files), end(files));
  }

  const testing::TemporaryDirectory folder_;
  const std::string path_ = (std::filesystem::path(folder_.path()) / "picture.png").string();
};

TEST_F(FilesTest, AFileAppearsOnceAndIsReplacedWhenAskedFor) {
  ASSERT_OK(WriteFile(path_, "first", Overwrite::kNever));
  EXPECT_THAT(WriteFile(path_, "second", Overwrite::kNever),
              StatusIs(absl::StatusCode::kAlreadyExists, _));
  EXPECT_EQ(*ReadFile(path_), "first");
  ASSERT_OK(WriteFile(path_, "third", Overwrite::kReplace));
  EXPECT_EQ(*ReadFile(path_), "third");
  EXPECT_EQ(FileCount(), 1u);
}

void WriteHalf(const std::string& path, Overwrite overwrite) {
  const rlimit limit = {1000, 1000};
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, SIG_DFL);
  WriteFile(path, std::string(2000, 'x'), overwrite).IgnoreError();
}

TEST_F(FilesTest, AProcessThatIsEndedWhileItWritesLeavesNoHalfOfAFile) {
  EXPECT_EXIT(WriteHalf(path_, Overwrite::kNever), ::testing::KilledBySignal(SIGXFSZ), "");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FilesTest, AFileThatCannotBeWrittenLeavesNothing) {
  const std::string in_nowhere = path_ + "/picture.png";
  EXPECT_FALSE(WriteFile(in_nowhere, "bytes", Overwrite::kNever).ok());
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(WriteFile(path_, "bytes", Overwrite::kReplace).ok());
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(FilesTest, AFileOfPartsAppearsWithItsLastOne) {
  auto file = PartFile::Open(path_, Overwrite::kNever);
  ASSERT_OK(file);
  ASSERT_OK((*file)->Write("first "));
  ASSERT_OK((*file)->Write("second"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_OK((*file)->Finish());
  EXPECT_EQ(*ReadFile(path_), "first second");
  EXPECT_EQ(FileCount(), 1u);
  file = PartFile::Open(path_, Overwrite::kNever);
  ASSERT_OK(file);
  EXPECT_THAT((*file)->Finish(), StatusIs(absl::StatusCode::kAlreadyExists, _));
}

TEST_F(FilesTest, NothingIsLeftOfPartsWithoutAnEnd) {
  {
    const auto file = PartFile::Open(path_, Overwrite::kReplace);
    ASSERT_OK(file);
    ASSERT_OK((*file)->Write("first"));
  }
  EXPECT_EQ(FileCount(), 0u);
}

}  // namespace
}  // namespace latentd::client
