#include "server/calls/grpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/text/utf8.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace latentd::server::calls {
namespace {

using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

template <typename Detail>
Detail DetailOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  Detail detail;
  for (const auto& any : details.details()) {
    if (any.Is<Detail>()) {
      EXPECT_TRUE(any.UnpackTo(&detail));
    }
  }
  return detail;
}

std::vector<FieldViolation> Violations(size_t count, size_t bytes) {
  std::vector<FieldViolation> violations;
  for (size_t i = 0; i < count; ++i) {
    violations.push_back({absl::StrCat("field_", i), std::string(bytes, 'x')});
  }
  return violations;
}

TEST(GrpcStatusTest, OkIsOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(GrpcStatusTest, CodeAndMessageStay) {
  const grpc::Status status = ToGrpcStatus(absl::InternalError("the weights are gone"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "the weights are gone");
  EXPECT_EQ(status.error_details(), "");
}

TEST(GrpcStatusTest, EveryBadFieldIsADetail) {
  const grpc::Status status =
      ToGrpcStatus(InvalidFields({{"width", "must be even"}, {"seed", "must be odd"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "width: must be even; seed: must be odd");
  const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(bad_request.field_violations_size(), 2);
  EXPECT_EQ(bad_request.field_violations(1).field(), "seed");
  EXPECT_EQ(bad_request.field_violations(1).description(), "must be odd");
}

TEST(GrpcStatusTest, ReasonAndRetryDelayAreDetails) {
  const grpc::Status status = ToGrpcStatus(WithRetryDelay(
      WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"), absl::Milliseconds(2500)));
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.reason(), "QUEUE_FULL");
  EXPECT_EQ(info.domain(), "latentd");
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(GrpcStatusTest, FactsAreMetadata) {
  const absl::Status status = WithFacts(WithReason(absl::InternalError("cold"), "BUCKET_COLD"),
                                        {{"buckets", "64x64,96x64"}});
  const auto info = DetailOf<google::rpc::ErrorInfo>(
      ToGrpcStatus(WithFacts(status, {{"requested_size", "8\t8\n"}})));
  EXPECT_EQ(info.reason(), "BUCKET_COLD");
  EXPECT_THAT(info.metadata(), UnorderedElementsAre(Pair("buckets", "64x64,96x64"),
                                                    Pair("requested_size", "8\t8\n")));
}

TEST(GrpcStatusTest, FactsThatDoNotFitAreLeftOut) {
  std::vector<ErrorFact> facts = {{"first", "1"}, {"long", std::string(5000, 'x')}};
  for (int i = 0; i < 500; ++i) facts.push_back({absl::StrCat("fact_", i), "0123456789"});
  const absl::Status reasoned = WithReason(absl::InternalError(std::string(5000, 'm')), "BROKEN");
  for (const absl::Status& error :
       {reasoned, WithReason(InvalidFields(Violations(500, 60)), std::string(5000, 'R'))}) {
    const grpc::Status status =
        ToGrpcStatus(WithRetryDelay(WithFacts(error, facts), absl::Hours(1)));
    EXPECT_THAT(status.error_message().size() + status.error_details().size(), Lt(kMaxStatusBytes));
    EXPECT_FALSE(DetailOf<google::rpc::ErrorInfo>(status).metadata().contains("long"));
  }
  const auto info = DetailOf<google::rpc::ErrorInfo>(ToGrpcStatus(WithFacts(reasoned, facts)));
  EXPECT_TRUE(info.metadata().contains("first"));
  EXPECT_TRUE(info.metadata().contains("fact_0"));
}

TEST(GrpcStatusTest, ManyBadFieldsStayUnderTheLimitAndAreCounted) {
  const grpc::Status status = ToGrpcStatus(InvalidFields(Violations(500, 60)));
  EXPECT_THAT(status.error_message().size() + status.error_details().size(), Lt(kMaxStatusBytes));
  EXPECT_THAT(status.error_message(), HasSubstr("; and 4"));
  const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
  const auto& last = *bad_request.field_violations().rbegin();
  EXPECT_EQ(last.description(),
            absl::StrCat("and ", 500 - (bad_request.field_violations_size() - 1), " more"));
}

TEST(GrpcStatusTest, TextThatIsNotUtf8CanBeRead) {
  const grpc::Status refused = ToGrpcStatus(InvalidFields({{"b\xFF", "no \xE9"}}));
  EXPECT_EQ(refused.error_message(), "b\\xff: no \\xe9");
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(refused).field_violations(0).field(), "b\\xff");
  const grpc::Status failed = ToGrpcStatus(WithFacts(
      WithReason(absl::InternalError("\xE9"), "R\xE9"), {{"file", std::string(9, '\xE9')}}));
  const auto info = DetailOf<google::rpc::ErrorInfo>(failed);
  EXPECT_EQ(info.reason(), "R\\xe9");
  EXPECT_EQ(info.metadata().at("file").size(), 36);
}

TEST(GrpcStatusTest, EscapesCountTowardsTheLimit) {
  const std::string long_text(5000, '\xE9');
  const grpc::Status status = ToGrpcStatus(
      WithFacts(WithReason(absl::InternalError(long_text), "BROKEN"), {{"file", long_text}}));
  EXPECT_THAT(status.error_message().size() + status.error_details().size(), Lt(kMaxStatusBytes));
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).reason(), "BROKEN");
}

TEST(GrpcStatusTest, LongDescriptionsStayUnderTheLimit) {
  const grpc::Status status = ToGrpcStatus(WithRetryDelay(
      WithReason(InvalidFields(Violations(20, 100'000)), std::string(5000, 'R')), absl::Hours(1)));
  EXPECT_THAT(status.error_message().size() + status.error_details().size(), Lt(kMaxStatusBytes));
}

TEST(GrpcStatusTest, ALongMessageIsCutBetweenCharacters) {
  std::string message = "x";
  while (message.size() < 10'000) message += "\xE2\x82\xAC";
  const grpc::Status status = ToGrpcStatus(WithReason(absl::InternalError(message), "BROKEN"));
  EXPECT_THAT(status.error_message().size() + status.error_details().size(), Lt(kMaxStatusBytes));
  EXPECT_TRUE(IsUtf8(status.error_message()));
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).reason(), "BROKEN");
}

}  // namespace
}  // namespace latentd::server::calls
