#include "client/options/picture_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

namespace fs = std::filesystem;
namespace v1 = ::latent::v1;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

class PictureFilesTest : public ::testing::Test {
 protected:
  PictureFilesTest()
      : folder_(fs::path(::testing::TempDir()) / absl::StrCat("pictures-", getpid())) {
    fs::create_directories(folder_);
  }
  ~PictureFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  // Files of one prompt.
  static PictureFiles Files(const std::string& output, int pictures = 1,
                            Overwrite overwrite = Overwrite::kNever) {
    return PictureFiles(
        {.output = output, .extension = "png", .seed = 7, .pictures = pictures, .total = pictures},
        overwrite);
  }

  static v1::Image Picture(int index, uint64_t seed, const std::string& data) {
    v1::Image image;
    image.set_index(index);
    image.set_seed(seed);
    image.set_data(data);
    return image;
  }

  std::string Read(const std::string& name) {
    absl::StatusOr<std::string> bytes = ReadFile(Path(name));
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }

  const fs::path folder_;
};

TEST_F(PictureFilesTest, TheDefaultNameHasTheSeed) {
  ASSERT_OK(Files("").Check());
  EXPECT_EQ(Files("").Name(0), "latent-7.png");
}

TEST_F(PictureFilesTest, AFolderGetsTheDefaultName) {
  EXPECT_EQ(Files(folder_).Name(0), Path("latent-7.png"));
  EXPECT_EQ(Files("none/", 2).Name(1), "none/latent-7-2.png");
  EXPECT_THAT(Files("none/").Check(), StatusIs(_, HasSubstr("none: No such file")));
  EXPECT_TRUE(IsFolder(folder_));
  EXPECT_TRUE(IsFolder("none/"));
  EXPECT_FALSE(IsFolder("none"));
}

TEST_F(PictureFilesTest, PicturesOfSeveralPromptsAreNumberedOn) {
  PictureNames names = {
      .output = "star.png", .extension = "png", .seed = 7, .pictures = 2, .total = 4};
  EXPECT_EQ(PictureFiles(names, Overwrite::kNever).Name(1), "star-2.png");
  names.before = 2;
  EXPECT_EQ(PictureFiles(names, Overwrite::kNever).Name(0), "star-3.png");
  names.output = "-";
  names.pictures = 1;
  EXPECT_THAT(PictureFiles(names, Overwrite::kNever).Check(),
              StatusIs(_, HasSubstr("one picture")));
}

TEST_F(PictureFilesTest, PreviewsAreBesideTheirPictureAndReplaceEachOther) {
  const PictureFiles files = Files(Path("star.png"), 2);
  ASSERT_OK(files.Check());
  ASSERT_OK(files.CheckPreviews());
  v1::Preview preview;
  preview.set_image_index(1);
  for (const char* data : {"older", "newer"}) {
    preview.set_data(data);
    ASSERT_OK_AND_ASSIGN(const std::string name, files.WritePreview(preview));
    EXPECT_EQ(name, Path("star-2.preview.jpg"));
  }
  EXPECT_EQ(Read("star-2.preview.jpg"), "newer");
  EXPECT_THAT(files.CheckPreviews(), StatusIs(absl::StatusCode::kAlreadyExists, _));
}

TEST_F(PictureFilesTest, PreviewsOfAVideoAreAnimations) {
  const PictureFiles files({.output = Path("clip.avi"), .preview_extension = "webp"},
                           Overwrite::kNever);
  v1::VideoPreview preview;
  preview.set_data("animation");
  ASSERT_OK_AND_ASSIGN(const std::string name, files.WritePreview(preview));
  EXPECT_EQ(name, Path("clip.preview.webp"));
  EXPECT_EQ(Read("clip.preview.webp"), "animation");
}

TEST_F(PictureFilesTest, StandardOutputHasNoPlaceForPreviews) {
  EXPECT_THAT(Files("-").CheckPreviews(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--previews")));
}

TEST_F(PictureFilesTest, SeveralPicturesGetANumber) {
  EXPECT_EQ(Files("", 3).Name(2), "latent-7-3.png");
  EXPECT_EQ(Files("a.b/star.png", 2).Name(0), "a.b/star-1.png");
}

TEST_F(PictureFilesTest, WritesWhatItGets) {
  const PictureFiles files = Files(Path("star.png"), 2);
  ASSERT_OK(files.Check());
  ASSERT_OK_AND_ASSIGN(const std::string name, files.Write(Picture(1, 8, "second")));
  EXPECT_EQ(name, Path("star-2.png"));
  EXPECT_EQ(Read("star-2.png"), "second");
}

TEST_F(PictureFilesTest, NothingIsOverwrittenUnasked) {
  std::ofstream(Path("star.png")) << "mine";
  const PictureFiles files = Files(Path("star.png"));
  EXPECT_THAT(files.Check(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--force")));
  EXPECT_THAT(files.Write(Picture(0, 1, "theirs")), StatusIs(absl::StatusCode::kAlreadyExists, _));
  EXPECT_EQ(Read("star.png"), "mine");
}

TEST_F(PictureFilesTest, ForceReplacesTheFile) {
  std::ofstream(Path("star.png")) << "old";
  const PictureFiles files = Files(Path("star.png"), 1, Overwrite::kReplace);
  ASSERT_OK(files.Check());
  ASSERT_OK(files.Write(Picture(0, 1, "new")));
  EXPECT_EQ(Read("star.png"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(PictureFilesTest, AFolderThatIsNotThereIsFoundBeforeTheCall) {
  EXPECT_THAT(Files(Path("none/star.png")).Check(), StatusIs(_, HasSubstr("none")));
}

TEST_F(PictureFilesTest, ADeviceIsWrittenTo) {
  const PictureFiles files = Files("/dev/null");
  ASSERT_OK(files.Check());
  EXPECT_OK(files.Write(Picture(0, 1, "anything")));
}

TEST_F(PictureFilesTest, StandardOutputTakesOnePicture) {
  EXPECT_OK(Files("-").Check());
  EXPECT_THAT(Files("-", 2).Check(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one picture")));
}

TEST_F(PictureFilesTest, FormatsFollowNames) {
  EXPECT_EQ(FormatOf("a.PNG"), v1::FORMAT_PNG);
  EXPECT_EQ(FormatOf("a.jpeg"), v1::FORMAT_JPEG);
  EXPECT_EQ(FormatOf("b/a.webp"), v1::FORMAT_WEBP);
  EXPECT_EQ(FormatOf("a.rgb"), v1::FORMAT_RAW_RGB8);
  EXPECT_EQ(FormatOf("a.safetensors"), v1::FORMAT_LATENT);
  EXPECT_EQ(ExtensionOf(v1::FORMAT_LATENT), "safetensors");
  EXPECT_EQ(FormatOf("png"), v1::FORMAT_UNSPECIFIED);
}

}  // namespace
}  // namespace latentd::client
