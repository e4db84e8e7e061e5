#include "core/base/files/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(MappedFileTest, ShowsTheFilesBytes) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.File("a"), "some bytes");
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(directory.File("a")));
  EXPECT_EQ(file->bytes(), "some bytes");
  EXPECT_EQ(file->path(), directory.File("a"));
}

TEST(MappedFileTest, StaysReadableWhenTheFileIsReplaced) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.File("a"), "old");
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(directory.File("a")));
  testing::WriteFile(directory.File("b"), "new");
  std::filesystem::rename(directory.File("b"), directory.File("a"));
  EXPECT_EQ(file->bytes(), "old");
}

TEST(MappedFileTest, MapsAnEmptyFile) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.File("a"), "");
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(directory.File("a")));
  EXPECT_EQ(file->bytes(), "");
}

TEST(MappedFileTest, RefusesADirectory) {
  EXPECT_THAT(MappedFile::Open("/proc"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/proc is a directory")));
}

TEST(MappedFileTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(MappedFile::Open("/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace latentd
