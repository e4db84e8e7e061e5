// A lack of memory is the machine's fault, not the picture's: clients may try again.
#include <gtest/gtest.h>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "tests/core/image/pictures.h"
#include "tests/core/image/refusing_heap.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

// More than the pixels of the pictures here have, less than what each library asks for beside them.
constexpr size_t kLimit = size_t{1} << 10;

void ExpectOutOfMemory(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(GetReason(status), "OUT_OF_MEMORY") << status;
}

class NoMemoryTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NoMemoryTest, IsNotADamagedPicture) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  const std::string picture = ReadPicture(GetParam());
  absl::Status status;
  {
    const testing::RefusingHeap heap(kLimit);
    status = Decode(picture).status();
  }
  ExpectOutOfMemory(status);
  EXPECT_OK(Decode(picture));
}

// Not lossless.webp, of which libwebp says that it is damaged.
INSTANTIATE_TEST_SUITE_P(Formats, NoMemoryTest,
                         ::testing::Values("rgb.png", "progressive.jpg", "lossy.webp"));

class NoMemoryToEncodeTest : public ::testing::TestWithParam<Format> {};

TEST_P(NoMemoryToEncodeTest, IsNotARefusedPicture) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  const Image image = Gradient(13, 9);
  const EncodeOptions options = {.format = GetParam()};
  absl::Status status;
  {
    const testing::RefusingHeap heap(kLimit);
    status = CatchOutOfMemory([&] { return Encode(image, options).status(); });
  }
  ExpectOutOfMemory(status);
  EXPECT_OK(Encode(image, options));
}

INSTANTIATE_TEST_SUITE_P(Formats, NoMemoryToEncodeTest,
                         ::testing::Values(Format::kPng, Format::kJpeg, Format::kWebp));

}  // namespace
}  // namespace latentd::image
