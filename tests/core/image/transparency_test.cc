#include "core/image/transparency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/image/decode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class TransparentPictures : public ::testing::TestWithParam<const char*> {};

TEST_P(TransparentPictures, AreWhiteWherePillowSeesNothing) {
  ASSERT_OK_AND_ASSIGN(const TransparencyMask found, MaskOfTransparency(ReadPicture(GetParam())));
  ASSERT_OK_AND_ASSIGN(const Image mask, Decode(found.png));
  EXPECT_EQ(mask.width, 13);
  EXPECT_EQ(mask.height, 9);
  std::vector<uint8_t> expected;
  for (const char alpha : ReadPicture(std::string(GetParam()) + ".alpha")) {
    expected.insert(expected.end(), 3, static_cast<uint8_t>(255 - static_cast<uint8_t>(alpha)));
  }
  EXPECT_EQ(mask.rgb, expected);
  EXPECT_FALSE(found.draws_all);
}

INSTANTIATE_TEST_SUITE_P(Files, TransparentPictures,
                         ::testing::Values("rgba.png", "grey-alpha.png", "palette-transparent.png",
                                           "rgb-transparent.png", "grey-transparent.png",
                                           "lossy-alpha.webp", "lossless-alpha.webp"));

TEST(MaskOfTransparencyTest, WhatHasNoneIsRefused) {
  for (const char* name : {"rgb.png", "grey.png", "palette.png", "lossy.webp", "rgb.jpg"}) {
    EXPECT_THAT(MaskOfTransparency(ReadPicture(name)),
                StatusIs(kInvalid, HasSubstr("has no transparency")))
        << name;
  }
}

TEST(MaskOfTransparencyTest, WhatCannotBeReadIsRefused) {
  for (const char* name : {"rgba.png", "lossless-alpha.webp"}) {
    const std::string whole = ReadPicture(name);
    for (size_t size = 0; size < whole.size() / 2; size += 7) {
      EXPECT_THAT(MaskOfTransparency(whole.substr(0, size)), StatusIs(kInvalid, ::testing::_))
          << name << " of " << size;
    }
  }
  EXPECT_THAT(MaskOfTransparency(ReadPicture("animated.webp")),
              StatusIs(kInvalid, AnyOf(HasSubstr("animation"), HasSubstr("no transparency"))));
}

}  // namespace
}  // namespace latentd::image
