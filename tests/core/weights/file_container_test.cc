#include "core/weights/containers/file_container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace latentd::weights {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string Describe(absl::string_view bytes) { return DescribeContainer(bytes, "FILE.ckpt"); }

template <size_t kSize>
absl::string_view Bytes(const char (&literal)[kSize]) {
  return {literal, kSize - 1};
}

TEST(FileContainerTest, PicklesAreToldHowToBeConverted) {
  const auto converted = AllOf(HasSubstr("torch.load(\"FILE.ckpt\", weights_only=True"),
                               HasSubstr("safetensors.torch.save_file"));
  // Torch's own zip, and a zip of Python's module.
  EXPECT_THAT(Describe(Bytes("PK\x03\x04\0\0\x08\x08\0\0\0\0archive/data.pkl")),
              AllOf(StartsWith("a zip archive"), converted));
  EXPECT_THAT(Describe(Bytes("PK\x03\x04\x14\0\0\0\0\0\0\0data.pkl")),
              AllOf(StartsWith("a zip archive"), converted));
  // Torch's magic number before 1.6, and plain pickles.
  EXPECT_THAT(Describe(Bytes("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.")),
              AllOf(StartsWith("a pickle"), converted));
  for (absl::string_view begin : {"\x80\x03}q", "\x80\x04\x95\x10", "\x80\x05\x95\x10"}) {
    EXPECT_THAT(Describe(begin), StartsWith("a pickle"));
  }
}

TEST(FileContainerTest, GgufIsNamed) {
  EXPECT_THAT(Describe(Bytes("GGUF\x03\0\0\0\x24\x02\0\0")),
              AllOf(StartsWith("a GGUF file"), HasSubstr("safetensors")));
}

TEST(FileContainerTest, AnLfsPointerIsSaidWithTheSizeOfItsFile) {
  EXPECT_THAT(
      Describe("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 6938078334\n"),
      AllOf(StartsWith("a Git LFS pointer to a file of 6938078334 bytes,"),
            HasSubstr("git lfs pull")));
  EXPECT_THAT(Describe("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize x\n"),
              StartsWith("a Git LFS pointer, not the file"));
}

TEST(FileContainerTest, AWebPageIsNamed) {
  for (absl::string_view page : {"<!DOCTYPE html><html>", "<html>", "\n\r\n <!doctype html>",
                                 "\xEF\xBB\xBF<?xml version=\"1.0\"?>"}) {
    EXPECT_THAT(Describe(page), StartsWith("a web page")) << page;
  }
}

// Headers whose lengths are spelled like the beginnings of others.
TEST(FileContainerTest, ASafetensorsFileIsNoneOfThem) {
  EXPECT_THAT(Describe(Bytes("<\0\0\0\0\0\0\0{")), IsEmpty());
  EXPECT_THAT(Describe(Bytes("\n<\0\0\0\0\0\0{")), IsEmpty());
  EXPECT_THAT(Describe(Bytes("\x80\x02\0\0\0\0\0\0{")), IsEmpty());
  EXPECT_THAT(Describe(Bytes("PK\x03\x04\0\0\0\0{")), IsEmpty());
}

TEST(FileContainerTest, UnknownBytesAreNotDescribed) {
  for (absl::string_view bytes :
       {"", "P", "PK", "GGU", "\x80", "\x80\x06", "{\"a\": 1}", "x<html>"}) {
    EXPECT_THAT(Describe(bytes), IsEmpty()) << bytes;
  }
}

}  // namespace
}  // namespace latentd::weights
