#include "core/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/image/encode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class PillowPictures : public ::testing::TestWithParam<const char*> {};

TEST_P(PillowPictures, HaveThePixelsThatPillowReads) {
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(ReadPicture(GetParam())));
  EXPECT_EQ(image.width, 13);
  EXPECT_EQ(image.height, 9);
  const std::vector<uint8_t> expected = ReadRgb(std::string(GetParam()) + ".rgb");
  ASSERT_EQ(expected.size(), 13 * 9 * 3);
  EXPECT_EQ(image.rgb, expected);
}

INSTANTIATE_TEST_SUITE_P(Png, PillowPictures,
                         ::testing::Values("rgb.png", "rgba.png", "grey.png", "grey-alpha.png",
                                           "palette.png", "palette-transparent.png",
                                           "rgb-transparent.png", "grey-transparent.png",
                                           "interlaced.png", "grey-1.png", "grey-2.png",
                                           "grey-4.png", "palette-1.png", "palette-2.png",
                                           "palette-4.png", "grey-16.png", "rgb-16.png",
                                           "grey-alpha-16.png", "rgba-16.png", "gamma.png"));
INSTANTIATE_TEST_SUITE_P(Jpeg, PillowPictures,
                         ::testing::Values("rgb.jpg", "full-chroma.jpg", "progressive.jpg",
                                           "grey.jpg", "cmyk.jpg"));
INSTANTIATE_TEST_SUITE_P(Webp, PillowPictures,
                         ::testing::Values("lossy.webp", "lossless.webp", "lossy-alpha.webp",
                                           "lossless-alpha.webp"));

class TurnedPictures : public ::testing::TestWithParam<const char*> {};

// turned-1 to turned-4 keep their sides, turned-5 to turned-8 swap them.
TEST_P(TurnedPictures, StandAsTheirExifSays) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = absl::StrCat("turned-", orientation, GetParam());
    ASSERT_OK_AND_ASSIGN(const Image image, Decode(ReadPicture(name)));
    ASSERT_OK_AND_ASSIGN(const Dimensions size, ReadDimensions(ReadPicture(name)));
    EXPECT_EQ(image.width, orientation < 5 ? 13 : 9) << name;
    EXPECT_EQ(image.height, orientation < 5 ? 9 : 13) << name;
    EXPECT_EQ(size.width, image.width) << name;
    EXPECT_EQ(size.height, image.height) << name;
    EXPECT_EQ(image.rgb, ReadRgb(name + ".rgb")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TurnedPictures, ::testing::Values(".jpg", ".png", ".webp"));

// One file of each format and way of coding, to be damaged.
class DamagedPictures : public ::testing::TestWithParam<const char*> {};

// Or read whole, where nothing of the pixels is missing.
TEST_P(DamagedPictures, AreRefusedWhereverTheirPixelsAreCutShort) {
  const std::string bytes = ReadPicture(GetParam());
  ASSERT_GT(bytes.size(), 20);
  ASSERT_OK_AND_ASSIGN(const Image whole, Decode(bytes));
  for (size_t length = 0; length < bytes.size(); ++length) {
    const absl::StatusOr<Image> cut = Decode(bytes.substr(0, length));
    if (cut.ok()) {
      EXPECT_GT(length, bytes.size() - 80);
      EXPECT_TRUE(*cut == whole) << length;
    } else {
      EXPECT_THAT(cut, StatusIs(kInvalid, ::testing::_)) << length;
    }
  }
}

TEST_P(DamagedPictures, NeverCrashWithABitTurned) {
  const std::string bytes = ReadPicture(GetParam());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const absl::StatusOr<Image> image = Decode(damaged);
      if (image.ok()) {
        EXPECT_OK(CheckImage(*image));
      } else {
        EXPECT_EQ(image.status().code(), kInvalid);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedPictures,
                         ::testing::Values("rgb.png", "palette.png", "interlaced.png",
                                           "grey-16.png", "rgb.jpg", "progressive.jpg", "cmyk.jpg",
                                           "lossy.webp", "lossless.webp", "lossy-alpha.webp",
                                           "turned-6.jpg", "turned-6.png", "turned-6.webp"));

TEST(DecodeTest, SaysThatAPngIsDamaged) {
  std::string bytes = ReadPicture("rgb.png");
  bytes[bytes.find("IDAT") + 8] ^= 1;
  EXPECT_THAT(Decode(bytes), StatusIs(kInvalid, HasSubstr("the PNG is damaged or cut short")));
}

TEST(DecodeTest, SaysThatAJpegIsCutShort) {
  const std::string bytes = ReadPicture("rgb.jpg");
  EXPECT_THAT(Decode(bytes.substr(0, bytes.size() - 40)),
              StatusIs(kInvalid, HasSubstr("the JPEG is damaged or cut short")));
}

TEST(DecodeTest, SaysThatAWebpIsCutShort) {
  const std::string bytes = ReadPicture("lossy.webp");
  EXPECT_THAT(Decode(bytes.substr(0, bytes.size() - 40)),
              StatusIs(kInvalid, HasSubstr("the WebP is damaged or cut short")));
}

// The defects that are passed over; odd_pictures_test.cc has Pillow's results for these images.
std::vector<std::string> PassedOverIn(absl::string_view bytes) {
  PassedOver passed_over;
  EXPECT_OK(Decode(bytes, passed_over));
  return passed_over;
}

TEST(DecodeTest, SaysWhatItPassesOver) {
  EXPECT_THAT(PassedOverIn(ReadPicture("animated.webp")),
              ElementsAre("the WebP is animated: its first picture is taken"));
  const std::string png = ReadPicture("rgb.png");
  EXPECT_THAT(PassedOverIn(png.substr(0, png.size() - 12)),
              ElementsAre("the PNG: it has no end (IEND) behind its pixels"));
  const std::string jpeg = ReadPicture("rgb.jpg");
  EXPECT_THAT(PassedOverIn(jpeg.substr(0, jpeg.size() - 2) + std::string(300, 'x')),
              ElementsAre(HasSubstr("the JPEG has no end marker")));
  std::string damaged = jpeg;
  damaged.insert(damaged.size() - 12, "\xFF\xE5");
  EXPECT_THAT(PassedOverIn(damaged), Contains(HasSubstr("the JPEG is damaged")));
  for (const absl::string_view whole : {png, jpeg}) EXPECT_THAT(PassedOverIn(whole), IsEmpty());
}

TEST(DecodeTest, RefusesWhatIsNoPicture) {
  EXPECT_THAT(Decode(""), StatusIs(kInvalid, HasSubstr("it is empty")));
  EXPECT_THAT(Decode("GIF89a and so on"),
              StatusIs(kInvalid, HasSubstr("not a PNG, JPEG or WebP picture: it is a GIF")));
  EXPECT_THAT(Decode(absl::string_view("\0\0\0\x1C"
                                       "ftypavif",
                                       12)),
              StatusIs(kInvalid, HasSubstr("it is an AVIF")));
  EXPECT_THAT(Decode(std::string(1000, '\0')), StatusIs(kInvalid, HasSubstr("not a PNG")));
}

// The checksum of a PNG chunk (the PNG specification, annex D).
uint32_t Crc(absl::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? 0xEDB88320 ^ (crc >> 1) : crc >> 1;
  }
  return ~crc;
}

void PutBigEndian(std::string& bytes, size_t offset, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) {
    bytes[offset + i] = static_cast<char>(value >> (8 * (count - 1 - i)));
  }
}

// Pictures whose header promises another size than there are pixels.
std::string PngOfSize(uint32_t width, uint32_t height) {
  std::string bytes = ReadPicture("rgb.png");
  PutBigEndian(bytes, 16, width, 4);
  PutBigEndian(bytes, 20, height, 4);
  PutBigEndian(bytes, 29, Crc(absl::string_view(bytes).substr(12, 17)), 4);
  return bytes;
}

std::string JpegOfSize(uint32_t width, uint32_t height) {
  std::string bytes = ReadPicture("rgb.jpg");
  const size_t frame = bytes.find("\xFF\xC0");
  PutBigEndian(bytes, frame + 5, height, 2);
  PutBigEndian(bytes, frame + 7, width, 2);
  return bytes;
}

std::string WebpOfLargestSize() {
  std::string bytes = ReadPicture("lossy.webp");
  bytes.replace(26, 4, "\xFF\x3F\xFF\x3F");
  return bytes;
}

TEST(DecodeTest, RefusesAPngBombByItsHeader) {
  EXPECT_THAT(Decode(PngOfSize(100000, 100000)),
              StatusIs(kInvalid, HasSubstr("100000x100000 pixels; at most 8192 a side")));
  EXPECT_THAT(Decode(PngOfSize(0x7FFFFFFF, 0x7FFFFFFF)),
              StatusIs(kInvalid, HasSubstr("2147483647x2147483647 pixels")));
  EXPECT_THAT(Decode(PngOfSize(8192, 2049)), StatusIs(kInvalid, HasSubstr("16777216 in all")));
  EXPECT_THAT(Decode(PngOfSize(0, 5)), StatusIs(kInvalid, HasSubstr("the PNG is damaged")));
}

TEST(DecodeTest, RefusesAJpegBombByItsHeader) {
  EXPECT_THAT(Decode(JpegOfSize(65500, 65500)),
              StatusIs(kInvalid, HasSubstr("65500x65500 pixels; at most 8192 a side")));
}

TEST(DecodeTest, RefusesAWebpBombByItsHeader) {
  EXPECT_THAT(Decode(WebpOfLargestSize()),
              StatusIs(kInvalid, HasSubstr("16383x16383 pixels; at most 8192 a side")));
}

TEST(DecodeTest, RefusesAHeaderThatPromisesMoreThanThereIs) {
  EXPECT_THAT(Decode(PngOfSize(4096, 4096)), StatusIs(kInvalid, HasSubstr("cut short")));
  // Without its end: what is missing of a JPEG before that is grey, for Pillow too.
  const std::string jpeg = JpegOfSize(4096, 4096);
  EXPECT_THAT(Decode(absl::string_view(jpeg).substr(0, jpeg.size() - 2)),
              StatusIs(kInvalid, HasSubstr("cut short")));
}

}  // namespace
}  // namespace latentd::image
