#include "core/image/video/exif_comment.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

// A directory's only entry, checked against its tag and type: the count and the value.
std::pair<uint32_t, uint32_t> OnlyEntry(absl::string_view tiff, size_t at, uint32_t tag,
                                        uint32_t type) {
  EXPECT_EQ(BigEndianAt(tiff, at, 2), 1u);
  EXPECT_EQ(BigEndianAt(tiff, at + 2, 2), tag);
  EXPECT_EQ(BigEndianAt(tiff, at + 4, 2), type);
  EXPECT_EQ(BigEndianAt(tiff, at + 14, 4), 0u) << "there is another directory";
  return {BigEndianAt(tiff, at + 6, 4), BigEndianAt(tiff, at + 10, 4)};
}

// The comment's bytes, found as readers of EXIF find it.
std::string CommentIn(absl::string_view tiff) {
  EXPECT_EQ(tiff.substr(0, 4), absl::string_view("MM\0*", 4));
  const auto [one, exif] = OnlyEntry(tiff, BigEndianAt(tiff, 4, 4), 0x8769, 4);
  EXPECT_EQ(one, 1u);
  const auto [count, offset] = OnlyEntry(tiff, exif, 0x9286, 7);
  EXPECT_EQ(offset + count, tiff.size());
  return std::string(tiff.substr(offset, count));
}

TEST(ExifCommentTest, HoldsTextInUtf16) {
  EXPECT_EQ(CommentIn(ExifComment("aé猫\U0001F600\n")),
            std::string("UNICODE\0\0a\0\xE9\x73\x2B\xD8\x3D\xDE\x00\0\n", 20));
  EXPECT_EQ(CommentIn(ExifComment("")), std::string("UNICODE\0", 8));
}

TEST(ExifCommentTest, HoldsEveryKindOfCharacter) {
  EXPECT_EQ(
      CommentIn(ExifComment("\x7F\u0080\u07FF\u0800\uFFFF\U00010000\U0010FFFF")).substr(8),
      std::string("\x00\x7F\x00\x80\x07\xFF\x08\x00\xFF\xFF\xD8\x00\xDC\x00\xDB\xFF\xDF\xFF", 18));
}

TEST(ExifCommentTest, WritesBytesThatAreNoTextAsSuch) {
  EXPECT_EQ(CommentIn(ExifComment("\xE9")).substr(8), std::string("\0\\\0x\0e\0"
                                                                  "9",
                                                                  8));
}

}  // namespace
}  // namespace latentd::image
