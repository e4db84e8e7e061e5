#include "server/http/exchange/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

constexpr char kType[] = "multipart/form-data; boundary=abc";

std::string Field(const std::string& head, const std::string& bytes) {
  return absl::StrCat("--abc\r\nContent-Disposition: form-data; ", head, "\r\n\r\n", bytes, "\r\n");
}

TEST(MultipartTest, TextsAndFilesComeInTheirOrder) {
  const std::string bytes("\x89PNG\r\n--ab\0\r\n\r\n", 16);  // looks like a boundary, and is none
  const std::string body = absl::StrCat(
      Field("name=\"prompt\"", "a star"), Field("name=\"image[]\"; filename=\"a;b.png\"", bytes),
      Field("filename=x; name=mask", ""), Field("name=\"b\"; filename*=utf-8''%C3%A9", "x"),
      "--abc--\r\n");
  const auto parts = ParseMultipart(kType, body);
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), 4u);
  EXPECT_EQ((*parts)[0].name, "prompt");
  EXPECT_FALSE((*parts)[0].is_file);
  EXPECT_EQ((*parts)[0].bytes, "a star");
  EXPECT_EQ((*parts)[1].name, "image[]");
  EXPECT_TRUE((*parts)[1].is_file);
  EXPECT_EQ((*parts)[1].bytes, bytes);
  EXPECT_EQ((*parts)[2].name, "mask");
  EXPECT_TRUE((*parts)[2].is_file);
  EXPECT_EQ((*parts)[2].bytes, "");
  EXPECT_TRUE((*parts)[3].is_file);
}

TEST(MultipartTest, APreambleAndQuotesInNames) {
  const std::string body = absl::StrCat("nothing\r\n", Field("name=\"a\\\"b\"", "x"), "--abc--");
  const auto parts = ParseMultipart("Multipart/Form-Data;charset=x; boundary=\"abc\"", body);
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().name, "a\"b");
}

TEST(MultipartTest, WhatIsCutOffIsRefused) {
  const std::string whole = absl::StrCat(Field("name=\"a\"", "x"), "--abc--");
  ASSERT_OK(ParseMultipart(kType, whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto parts = ParseMultipart(kType, whole.substr(0, size));
    EXPECT_EQ(GetReason(parts.status()), "MALFORMED") << size;
  }
}

TEST(MultipartTest, OthersAreRefusedWithTheReason) {
  EXPECT_FALSE(ParseMultipart("multipart/form-data", "--abc--").ok());
  EXPECT_FALSE(ParseMultipart(kType, Field("filename=\"a\"", "x") + "--abc--").ok());
  EXPECT_FALSE(ParseMultipart(kType, "--abc\r\nno head\r\n--abc--").ok());
  const std::string long_text(kMostTextBytes + 1, 'x');
  EXPECT_FALSE(ParseMultipart(kType, Field("name=\"a\"", long_text) + "--abc--").ok());
  EXPECT_TRUE(ParseMultipart(kType, Field("name=\"a\"; filename=x", long_text) + "--abc--").ok());
  std::string many;
  for (size_t i = 0; i <= kMostParts; ++i) many += Field("name=\"a\"", "x");
  EXPECT_FALSE(ParseMultipart(kType, many + "--abc--").ok());
}

TEST(MultipartTest, TheTypeIsToldFromOthers) {
  EXPECT_TRUE(IsMultipart("multipart/form-data; boundary=x"));
  EXPECT_TRUE(IsMultipart("MULTIPART/FORM-DATA"));
  EXPECT_FALSE(IsMultipart("application/json"));
  EXPECT_FALSE(IsMultipart("multipart/mixed; boundary=x"));
  EXPECT_FALSE(IsMultipart(""));
}

}  // namespace
}  // namespace latentd::server::http
