#include "core/image/exif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/image/decode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

// A number of `count` bytes; little-endian for "II", big-endian for "MM".
std::string Number(absl::string_view order, uint32_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(value >> 8 * (order == "II" ? i : count - 1 - i)));
  }
  return bytes;
}

struct Entry {
  uint32_t tag = 0x0112;
  uint32_t type = 3;  // SHORT
  uint32_t count = 1;
  std::string value;
};

std::string Tiff(absl::string_view order, const std::vector<Entry>& entries) {
  std::string tiff = absl::StrCat(order, Number(order, 42, 2), Number(order, 8, 4),
                                  Number(order, static_cast<uint32_t>(entries.size()), 2));
  for (const Entry& entry : entries) {
    absl::StrAppend(&tiff, Number(order, entry.tag, 2), Number(order, entry.type, 2),
                    Number(order, entry.count, 4), entry.value,
                    std::string(4 - entry.value.size(), '\0'));
  }
  return tiff;
}

std::string Tiff(absl::string_view order, uint32_t orientation) {
  return Tiff(order, {{.tag = 0x0100, .value = Number(order, 5, 2)},
                      {.value = Number(order, orientation, 2)}});
}

std::string App1(absl::string_view data) {
  return absl::StrCat("\xFF\xE1", Number("MM", static_cast<uint32_t>(data.size()) + 2, 2), data);
}

const std::string kExif("Exif\0\0", 6);

// Orientation of the JPEG with only this segment before the rest of rgb.jpg.
Orientation OfJpeg(absl::string_view segments) {
  const std::string jpeg = ReadPicture("rgb.jpg");
  return OrientationOf(absl::StrCat(jpeg.substr(0, 2), segments, jpeg.substr(2)));
}
Orientation OfTiff(absl::string_view tiff) { return OfJpeg(App1(absl::StrCat(kExif, tiff))); }

TEST(ExifTest, ReadsBothByteOrders) {
  for (uint32_t value = 1; value <= 8; ++value) {
    EXPECT_EQ(OfTiff(Tiff("II", value)), static_cast<Orientation>(value));
    EXPECT_EQ(OfTiff(Tiff("MM", value)), static_cast<Orientation>(value));
  }
  EXPECT_EQ(OfTiff(Tiff("II", {{.type = 4, .value = Number("II", 8, 4)}})),
            Orientation::kLeftBottom);
}

TEST(ExifTest, TakesAPictureWithoutOneAsItIs) {
  for (const char* name : {"rgb.jpg", "rgb.png", "lossy.webp", "lossless-alpha.webp"}) {
    EXPECT_EQ(OrientationOf(ReadPicture(name)), Orientation::kTopLeft) << name;
  }
  EXPECT_EQ(OrientationOf(""), Orientation::kTopLeft);
  EXPECT_EQ(OrientationOf("II*"), Orientation::kTopLeft);
}

TEST(ExifTest, PassesOverWhatMakesNoSense) {
  EXPECT_EQ(OfTiff(Tiff("II", 0)), Orientation::kTopLeft);
  EXPECT_EQ(OfTiff(Tiff("II", 9)), Orientation::kTopLeft);
  EXPECT_EQ(OfTiff(Tiff("MM", 0x0600)), Orientation::kTopLeft);
  EXPECT_EQ(OfTiff(Tiff("II", {{.type = 2, .value = "6"}})), Orientation::kTopLeft);
  EXPECT_EQ(OfTiff("XX*\0\x08"), Orientation::kTopLeft);
  std::string no_tiff = Tiff("II", 6);
  no_tiff[2] = 43;
  EXPECT_EQ(OfTiff(no_tiff), Orientation::kTopLeft);
}

TEST(ExifTest, ReadsNothingBeyondItsEnd) {
  const std::string whole = Tiff("MM", 6);
  for (size_t length = 0; length + 4 < whole.size(); ++length) {
    EXPECT_EQ(OfTiff(whole.substr(0, length)), Orientation::kTopLeft) << length;
  }
  for (const uint32_t directory : {0u, 7u, 1000u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    std::string tiff = whole;
    tiff.replace(4, 4, Number("MM", directory, 4));
    EXPECT_EQ(OfTiff(tiff), Orientation::kTopLeft) << directory;
  }
  std::string endless = whole;
  endless.replace(8, 2, "\xFF\xFF");
  EXPECT_EQ(OfTiff(endless), Orientation::kRightTop);
}

TEST(ExifTest, FindsTheSegmentAmongOthers) {
  const std::string exif = App1(kExif + Tiff("II", 3));
  EXPECT_EQ(OfJpeg(App1("http://ns.adobe.com/xap/1.0/") + exif), Orientation::kBottomRight);
  EXPECT_EQ(OfJpeg("\xFF\xFF\xFF" + exif.substr(1)), Orientation::kBottomRight);
  EXPECT_EQ(OfJpeg("no marker" + exif), Orientation::kTopLeft);  // and no JPEG
  EXPECT_EQ(OfJpeg(std::string("\xFF\xE0\0\0", 4) + exif), Orientation::kBottomRight);
  // Pixels come first.
  EXPECT_EQ(OfJpeg(std::string("\xFF\xDA\0\x02", 4) + exif), Orientation::kTopLeft);
}

TEST(ExifTest, FindsAPngsChunkBehindThePixels) {
  std::string png = ReadPicture("turned-6.png");
  const size_t name = png.find("eXIf");
  ASSERT_NE(name, std::string::npos);
  const auto length = static_cast<uint8_t>(png[name - 1]);
  const std::string chunk = png.substr(name - 4, 12 + length);
  png.erase(name - 4, chunk.size());
  png.insert(png.find("IEND") - 4, chunk);
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(png));
  EXPECT_EQ(image.rgb, ReadRgb("turned-6.png.rgb"));
}

// An attack by texts: one that is unpacked into much, and so are a thousand of them.
TEST(ExifTest, UnpacksNoMoreOfTextsThanItMay) {
  const std::string zeros(size_t{4} << 20, '\0');
  std::string packed(compressBound(zeros.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(zeros.data()), zeros.size()),
            Z_OK);
  packed.resize(size);
  const std::string text =
      absl::StrCat("zTXt", "Raw profile type exif", std::string(2, '\0'), packed);
  const std::string chunk = absl::StrCat(
      Number("MM", static_cast<uint32_t>(text.size()) - 4, 4), text,
      Number(
          "MM",
          static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(text.data()), text.size())),
          4));
  std::string png = ReadPicture("turned-6.png");
  std::string chunks;
  for (int i = 0; i < 1000; ++i) chunks += chunk;
  png.insert(33, chunks);
  EXPECT_EQ(OrientationOf(png), Orientation::kRightTop);
}

TEST(ExifTest, BelievesAWebpThatSaysItHasNone) {
  std::string webp = ReadPicture("turned-6.webp");
  ASSERT_EQ(OrientationOf(webp), Orientation::kRightTop);
  webp[20] = static_cast<char>(webp[20] & ~0x08);
  EXPECT_EQ(OrientationOf(webp), Orientation::kTopLeft);
}

}  // namespace
}  // namespace latentd::image
