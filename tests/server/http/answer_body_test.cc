#include "server/http/exchange/answer_body.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "server/http/exchange/answer_head.h"
#include "server/http/request/picture_text.h"

namespace latentd::server::http {
namespace {

std::string TakeAll(AnswerBody& body) {
  std::string all;
  while (!body.empty()) all += body.Take();
  return all;
}

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

TEST(AnswerBodyTest, PicturesAreEncodedInPiecesWithoutASeam) {
  for (const size_t size : {0, 1, 2, 3, 4, 196607, 196608, 196609, 1000000}) {
    const auto picture = std::make_shared<const std::string>(Bytes(size));
    AnswerBody body("<");
    body.AddBase64(*picture, picture);
    body.Add(">");
    const std::string expected = "<" + absl::Base64Escape(*picture) + ">";
    EXPECT_EQ(body.size(), static_cast<int64_t>(expected.size())) << size;
    EXPECT_EQ(TakeAll(body), expected) << size;
    EXPECT_EQ(body.size(), 0);
  }
}

TEST(AnswerBodyTest, NoPieceIsTheWholeOfALargePicture) {
  const auto picture = std::make_shared<const std::string>(Bytes(2 << 20));
  AnswerBody body;
  body.AddBytes(*picture, picture);
  EXPECT_LE(body.Take().size(), static_cast<size_t>(512 << 10));
  EXPECT_EQ(body.size(), (2 << 20) - (256 << 10));
}

TEST(AnswerBodyTest, APictureIsLetGoOnceItHasBeenTaken) {
  auto picture = std::make_shared<const std::string>(Bytes(10));
  const std::weak_ptr<const std::string> held = picture;
  AnswerBody body;
  body.AddBase64(*picture, picture);
  picture.reset();
  EXPECT_FALSE(held.expired());
  TakeAll(body);
  EXPECT_TRUE(held.expired());
}

TEST(AnswerHeadTest, AHeaderCannotEndTheHead) {
  const Answer answer = {.headers = {{"x-a", "1\r\n\r\nevil"}}};
  const std::string head =
      HeadOf(answer, {.length = 5, .request_id = "mine"}, absl::FromUnixSeconds(0));
  EXPECT_EQ(head,
            "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            "Content-Type: application/json\r\nContent-Length: 5\r\nx-request-id: mine\r\n"
            "x-a: 1evil\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Connection: keep-alive\r\n\r\n");
}

TEST(AnswerHeadTest, PartsOfAStreamAreChunks) {
  EXPECT_EQ(FrameOf(std::string(26, 'a'), true, false), "1a\r\n" + std::string(26, 'a') + "\r\n");
  EXPECT_EQ(FrameOf("", true, true), "0\r\n\r\n");
  EXPECT_EQ(FrameOf("ab", true, true), "2\r\nab\r\n0\r\n\r\n");
  EXPECT_EQ(FrameOf("ab", false, true), "ab");
}

TEST(PictureTextTest, Base64AndDataUrlsInEveryForm) {
  const std::string bytes = Bytes(50);
  const std::string base64 = absl::Base64Escape(bytes);
  for (const std::string& text :
       {base64, absl::WebSafeBase64Escape(bytes), "data:image/png;base64," + base64,
        "DATA:image/png;name=x;BASE64," + base64,
        base64.substr(0, 20) + "\r\n" + base64.substr(20)}) {
    const auto read = PictureOf(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(*read, bytes) << text;
  }
}

TEST(PictureTextTest, NothingIsFetched) {
  for (const char* text : {"http://a/b.png", "HTTPS://a/b.png", "data:image/png,abc", "a*b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PictureOf(text).status())) << text;
  }
}

}  // namespace
}  // namespace latentd::server::http
