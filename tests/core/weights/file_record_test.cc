#include "core/weights/file_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/errors/error_details.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using testing::EditInPlace;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::UntilItShows;

constexpr size_t kMost = 100;
constexpr char kOld[] = R"({"a": 1})";
constexpr char kNew[] = R"({"a": 2})";

class FileRecordTest : public ::testing::Test {
 protected:
  FileRecordTest() {
    testing::WriteFile(path_, kOld);
    EXPECT_EQ(*records_.Read(path_, kMost), kOld);
    file_ = records_.files().at(0);
  }

  void ExpectUntouched() {
    EXPECT_OK(file_->CheckUnchanged());
    EXPECT_FALSE(file_->IsReplaced());
  }
  void ExpectChanged() {
    const absl::Status status = file_->CheckUnchanged();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
    EXPECT_EQ(GetReason(status), kCheckpointChanged);
  }
  // As mv does.
  void Replace(const std::string& content) {
    testing::WriteFile(directory_.File("other"), content);
    std::filesystem::rename(directory_.File("other"), path_);
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("config.json");
  FileRecords records_;
  std::shared_ptr<const WatchedFile> file_;
};

TEST_F(FileRecordTest, SeesAnEditWithItsTimeKeptForEver) {
  ExpectUntouched();
  EditInPlace(path_, kNew);
  ExpectChanged();
  EditInPlace(path_, kOld);
  ExpectChanged();
  EXPECT_FALSE(file_->IsReplaced());
}

TEST_F(FileRecordTest, SeesAFileThatWasCutShortOrGrew) {
  ASSERT_EQ(truncate(path_.c_str(), 3), 0);
  ExpectChanged();
  testing::WriteFile(directory_.File("long"), kOld);
  ASSERT_OK(records_.Read(directory_.File("long"), kMost));
  const auto grown = records_.files().at(1);
  ASSERT_EQ(truncate(grown->path().c_str(), 10 * kMost), 0);
  EXPECT_FALSE(grown->CheckUnchanged().ok());
}

TEST_F(FileRecordTest, OtherModesTimesLinksAndTheSameContentAnewChangeNothing) {
  UntilItShows(path_, [&] { ASSERT_EQ(chmod(path_.c_str(), 0600), 0); });
  ExpectUntouched();
  UntilItShows(path_, [&] {
    const timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  });
  ExpectUntouched();
  std::filesystem::create_hard_link(path_, directory_.File("link"));
  ExpectUntouched();
  EditInPlace(path_, kOld);
  ExpectUntouched();
  EditInPlace(path_, kNew);
  ExpectChanged();
}

TEST_F(FileRecordTest, AReplacedFileIsSaidButIsNoEdit) {
  Replace(kNew);
  EXPECT_TRUE(file_->IsReplaced());
  EXPECT_OK(file_->CheckUnchanged());
  std::filesystem::remove(path_);
  EXPECT_TRUE(file_->IsReplaced());
  std::filesystem::create_directory(path_);
  EXPECT_TRUE(file_->IsReplaced());
  EXPECT_OK(file_->CheckUnchanged());
}

TEST_F(FileRecordTest, AFileOfTheSameContentIsNoOtherAndIsWatchedThen) {
  Replace(kOld);
  ExpectUntouched();
  EditInPlace(path_, kNew);
  ExpectChanged();
}

// The snapshots of a Hugging Face cache are links to blobs.
TEST_F(FileRecordTest, ALinkIsWhatItLeadsTo) {
  for (const char* blob : {"blob", "same"}) testing::WriteFile(directory_.File(blob), kOld);
  testing::WriteFile(directory_.File("new"), kNew);
  const std::string link = directory_.File("a_link");
  std::filesystem::create_symlink("blob", link);
  ASSERT_OK(records_.Read(link, kMost));
  file_ = records_.files().at(0);
  ASSERT_EQ(file_->path(), link);
  ExpectUntouched();
  std::filesystem::remove(link);
  std::filesystem::create_symlink("same", link);
  ExpectUntouched();
  std::filesystem::remove(link);
  std::filesystem::create_symlink("new", link);
  EXPECT_TRUE(file_->IsReplaced());
}

TEST_F(FileRecordTest, AFileThatIsReadAgainIsRememberedAsItWasFirst) {
  EditInPlace(path_, kNew);
  EXPECT_EQ(*records_.Read(path_, kMost), kNew);
  ASSERT_THAT(records_.files(), SizeIs(1));
  file_ = records_.files().at(0);
  ExpectChanged();
}

TEST_F(FileRecordTest, WhatCannotBeReadIsNotRemembered) {
  FileRecords records;
  EXPECT_THAT(records.Read(path_, 3), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr(path_ + " is longer than 3 bytes")));
  EXPECT_THAT(records.Read(path_ + ".no", kMost),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_ + ".no")));
  EXPECT_THAT(records.files(), IsEmpty());
}

}  // namespace
}  // namespace latentd::weights
