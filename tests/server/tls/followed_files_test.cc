#include "server/tls/followed_files.h"

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server::tls {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

using Files = FollowedFiles<std::string>;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Both contents, if they are of one length.
absl::StatusOr<std::string> Join(const Files::Contents& contents) {
  if (contents[0].size() != contents[1].size()) return absl::InvalidArgumentError("do not fit");
  return contents[0] + contents[1];
}

class FollowedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(a_, "a");
    Write(b_, "b");
  }

  const testing::TemporaryDirectory directory_;
  const std::string a_ = directory_.File("a");
  const std::string b_ = directory_.File("b");
};

TEST_F(FollowedFilesTest, ReadsThemAtOnce) {
  ASSERT_OK_AND_ASSIGN(const auto files, Files::Open({a_, b_}, Join));
  EXPECT_EQ(*files->value(), "ab");
  EXPECT_FALSE(*files->Refresh());
}

TEST_F(FollowedFilesTest, SaysWhatIsMissing) {
  EXPECT_THAT(Files::Open({a_, directory_.File("none")}, Join),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST_F(FollowedFilesTest, FollowsAChange) {
  ASSERT_OK_AND_ASSIGN(const auto files, Files::Open({a_, b_}, Join));
  const auto before = files->value();
  Write(b_, "c");
  EXPECT_TRUE(*files->Refresh());
  EXPECT_EQ(*files->value(), "ac");
  EXPECT_EQ(*before, "ab");
}

TEST_F(FollowedFilesTest, StaysWithTheLastGoodValueAndSaysSoOnce) {
  ASSERT_OK_AND_ASSIGN(const auto files, Files::Open({a_, b_}, Join));
  Write(a_, "12");
  EXPECT_THAT(files->Refresh(), StatusIs(absl::StatusCode::kInvalidArgument, "do not fit"));
  EXPECT_FALSE(*files->Refresh());
  std::filesystem::remove(a_);
  EXPECT_THAT(files->Refresh(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/a")));
  EXPECT_FALSE(*files->Refresh());
  EXPECT_EQ(*files->value(), "ab");
  Write(a_, "12");
  Write(b_, "34");
  EXPECT_TRUE(*files->Refresh());
  EXPECT_EQ(*files->value(), "1234");
}

TEST_F(FollowedFilesTest, FollowsALinkThatIsSwapped) {
  // As Kubernetes replaces a secret: the files are links into a directory that is one itself.
  for (const std::string version : {"1", "2"}) {
    std::filesystem::create_directory(directory_.File(version));
    Write(directory_.File(version + "/a"), version);
    Write(directory_.File(version + "/b"), version);
  }
  const std::string data = directory_.File("data");
  std::filesystem::create_directory_symlink("1", data);
  ASSERT_OK_AND_ASSIGN(const auto files, Files::Open({data + "/a", data + "/b"}, Join));
  EXPECT_EQ(*files->value(), "11");
  std::filesystem::create_directory_symlink("2", data + ".new");
  std::filesystem::rename(data + ".new", data);
  EXPECT_TRUE(*files->Refresh());
  EXPECT_EQ(*files->value(), "22");
}

}  // namespace
}  // namespace latentd::server::tls
