#include "core/base/process/admin_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd {
namespace {

using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::testing::HasSubstr;

TEST(AdminSocketTest, IsWhereTheUsersSocketsAre) {
  EXPECT_EQ(AdminSocketFolder("/run/user/7", 7), "/run/user/7/latentd");
  EXPECT_EQ(AdminSocketFolder("run", 7), "/tmp/latentd-7");
  EXPECT_EQ(AdminSocketFolder("", 7), "/tmp/latentd-7");
  EXPECT_EQ(AdminSocketFolder(nullptr, 7), "/tmp/latentd-7");
  EXPECT_EQ(AdminSocketAddress("/run/user/7/latentd", "50051"),
            "unix:/run/user/7/latentd/50051.sock");
}

class OwnFolderTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.File("latentd");
};

TEST_F(OwnFolderTest, IsMadeForItsUserAlone) {
  EXPECT_EQ(CheckOwnFolder(folder_).code(), absl::StatusCode::kNotFound);
  ASSERT_OK(MakeOwnFolder(folder_));
  struct stat made = {};
  ASSERT_EQ(stat(folder_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
  EXPECT_OK(MakeOwnFolder(folder_));
  EXPECT_OK(CheckOwnFolder(folder_));
}

TEST_F(OwnFolderTest, OneThatOthersMayEnterIsRefused) {
  ASSERT_OK(MakeOwnFolder(folder_));
  for (mode_t mode : {0710u, 0701u, 0720u}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_THAT(MakeOwnFolder(folder_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("0700")));
  }
}

// Another user can put a link there before the server starts.
TEST_F(OwnFolderTest, ALinkIsNone) {
  ASSERT_OK(MakeOwnFolder(folder_));
  const std::string link = directory_.File("link");
  std::filesystem::create_symlink(folder_, link);
  EXPECT_THAT(MakeOwnFolder(link),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no folder")));
}

TEST_F(OwnFolderTest, OneThatCannotBeMadeIsNamed) {
  EXPECT_THAT(MakeOwnFolder("/no/such/folder"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("/no/such/folder")));
}

// Only root can give one away.
TEST_F(OwnFolderTest, AnotherUsersIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "this needs root";
  ASSERT_OK(MakeOwnFolder(folder_));
  ASSERT_EQ(chown(folder_.c_str(), 1, 1), 0);
  EXPECT_THAT(MakeOwnFolder(folder_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another user")));
}

}  // namespace
}  // namespace latentd
