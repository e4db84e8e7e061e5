#include "core/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

// After <cstdio>: it uses FILE without including it.
#include <jpeglib.h>

#include "tests/core/image/pictures.h"
#include "tests/core/image/refusing_heap.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

// A grey progressive JPEG of one scan for DC and `ac_scans` for as many AC coefficients.
std::string ManyScans(int ac_scans) {
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_width = 16;
  codec.image_height = 16;
  codec.input_components = 1;
  codec.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&codec);
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 1}, {1, {0}, 0, 0, 1, 0}};
  for (int i = 1; i <= ac_scans; ++i) {
    scans.push_back({1, {0}, i, i, 0, 1});
    scans.push_back({1, {0}, i, i, 1, 0});
  }
  codec.scan_info = scans.data();
  codec.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&codec, TRUE);
  std::vector<uint8_t> row(16, 200);
  for (int y = 0; y < 16; ++y) {
    uint8_t* rows = row.data();
    row[y] = 10;
    jpeg_write_scanlines(&codec, &rows, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  const std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return jpeg;
}

absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes) {
  PassedOver passed_over;
  return ::latentd::image::DecodeJpeg(bytes, passed_over);
}

TEST(JpegTest, TakesAsManyScansAsPicturesHave) { EXPECT_OK(DecodeJpeg(ManyScans(20))); }

TEST(JpegTest, RefusesToGoOverThePixelsForEver) {
  EXPECT_THAT(DecodeJpeg(ManyScans(60)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64 scans")));
}

// 300 x 300 pixels that no JPEG makes small.
Image Noise() {
  Image image{300, 300, std::vector<uint8_t>(size_t{3} * 300 * 300)};
  uint32_t state = 1;
  for (uint8_t& byte : image.rgb) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

// The buffer has grown from 4 KiB by then, so that the block it began in is free already.
TEST(JpegTest, SurvivesALackOfMemoryWhileItsBufferGrows) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  const Image image = Noise();
  for (const size_t limit : {size_t{16} << 10, size_t{64} << 10, size_t{4} << 10}) {
    absl::Status status;
    {
      const testing::RefusingHeap heap(limit);
      status = EncodeJpeg(image, 100).status();
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("no memory to write a JPEG")))
        << limit;
  }
}

TEST(JpegTest, GrowsItsBufferToWhatThePictureNeeds) {
  const Image image = Noise();
  const auto jpeg = EncodeJpeg(image, 100);
  ASSERT_OK(jpeg);
  EXPECT_GT(jpeg->size(), size_t{64} << 10);
  EXPECT_EQ(jpeg->substr(jpeg->size() - 2), "\xFF\xD9");
  EXPECT_OK(DecodeJpeg(*jpeg));
}

}  // namespace
}  // namespace latentd::image
