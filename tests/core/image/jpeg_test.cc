#include "core/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

// After <cstdio>: it uses FILE without including it.
#include <jpeglib.h>

#include "tests/core/image/pictures.h"
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

TEST(JpegTest, TakesAsManyScansAsPicturesHave) { EXPECT_OK(DecodeJpeg(ManyScans(20))); }

TEST(JpegTest, RefusesToGoOverThePixelsForEver) {
  EXPECT_THAT(DecodeJpeg(ManyScans(60)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64 scans")));
}

}  // namespace
}  // namespace latentd::image
