// Files of odd but common kinds, each read as Pillow reads it (odd_pictures.json, which
// make_odd_pictures.py wrote): turned as it turns them, with the pixels that it makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/image/decode.h"
#include "core/image/exif.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using nlohmann::json;

struct OddPicture {
  std::string name, bytes;
  std::optional<Image> expected;  // nothing: Pillow refuses it
};

std::string FromBase64(const json& text) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(text.get<std::string>(), &bytes));
  return bytes;
}

Image ReadExpected(const json& picture) {
  Image image{picture["width"].get<int>(), picture["height"].get<int>(), {}};
  image.rgb.resize(size_t{3} * image.width * image.height);
  const std::string packed = FromBase64(picture["rgb"]);
  uLongf size = image.rgb.size();
  EXPECT_EQ(uncompress(image.rgb.data(), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  EXPECT_EQ(size, image.rgb.size());
  return image;
}

std::vector<OddPicture> ReadOddPictures() {
  std::ifstream file(::latentd::testing::SourcePath("tests/core/image/odd_pictures.json"));
  const json all = json::parse(file);
  std::vector<OddPicture> pictures;
  for (const json& one : all["files"]) {
    OddPicture picture{one["name"].get<std::string>(), FromBase64(one["file"]), {}};
    if (one.contains("picture")) {
      picture.expected = ReadExpected(all["pictures"][one["picture"].get<size_t>()]);
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

const std::vector<OddPicture>& OddPictures() {
  static const auto* pictures = new std::vector<OddPicture>(ReadOddPictures());
  return *pictures;
}

// Read by Pillow, and not here: nothing else is.
const std::set<std::string>& RefusedHere() {
  static const auto* names = new std::set<std::string>{"gif.other", "bmp.other", "tiff.other",
                                                       "avif.other", "jpeg2000.other"};
  return *names;
}

TEST(OddPicturesTest, AreReadAsPillowReadsThem) {
  int read = 0;
  for (const OddPicture& picture : OddPictures()) {
    SCOPED_TRACE(picture.name);
    if (!picture.expected || RefusedHere().contains(picture.name)) continue;
    const absl::StatusOr<Image> image = Decode(picture.bytes);
    EXPECT_OK(image.status());
    if (!image.ok()) continue;
    EXPECT_EQ(image->width, picture.expected->width);
    EXPECT_EQ(image->height, picture.expected->height);
    EXPECT_TRUE(image->rgb == picture.expected->rgb);
    ++read;
  }
  EXPECT_GT(read, 400);
}

// A request is judged by this before its picture is decoded.
TEST(OddPicturesTest, HaveTheSizeThatTheirHeadersSay) {
  for (const OddPicture& picture : OddPictures()) {
    const absl::StatusOr<Image> image = Decode(picture.bytes);
    if (!image.ok()) continue;
    SCOPED_TRACE(picture.name);
    ASSERT_OK_AND_ASSIGN(const Dimensions size, ReadDimensions(picture.bytes));
    EXPECT_EQ(size.width, image->width);
    EXPECT_EQ(size.height, image->height);
  }
}

// Missing or wrong pixels make an image that no client meant to send.
TEST(OddPicturesTest, AreRefusedWherePixelsAreMissing) {
  const std::set<std::string> missing = {"pixels-cut.png",
                                         "data-apart.png",
                                         "no-data.png",
                                         "filter-of-rows-5.png",
                                         "pixels-cut.jpg",
                                         "progressive-cut.jpg",
                                         "progressive-no-end.jpg",
                                         "cut.webp",
                                         "bad-checksum-header.png",
                                         "animation-beyond.webp",
                                         "animation-of-nothing.webp"};
  size_t refused = 0;
  for (const OddPicture& picture : OddPictures()) {
    if (!missing.contains(picture.name)) continue;
    EXPECT_EQ(Decode(picture.bytes).status().code(), absl::StatusCode::kInvalidArgument)
        << picture.name;
    ++refused;
  }
  EXPECT_EQ(refused, missing.size());
}

}  // namespace
}  // namespace latentd::image
