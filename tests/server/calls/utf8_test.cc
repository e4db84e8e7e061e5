#include "server/calls/utf8.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>

#include "core/base/errors/error_details.h"
#include "core/base/text/utf8.h"
#include "latent/v1/image_generation.pb.h"
#include "server/calls/request_parser.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The bytes of a request whose prompt and negative prompt are these.
std::string Bytes(const std::string& prompt, const std::string& negative_prompt) {
  v1::GenerateRequest request;
  request.set_width(512);
  request.set_prompt(prompt);
  request.set_negative_prompt(negative_prompt);
  request.mutable_output()->set_quality(3);
  request.set_image("\xFF\xFE, and bytes may be anything");
  google::protobuf::LogSilencer silencer;
  return request.SerializeAsString();
}

std::vector<std::string> InvalidFieldsOf(const std::string& bytes) {
  return FindInvalidUtf8(*v1::GenerateRequest::descriptor(), bytes);
}

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST(Utf8Test, AgreesWithProtobufOnRandomBytes) {
  google::protobuf::LogSilencer silencer;
  std::mt19937 random(20240607);
  for (int i = 0; i < 20'000; ++i) {
    // Bytes near the borders of UTF-8's ranges.
    static constexpr unsigned char kBytes[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1,
                                               0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5};
    std::string text;
    for (int j = 0; j < 4; ++j) text += static_cast<char>(kBytes[random() % sizeof(kBytes)]);
    v1::Image image;
    image.set_mime_type(text);
    EXPECT_EQ(IsUtf8(text), v1::Image().ParseFromString(image.SerializeAsString()));
  }
}

TEST(Utf8Test, NamesEveryBadField) {
  EXPECT_THAT(InvalidFieldsOf(Bytes("good", "fine")), IsEmpty());
  EXPECT_THAT(InvalidFieldsOf(Bytes("\xFF", "fine")), ElementsAre("prompt"));
  EXPECT_THAT(InvalidFieldsOf(Bytes("\xC3(", "\xED\xA0\x80")),
              ElementsAre("prompt", "negative_prompt"));
}

TEST(Utf8Test, NamesAFieldOnceHoweverOftenItIsSent) {
  EXPECT_THAT(InvalidFieldsOf(Bytes("\xFF", "") + Bytes("\xFE", "")), ElementsAre("prompt"));
}

TEST(Utf8Test, LooksIntoMessages) {
  v1::GenerateEvent event;
  event.mutable_image_chunk()->set_mime_type("\xFF");
  google::protobuf::LogSilencer silencer;
  EXPECT_THAT(FindInvalidUtf8(*v1::GenerateEvent::descriptor(), event.SerializeAsString()),
              ElementsAre("image_chunk.mime_type"));
}

TEST(Utf8Test, SurvivesEveryCut) {
  const std::string bytes = Bytes("\xFF", "\xFE");
  for (size_t size = 0; size <= bytes.size(); ++size) InvalidFieldsOf(bytes.substr(0, size));
}

TEST(RequestParserTest, ReadsARequest) {
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest request,
                       ReadRequest<v1::GenerateRequest>(Buffer(Bytes("a star", "a moon"))));
  EXPECT_EQ(request.prompt(), "a star");
  EXPECT_EQ(request.width(), 512);
}

TEST(RequestParserTest, NoBytesAreAnEmptyRequest) {
  EXPECT_THAT(ReadRequest<v1::GenerateRequest>(grpc::ByteBuffer()), IsOk());
}

TEST(RequestParserTest, BadTextIsAViolationOfItsField) {
  google::protobuf::LogSilencer silencer;
  const auto request = ReadRequest<v1::GenerateRequest>(Buffer(Bytes("\xFF", "fine")));
  EXPECT_THAT(request, StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(GetFieldViolations(request.status()),
              ElementsAre(FieldViolation{"prompt", "is not valid UTF-8"}));
}

TEST(RequestParserTest, OtherBytesAreMalformed) {
  const auto request = ReadRequest<v1::GenerateRequest>(Buffer("\x0A\xFF\xFF\xFF\xFF\x0F"));
  EXPECT_THAT(request, StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_EQ(GetReason(request.status()), "MALFORMED");
}

}  // namespace
}  // namespace latentd::server::calls
