// Spans that calls leave behind, over a real connection to the server.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "tests/server/running_server.h"
#include "tests/server/tracing/span_text.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using tracing::AttributesOf;
using tracing::NameOf;
using tracing::Span;

constexpr char kHeader[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";

class CallSpansTest : public RunningServer {
 protected:
  void SetUp() override {
    before_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    Start({.spans = &sender_});
  }
  void TearDown() override {
    server_.reset();
    spdlog::set_default_logger(before_);
  }

  grpc::Status Stream(grpc::ClientContext& context, const v1::GenerateRequest& request) {
    const auto reader = stub_->GenerateStream(&context, request);
    v1::GenerateEvent event;
    while (reader->Read(&event)) continue;
    return reader->Finish();
  }

  void SendEvents() {
    engine_.Send(engine::Queued{});
    engine_.Send(engine::Started{{64, 32}});
    const absl::Time now = clock_.Monotonic();
    clock_.Advance(absl::Seconds(2));
    engine_.Send(engine::Progress{.stage = engine::Stage::kSteps,
                                  .step = 1,
                                  .total_steps = 1,
                                  .model = "base",
                                  .worked = {{now, now + absl::Seconds(1)}}});
    engine_.Send(engine::Image{.bytes = "p", .encoded = {now, now}});
    engine_.Send(engine::Completed{});
  }

  // Spans of all calls, which have ended by then.
  std::vector<Span> Spans() {
    server_->Drain(absl::ZeroDuration());
    sender_.SendLast(absl::Minutes(1));
    return spans_;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const Span& span : Spans()) names.push_back(NameOf(span));
    return names;
  }

  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream log_;
  std::vector<Span> spans_;  // the sender's
  tracing::SpanSender sender_{{.period = absl::InfiniteDuration()},
                              {.send =
                                   [this](const tracing::ExportRequest& request, absl::Duration) {
                                     const auto& sent =
                                         request.resource_spans(0).scope_spans(0).spans();
                                     spans_.insert(spans_.end(), sent.begin(), sent.end());
                                     return 0;
                                   },
                               .cancel = [] {}},
                              {},
                              engine_.metrics(),
                              clock_,
                              [](auto&&...) {}};
};

TEST_F(CallSpansTest, AStreamGoesOnWithItsCallersTrace) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", std::string(kHeader) + "01");
  context.AddMetadata("tracestate", "congo=1");
  context.AddMetadata("tracestate", "rojo=2");
  std::thread engine([&] { SendEvents(); });
  v1::GenerateRequest request = Request();
  request.set_request_id("mine");
  request.set_width(56);
  request.set_height(24);
  EXPECT_TRUE(Stream(context, request).ok());
  engine.join();
  const std::vector<Span> spans = Spans();
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(NameOf(spans[0]), "latent.v1.ImageGeneration/GenerateStream");
  EXPECT_EQ(absl::BytesToHexString(spans[0].trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(absl::BytesToHexString(spans[0].parent_span_id()), "00f067aa0ba902b7");
  EXPECT_EQ(spans[0].trace_state(), "congo=1,rojo=2");
  EXPECT_EQ(AttributesOf(spans[0])["latentd.request_id"], "mine");
  EXPECT_EQ(AttributesOf(spans[0])["latentd.width"], "56");
  EXPECT_EQ(spans[0].end_time_unix_nano() - spans[0].start_time_unix_nano(), 2'000'000'000u);
  EXPECT_EQ(NameOf(spans[1]), "queue");
  EXPECT_EQ(NameOf(spans[2]), "steps base 0");
  EXPECT_EQ(spans[2].end_time_unix_nano() - spans[2].start_time_unix_nano(), 1'000'000'000u);
  EXPECT_EQ(NameOf(spans[3]), "encode_file 0");
  EXPECT_THAT(log_.str(), HasSubstr("trace_id=4bf92f3577b34da6a3ce929d0e0e4736"));
}

TEST_F(CallSpansTest, WhatTheCallerDoesNotRecordLeavesALogLineAlone) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", std::string(kHeader) + "00");
  std::thread engine([&] { SendEvents(); });
  EXPECT_TRUE(Stream(context, Request()).ok());
  engine.join();
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(log_.str(), HasSubstr("trace_id=4bf92f3577b34da6a3ce929d0e0e4736"));
}

TEST_F(CallSpansTest, ATraceThatBeginsHereIsInTheLog) {
  grpc::ClientContext context;
  std::thread engine([&] { SendEvents(); });
  v1::GenerateResponse response;
  EXPECT_TRUE(stub_->Generate(&context, Request(), &response).ok());
  engine.join();
  const std::vector<Span> spans = Spans();
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(NameOf(spans[0]), "latent.v1.ImageGeneration/Generate");
  EXPECT_EQ(spans[0].parent_span_id(), "");
  EXPECT_THAT(log_.str(), HasSubstr("trace_id=" + absl::BytesToHexString(spans[0].trace_id())));
}

TEST_F(CallSpansTest, ARefusedCallSaysWhichFieldAndNotWhatWasTyped) {
  grpc::ClientContext context;
  v1::GenerateRequest request = Request();
  request.set_prompt("secret");
  request.set_width(9);
  EXPECT_FALSE(Stream(context, request).ok());
  const std::vector<Span> spans = Spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].status().code(), opentelemetry::proto::collector::trace::v1::Status::ERROR);
  EXPECT_EQ(spans[0].status().message(), "INVALID_ARGUMENT reason=BAD_FIELDS bad_fields=width");
  EXPECT_EQ(AttributesOf(spans[0])["rpc.grpc.status_code"], "3");
  EXPECT_THAT(spans[0].SerializeAsString(), Not(HasSubstr("secret")));
}

TEST_F(CallSpansTest, ACancelledCallEndsItsSpans) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.Send(engine::Queued{});
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  engine_.WaitUntilCancelled();
  EXPECT_THAT(Names(), ElementsAre("latent.v1.ImageGeneration/GenerateStream", "queue"));
  EXPECT_EQ(spans_[0].status().message(), "CANCELLED");
}

TEST_F(CallSpansTest, AStreamThatIsResumedHasTheWorkOnce) {
  v1::GenerateRequest request = Request();
  request.set_request_id("mine");
  request.set_resumable(true);
  {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, request);
    engine_.Send(engine::Queued{});
    v1::GenerateEvent event;
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    EXPECT_FALSE(reader->Finish().ok());
  }
  grpc::ClientContext context;
  v1::ResumeStreamRequest resume;
  resume.set_request_id("mine");
  const auto reader = stub_->ResumeStream(&context, resume);
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  SendEvents();
  while (reader->Read(&event)) continue;
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("latent.v1.ImageGeneration/GenerateStream", "queue",
                                            "latent.v1.ImageGeneration/ResumeStream"));
}

}  // namespace
}  // namespace latentd::server::calls
