// How much the answer of Generate can hold.
#include "server/calls/unary_call.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <string>
#include <thread>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/files/tensor_file.h"
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

class EncodeTest : public RunningServer {
 protected:
  grpc::Status Encode(const v1::EncodeRequest& request, v1::EncodeResponse& response) {
    grpc::ClientContext context;
    return stub_->Encode(&context, request, &response);
  }
};

TEST_F(EncodeTest, HandsOnEveryFieldAndAnswersWithTensors) {
  v1::EncodeRequest request;
  request.set_prompt("a star");
  request.set_prompt_2("a ring");
  request.set_negative_prompt("");
  request.set_negative_prompt_2("blue");
  request.set_prompt_syntax(v1::PROMPT_SYNTAX_COMPEL);
  request.set_long_prompt(v1::LONG_PROMPT_CHUNK);
  request.set_clip_skip(2);
  request.set_clip_skip_a1111(3);
  request.set_model("anime");
  request.set_priority(1);
  request.set_request_id("mine");
  request.set_dtype(v1::Tensor::DTYPE_FLOAT16);
  v1::EncodeResponse response;
  std::thread client([&] { EXPECT_TRUE(Encode(request, response).ok()); });
  const engine::GenerateSpec spec = engine_.WaitForSpec();
  const std::vector<NamedTensor> tensors = {{"prompt_embeds", "F16", {2, 1}, "1234"},
                                            {"negative_pooled_prompt_embeds", "BF16", {1}, "56"}};
  SendPicture(TensorFile(tensors));
  client.join();
  EXPECT_EQ(spec.request_id, "mine");
  EXPECT_EQ(spec.priority, 1);
  EXPECT_EQ(spec.picture.output_embeds, pipeline::HostTensor::Type::kFloat16);
  EXPECT_GT(spec.picture.guidance_scale, 1);
  EXPECT_EQ(spec.picture.prompt, "a star");
  EXPECT_EQ(spec.picture.prompt_2, "a ring");
  EXPECT_EQ(spec.picture.negative_prompt, "");
  EXPECT_EQ(spec.picture.negative_prompt_2, "blue");
  EXPECT_EQ(spec.picture.prompt_syntax, prompts::Syntax::kCompel);
  EXPECT_EQ(spec.picture.long_prompt, prompts::LongPrompt::kChunk);
  EXPECT_EQ(spec.picture.clip_skip, 2);
  EXPECT_EQ(spec.picture.clip_skip_a1111, 3);
  EXPECT_EQ(spec.picture.model, "anime");
  EXPECT_EQ(response.request_id(), "mine");
  EXPECT_EQ(response.prompt_embeds().dtype(), v1::Tensor::DTYPE_FLOAT16);
  EXPECT_THAT(response.prompt_embeds().shape(), ::testing::ElementsAre(2, 1));
  EXPECT_EQ(response.prompt_embeds().data(), "1234");
  EXPECT_EQ(response.negative_pooled_prompt_embeds().dtype(), v1::Tensor::DTYPE_BFLOAT16);
  EXPECT_FALSE(response.has_negative_prompt_embeds());
}

TEST_F(EncodeTest, WhatDoesNotFitCanBeHadInFewerBytes) {
  engine_.set_response_bytes(kMaxUnaryBytes);
  v1::EncodeResponse response;
  const grpc::Status status = Encode({}, response);
  EXPECT_EQ(ReasonOf(status), "RESPONSE_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("ask for dtype FLOAT16"));
}

TEST_F(EncodeTest, AResultThatIsNoneIsAFaultOfTheServer) {
  v1::EncodeResponse response;
  grpc::Status status;
  std::thread client([&] { status = Encode({}, response); });
  engine_.WaitForSpec();
  SendPicture("no tensors");
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
}

}  // namespace
}  // namespace latentd::server::calls
