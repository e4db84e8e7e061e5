#include "core/image/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/image/decode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

int LargestDifference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  int largest = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return largest;
}

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// The data of the first chunk of this type, or "".
std::string FindChunk(absl::string_view png, absl::string_view type) {
  for (size_t at = 8; at + 12 <= png.size();) {
    const uint32_t length = BigEndian(png.substr(at));
    if (png.substr(at + 4, 4) == type) return std::string(png.substr(at + 8, length));
    at += 12 + length;
  }
  return "";
}

// The head of an uncompressed iTXt chunk: keyword, two flags, two empty names.
const std::string kTextHeader("parameters\0\0\0\0\0", 15);

TEST(EncodeTest, GivesAPngBackToTheBit) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 200}, {64, 48}}) {
    const Image image = Gradient(width, height);
    ASSERT_OK_AND_ASSIGN(const std::string png, Encode(image, {}));
    ASSERT_OK_AND_ASSIGN(const Image decoded, Decode(png));
    EXPECT_EQ(decoded, image);
  }
}

TEST(EncodeTest, GivesTheSamePngWhoeverRunsItsParts) {
  // Its rows' bytes are no whole number of blocks, and its rows no whole number of parts.
  const Image image = Gradient(511, 701);
  int parts = 0;
  const auto backwards = [&](int count, absl::FunctionRef<void(int)> part) {
    parts = count;
    for (int number = count - 1; number >= 0; --number) part(number);
  };
  ASSERT_OK_AND_ASSIGN(const std::string png, Encode(image, {}, "a gradient", backwards));
  EXPECT_EQ(parts, 3);
  EXPECT_EQ(png, Encode(image, {}, "a gradient").value());
  ASSERT_OK_AND_ASSIGN(const Image decoded, Decode(png));
  EXPECT_EQ(decoded, image);
}

TEST(EncodeTest, GivesAJpegAndAWebpBackNearly) {
  const Image image = Gradient(64, 48);
  for (const Format format : {Format::kJpeg, Format::kWebp}) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, Encode(image, {.format = format}));
    ASSERT_OK_AND_ASSIGN(const Image decoded, Decode(bytes));
    EXPECT_THAT(LargestDifference(image, decoded), Le(12));
  }
}

TEST(EncodeTest, SpendsFewerBytesOnLessQuality) {
  const Image image = Gradient(64, 48);
  for (const Format format : {Format::kJpeg, Format::kWebp}) {
    ASSERT_OK_AND_ASSIGN(const std::string worst, Encode(image, {.format = format, .quality = 1}));
    ASSERT_OK_AND_ASSIGN(const std::string best, Encode(image, {.format = format, .quality = 100}));
    EXPECT_THAT(worst.size(), Lt(best.size()));
  }
}

TEST(EncodeTest, WritesRawPixelsAsTheyAre) {
  const Image image = Gradient(5, 4);
  ASSERT_OK_AND_ASSIGN(const std::string raw, Encode(image, {.format = Format::kRawRgb8}));
  EXPECT_EQ(raw, std::string(image.rgb.begin(), image.rgb.end()));
}

TEST(EncodeTest, PutsTheParametersIntoAPngAsUnicodeText) {
  const std::string text = "a caf\u00E9, \u732B\nSteps: 20, Seed: 7";
  ASSERT_OK_AND_ASSIGN(const std::string png, Encode(Gradient(4, 4), {}, text));
  EXPECT_EQ(FindChunk(png, "iTXt"), kTextHeader + text);
  EXPECT_OK(Decode(png));
}

TEST(EncodeTest, ReplacesWhatATextChunkCannotHold) {
  ASSERT_OK_AND_ASSIGN(const std::string png,
                       Encode(Gradient(4, 4), {}, absl::string_view("a\0b", 3)));
  EXPECT_EQ(FindChunk(png, "iTXt"), kTextHeader + "a\uFFFDb");
}

TEST(EncodeTest, LeavesTheParametersOutWhenAskedTo) {
  ASSERT_OK_AND_ASSIGN(const std::string png,
                       Encode(Gradient(4, 4), {.embed_parameters = false}, "Seed: 7"));
  EXPECT_EQ(FindChunk(png, "iTXt"), "");
  for (const Format format : {Format::kJpeg, Format::kWebp, Format::kRawRgb8}) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes,
                         Encode(Gradient(4, 4), {.format = format}, "Seed: 7"));
    EXPECT_THAT(bytes, Not(HasSubstr("Seed")));
  }
}

TEST(EncodeTest, GivesTheSameBytesAgain) {
  for (const Format format : {Format::kPng, Format::kJpeg, Format::kWebp}) {
    ASSERT_OK_AND_ASSIGN(const std::string once, Encode(Gradient(9, 7), {.format = format}, "x"));
    ASSERT_OK_AND_ASSIGN(const std::string again, Encode(Gradient(9, 7), {.format = format}, "x"));
    EXPECT_EQ(once, again);
  }
}

TEST(EncodeTest, RefusesAQualityOutOfRange) {
  for (const int quality : {-1, 0, 101}) {
    EXPECT_THAT(Encode(Gradient(4, 4), {.format = Format::kJpeg, .quality = quality}),
                StatusIs(kInvalid, HasSubstr("1 to 100")));
  }
}

TEST(EncodeTest, RefusesAPictureWithoutItsPixels) {
  EXPECT_THAT(Encode({4, 4, {1, 2, 3}}, {}), StatusIs(kInvalid, HasSubstr("4x4 has 3 bytes")));
  EXPECT_THAT(Encode({0, 4, {}}, {}), StatusIs(kInvalid, HasSubstr("0x4")));
  EXPECT_THAT(Encode({-4, -4, std::vector<uint8_t>(48)}, {}),
              StatusIs(kInvalid, HasSubstr("-4x-4")));
}

TEST(EncodeTest, RefusesAPictureThatTheFormatCannotHold) {
  const Image wide{70000, 1, std::vector<uint8_t>(210000)};
  EXPECT_THAT(Encode(wide, {.format = Format::kJpeg}), StatusIs(kInvalid, HasSubstr("libjpeg")));
  EXPECT_THAT(Encode(wide, {.format = Format::kWebp}), StatusIs(kInvalid, HasSubstr("16383")));
}

TEST(MimeTypeTest, NamesEachFormat) {
  EXPECT_EQ(MimeType(Format::kPng), "image/png");
  EXPECT_EQ(MimeType(Format::kJpeg), "image/jpeg");
  EXPECT_EQ(MimeType(Format::kWebp), "image/webp");
  EXPECT_EQ(MimeType(Format::kRawRgb8), "application/octet-stream");
  EXPECT_EQ(MimeType(Format::kLatent), "application/octet-stream");
}

}  // namespace
}  // namespace latentd::image
