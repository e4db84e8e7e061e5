// How much the answer of Generate can hold.
#include "server/calls/unary_call.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <string>
#include <thread>

#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "tests/server/running_server.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using ::testing::HasSubstr;

class UnaryCallTest : public RunningServer {
 protected:
  grpc::Status Generate(const v1::GenerateRequest& request, v1::GenerateResponse& response) {
    grpc::ClientContext context;
    return stub_->Generate(&context, request, &response);
  }
};

TEST_F(UnaryCallTest, WhatDoesNotFitIntoOneMessageIsRefusedBeforeTheQueue) {
  engine_.set_response_bytes(kMaxUnaryBytes);
  v1::GenerateResponse response;
  const grpc::Status status = Generate(Request(), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "RESPONSE_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("GenerateStream"));
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(UnaryCallTest, HowMuchTooLargeAnAnswerWouldBeIsTold) {
  engine_.set_submit_status(
      WithFacts(WithReason(absl::InvalidArgumentError("too many bytes"), "RESPONSE_TOO_LARGE"),
                {{"bytes", "5000000"}}));
  v1::GenerateResponse response;
  const grpc::Status status = Generate(Request(), response);
  EXPECT_THAT(status.error_message(), HasSubstr("GenerateStream"));
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).metadata().at("bytes"), "5000000");
}

TEST_F(UnaryCallTest, WhatItDoesNotRepeatOfTheRequestTakesNoRoom) {
  const std::string bytes(1 << 20, 'b');
  v1::GenerateRequest request = Request();
  request.mutable_image()->assign(bytes);
  request.set_latents(bytes);
  v1::GenerateResponse response;
  std::thread client([&] { EXPECT_TRUE(Generate(request, response).ok()); });
  EXPECT_GT(engine_.WaitForSpec().max_response_bytes, kMaxUnaryBytes - (64 << 10));
  SendPicture("picture");
  client.join();
}

}  // namespace
}  // namespace latentd::server::calls
