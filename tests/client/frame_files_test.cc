#include "client/options/frame_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

namespace fs = std::filesystem;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

FrameFiles FilesOf(const std::string& output, int videos = 1,
                   Overwrite overwrite = Overwrite::kNever) {
  return FrameFiles::Create({.output = output, .extension = "png", .seed = 7, .videos = videos},
                            overwrite)
      .value();
}

class FrameFilesTest : public ::testing::Test {
 protected:
  FrameFilesTest() : folder_(fs::path(::testing::TempDir()) / absl::StrCat("frames-", getpid())) {
    fs::create_directories(folder_);
  }
  ~FrameFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  const fs::path folder_;
};

TEST_F(FrameFilesTest, NamesHaveTheFramesNumber) {
  EXPECT_EQ(FilesOf("clip-%02d.png").Name(0, 4), "clip-04.png");
  EXPECT_EQ(FilesOf("clip-%02d.png").Name(0, 123), "clip-123.png");
  EXPECT_EQ(FilesOf("%d").Name(0, 4), "4");
  EXPECT_EQ(FilesOf("a/clip-%03d.png").Name(0, 4), "a/clip-004.png");
  EXPECT_EQ(FilesOf("").Name(0, 4), "latent-7/7-004.png");
  EXPECT_EQ(FilesOf("out/").Name(0, 4), "out/7-004.png");
  EXPECT_EQ(FilesOf(folder_).Name(0, 4), Path("7-004.png"));
}

TEST_F(FrameFilesTest, OtherNamesAreOneFiles) {
  for (const char* output : {"", "clip-%d.png", "out/"}) EXPECT_TRUE(NamesFrames(output)) << output;
  EXPECT_TRUE(NamesFrames(folder_));
  for (const char* output : {"-", "clip.png", "a/clip.webp"}) {
    EXPECT_FALSE(NamesFrames(output)) << output;
  }
}

TEST_F(FrameFilesTest, SeveralVideosHaveNumbersToo) {
  EXPECT_EQ(FilesOf("clip-%02d.png", 2).Name(1, 4), "clip-2-04.png");
  EXPECT_EQ(FilesOf("out/", 2).Name(1, 4), "out/7-2-004.png");
}

TEST_F(FrameFilesTest, PreviewsHaveAWordInTheNumbersPlace) {
  EXPECT_EQ(FilesOf("clip-%02d.png").PreviewName(0), "clip-preview.webp");
  EXPECT_EQ(FilesOf("clip.%03d").PreviewName(0), "clip.preview.webp");
  EXPECT_EQ(FilesOf("a.b/clip%d").PreviewName(0), "a.b/clippreview.webp");
  EXPECT_EQ(FilesOf("clip-%d-small.png").PreviewName(0), "clip-preview.webp");
  EXPECT_EQ(FilesOf("out/").PreviewName(0), "out/7-preview.webp");
  EXPECT_EQ(FilesOf("clip.%03d", 2).PreviewName(1), "clip.2-preview.webp");
}

TEST_F(FrameFilesTest, APercentSignIsANumbersPlace) {
  for (const char* output : {"%", "%s", "a%02", "%d%d", "100%", "%99999999999d.png", "%10d"}) {
    EXPECT_THAT(FrameFiles::Create({.output = output}, Overwrite::kNever),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("clip-%03d.png")))
        << output;
  }
}

TEST_F(FrameFilesTest, WritesAndOverwritesNothing) {
  const FrameFiles files = FilesOf(Path("new/sub/"));
  ASSERT_OK(files.Prepare(2));
  const auto name = files.Write(0, 1, "bytes");
  ASSERT_OK(name);
  std::ifstream file(*name);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "bytes");
  EXPECT_THAT(files.Prepare(2), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--force")));
  EXPECT_OK(files.Prepare(1));
  EXPECT_THAT(files.Write(0, 1, "x").status(), StatusIs(absl::StatusCode::kAlreadyExists, _));
  const FrameFiles forced = FilesOf(Path("new/sub/"), 1, Overwrite::kReplace);
  EXPECT_OK(forced.Prepare(2));
  EXPECT_OK(forced.Write(0, 1, "x"));
}

TEST_F(FrameFilesTest, AFolderThatIsNotThereIsMadeOnlyWhereItIsOne) {
  EXPECT_THAT(FilesOf(Path("no/clip-%d.png")).Prepare(1), StatusIs(_, HasSubstr("no")));
  EXPECT_FALSE(fs::exists(Path("no")));
}

}  // namespace
}  // namespace latentd::client
