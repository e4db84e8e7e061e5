// Generate and GenerateStream over a real connection.
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/client_context.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "server/calls/unary_call.h"
#include "tests/server/running_server.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using generation::kChunkBytes;
using generation::kStallLimit;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class GenerateCallTest : public RunningServer {
 protected:
  // Nothing of the server holds on to the request any more: it lets go before it cancels the work.
  void ExpectAllIsLetGo() {
    engine_.WaitUntilCancelled();
    EXPECT_EQ(server_->held_bytes(), 0);
  }

  grpc::Status Generate(const v1::GenerateRequest& request, v1::GenerateResponse& response) {
    grpc::ClientContext context;
    return stub_->Generate(&context, request, &response);
  }

  grpc::Status Stream(const v1::GenerateRequest& request,
                      std::vector<v1::GenerateEvent>* events = nullptr) {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, request);
    v1::GenerateEvent event;
    while (reader->Read(&event)) {
      if (events != nullptr) events->push_back(event);
    }
    return reader->Finish();
  }

  // Calls with bytes that are no message.
  grpc::Status CallWithBytes(const std::string& method, const std::string& bytes) {
    grpc::GenericStub generic(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(bytes);
    const auto call = generic.PrepareUnaryCall(&context, "/latent.v1.ImageGeneration/" + method,
                                               grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }
};

TEST_F(GenerateCallTest, PicturesOfAnAnswerAreUnreadUntilTheClientHasIt) {
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> unread = token;
  std::thread client([&] {
    v1::GenerateResponse response;
    EXPECT_TRUE(Generate(Request(), response).ok());
  });
  engine_.Send(engine::Started{{64, 32}});
  engine_.Send(engine::Image{.size = {64, 32}, .bytes = "picture", .unread = std::move(token)});
  EXPECT_FALSE(unread.expired());
  engine_.Send(engine::Completed{});
  client.join();
  server_.reset();
  EXPECT_TRUE(unread.expired());
}

TEST_F(GenerateCallTest, APictureOfAStreamIsLetGoWhileTheCallGoesOn) {
  absl::Notification let_go;
  std::thread client([&] { EXPECT_TRUE(Stream(Request()).ok()); });
  engine_.Send(engine::Started{{64, 32}});
  engine_.Send(engine::Image{.size = {64, 32},
                             .bytes = std::string(kChunkBytes + 1000, 'p'),
                             .unread = NotifyWhenGone(let_go)});
  EXPECT_TRUE(let_go.WaitForNotificationWithTimeout(absl::Seconds(30)));
  engine_.Send(engine::Completed{});
  client.join();
}

TEST_F(GenerateCallTest, AStreamTellsWhatHappens) {
  const std::string bytes(kChunkBytes + 1000, 'p');
  std::thread engine([&] { SendPicture(bytes); });
  std::vector<v1::GenerateEvent> events;
  v1::GenerateRequest request = Request();
  request.set_request_id("mine");
  EXPECT_TRUE(Stream(request, &events).ok());
  engine.join();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_TRUE(events[0].has_queued() && events[1].has_started() && events[2].has_progress());
  EXPECT_EQ(events[0].request_id(), "mine");
  EXPECT_EQ(events[3].image_chunk().data() + events[4].image_chunk().data(), bytes);
  EXPECT_TRUE(events[5].has_completed());
}

TEST_F(GenerateCallTest, TheUnaryAnswerIsTheStreamCollected) {
  const std::string bytes(3 * kChunkBytes, 'p');
  std::thread engine([&] { SendPicture(bytes); });
  v1::GenerateResponse response;
  EXPECT_TRUE(Generate(Request(), response).ok());
  engine.join();
  ASSERT_EQ(response.images_size(), 1);
  EXPECT_EQ(response.images(0).data(), bytes);
  EXPECT_EQ(response.images(0).seed(), 7u);
  EXPECT_EQ(response.images(0).size().width(), 64);
  EXPECT_TRUE(response.has_completed());
  EXPECT_FALSE(response.request_id().empty());
}

TEST_F(GenerateCallTest, BadFieldsOfFormAndOfMeaningComeTogether) {
  v1::GenerateRequest request = Request();
  request.clear_prompt();
  request.set_width(9);
  request.set_guidance_scale(31);
  request.set_bucket_policy(static_cast<v1::BucketPolicy>(9));
  for (const grpc::Status& status : {Stream(request), [&] {
                                       v1::GenerateResponse response;
                                       return Generate(request, response);
                                     }()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    std::vector<std::string> fields;
    const auto details = DetailOf<google::rpc::BadRequest>(status);
    for (const auto& violation : details.field_violations()) fields.push_back(violation.field());
    EXPECT_THAT(fields, UnorderedElementsAre("prompt", "bucket_policy", "width", "guidance_scale"));
    EXPECT_EQ(ReasonOf(status), "BAD_FIELDS");
    EXPECT_THAT(DetailOf<google::rpc::ErrorInfo>(status).metadata(),
                UnorderedElementsAre(Pair("min_side", "64"), Pair("max_side", "2048"),
                                     Pair("side_multiple", "8"), Pair("max_pixels", "4194304"),
                                     Pair("max_guidance_scale", "30")));
  }
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(GenerateCallTest, TextThatIsNotUtf8IsNamedOnTheWire) {
  for (const char* method : {"Generate", "GenerateStream"}) {
    const grpc::Status status = CallWithBytes(method, "\x12\x02\xC3\x28");  // prompt = 2
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "prompt");
  }
}

TEST_F(GenerateCallTest, BytesThatAreNoRequestAreMalformed) {
  const grpc::Status status = CallWithBytes("GenerateStream", "\x12\xFF\xFF\xFF\x7F");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "MALFORMED");
}

TEST_F(GenerateCallTest, OnceTheDeviceHasFailedClientsAreToldSo) {
  engine_.set_status({.state = engine::State::kFailed, .device_fault = "it fell off the bus"});
  const grpc::Status status = Stream(Request());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DEVICE_FAULT");
  EXPECT_GT(DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(), 0);
}

TEST_F(GenerateCallTest, WhileLoadingAndWarmingClientsAreToldToComeBack) {
  for (const engine::State state : {engine::State::kLoading, engine::State::kWarming}) {
    engine_.set_state(state);
    const grpc::Status status = Stream(Request());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "LOADING");
    EXPECT_GT(DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(), 0);
  }
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  EXPECT_EQ(stub_->GetCapabilities(&context, {}, &capabilities).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GenerateCallTest, AFullQueueSaysWhenToComeBack) {
  engine_.set_submit_status(
      WithRetryDelay(WithReason(absl::ResourceExhaustedError("64 pictures wait"), "QUEUE_FULL"),
                     absl::Seconds(9)));
  v1::GenerateResponse response;
  const grpc::Status status = Generate(Request(), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_EQ(DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(), 9);
}

TEST_F(GenerateCallTest, AFailureOfTheEngineEndsTheCall) {
  std::thread engine([&] {
    engine_.Send(engine::Started{});
    engine_.Send(engine::Failed{absl::InternalError("the picture has no finite number")});
  });
  const grpc::Status status = Stream(Request());
  engine.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "the picture has no finite number");
}

TEST_F(GenerateCallTest, CancellingReachesTheEngine) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.Send(engine::Queued{});
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectAllIsLetGo();
}

TEST_F(GenerateCallTest, CancellingAUnaryCallReachesTheEngine) {
  grpc::ClientContext context;
  std::thread canceller([&] {
    engine_.WaitForSpec();
    context.TryCancel();
  });
  v1::GenerateResponse response;
  EXPECT_EQ(stub_->Generate(&context, Request(), &response).error_code(),
            grpc::StatusCode::CANCELLED);
  canceller.join();
  engine_.WaitUntilCancelled();
}

TEST_F(GenerateCallTest, ADeadlineThatPassesStopsTheWork) {
  // Until one is long enough for the call to come to the engine.
  for (auto time = std::chrono::milliseconds(50); engine_.job_count() == 0; time *= 2) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time);
    v1::GenerateResponse response;
    EXPECT_EQ(stub_->Generate(&context, Request(), &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  engine_.WaitUntilCancelled();
}

TEST_F(GenerateCallTest, AConnectionThatBreaksStopsTheWork) {
  auto context = std::make_unique<grpc::ClientContext>();
  auto reader = stub_->GenerateStream(context.get(), Request());
  engine_.WaitForSpec();
  reader.reset();
  context.reset();
  stub_.reset();
  health_.reset();
  channel_.reset();
  ExpectAllIsLetGo();
}

TEST_F(GenerateCallTest, AClientThatReadsNothingIsCancelledAndItsPicturesAreLetGo) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  // More than the connection's buffers take.
  for (int i = 0; i < 4; ++i) {
    engine_.Send(engine::Image{.index = i, .bytes = std::string(16 << 20, 'p')});
  }
  clock_.Advance(kStallLimit - absl::Seconds(1));
  server_->CancelStalled();
  EXPECT_GT(server_->held_bytes(), 0);
  clock_.Advance(absl::Seconds(1));
  server_->CancelStalled();
  ExpectAllIsLetGo();
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GenerateCallTest, AClientThatReadsSlowlyGetsEveryByte) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  constexpr int kPictures = 12;
  const std::string bytes(1 << 20, 'p');
  for (int i = 0; i < kPictures; ++i) engine_.Send(engine::Image{.index = i, .bytes = bytes});
  engine_.Send(engine::Completed{});
  size_t read = 0;
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
    read += event.image_chunk().data().size();
    if (!event.has_image_chunk() || read % bytes.size() != 0) continue;
    // The bytes on their way now are a later picture's, or the server has not heard yet that this
    // one is read: then it waits since the one before it was. Four times the limit passes in all.
    clock_.Advance(kStallLimit / 3);
    server_->CancelStalled();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(read, kPictures * bytes.size());
}

TEST_F(GenerateCallTest, CapabilitiesAreTheEnginesWithTheServersVersion) {
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_TRUE(stub_->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.backend(), "fake");
  EXPECT_EQ(capabilities.version(), "test");
  EXPECT_EQ(capabilities.models(0).name(), "base");
  EXPECT_EQ(capabilities.default_size().width(), 256);
}

TEST_F(GenerateCallTest, BucketsAndTheirReadinessAreCapabilities) {
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_TRUE(stub_->GetCapabilities(&context, {}, &capabilities).ok());
  ASSERT_EQ(capabilities.buckets_size(), 2);
  EXPECT_EQ(capabilities.buckets(0).size().height(), 256);
  EXPECT_TRUE(capabilities.buckets(0).ready());
  EXPECT_FALSE(capabilities.buckets(1).ready());
}

TEST_F(GenerateCallTest, TheBucketIsToldWhenWorkStartsAndEnds) {
  std::thread engine([&] {
    engine_.Send(engine::Started{{320, 192}});
    engine_.Send(engine::Completed{.executed_size = {320, 192}});
  });
  v1::GenerateRequest request = Request();
  request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  std::vector<v1::GenerateEvent> events;
  EXPECT_TRUE(Stream(request, &events).ok());
  engine.join();
  EXPECT_EQ(engine_.WaitForSpec().picture.bucket_policy, pipeline::BucketPolicy::kSnap);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].started().executed_size().width(), 320);
  EXPECT_EQ(events[1].completed().executed_size().height(), 192);
}

TEST_F(GenerateCallTest, PreviewsGoWithTheStreamAlone) {
  v1::GenerateRequest request = Request();
  request.mutable_previews()->set_every_n_steps(2);
  std::thread engine([&] {
    engine_.Send(engine::Preview{.step = 2, .bytes = "jpeg"});
    engine_.Send(engine::Completed{});
  });
  std::vector<v1::GenerateEvent> events;
  EXPECT_TRUE(Stream(request, &events).ok());
  engine.join();
  EXPECT_TRUE(engine_.WaitForSpec().picture.takes_previews);
  EXPECT_EQ(engine_.WaitForSpec().picture.previews_every, 2);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].preview().data(), "jpeg");
}

TEST_F(GenerateCallTest, TheEngineIsToldThatOneAnswerTakesNoPreviews) {
  std::thread engine([&] { engine_.Send(engine::Completed{}); });
  v1::GenerateResponse response;
  EXPECT_TRUE(Generate(Request(), response).ok());
  engine.join();
  EXPECT_FALSE(engine_.WaitForSpec().picture.takes_previews);
}

TEST_F(GenerateCallTest, TheLogLineSaysTheBucketWhereItDiffers) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  for (const pipeline::Size bucket : {pipeline::Size{320, 192}, pipeline::Size{300, 180}}) {
    std::thread engine([&] {
      const size_t number = bucket.width == 320 ? 0 : 1;
      engine_.Send(engine::Started{bucket}, number);
      engine_.Send(engine::Image{.size = {300, 180}, .bytes = "p"}, number);
      engine_.Send(engine::Completed{}, number);
    });
    EXPECT_TRUE(Stream(Request()).ok());
    engine.join();
  }
  server_->Drain(absl::ZeroDuration());  // every line is written
  spdlog::set_default_logger(before);
  EXPECT_THAT(text.str(), HasSubstr("code=OK bucket=320x192"));
  EXPECT_THAT(text.str(), HasSubstr("size=300x180"));
  EXPECT_THAT(text.str(), Not(HasSubstr("bucket=300x180")));
}

TEST_F(GenerateCallTest, ADegradedServerTakesRequests) {
  engine_.set_state(engine::State::kDegraded);
  std::thread engine([&] { SendPicture("p"); });
  EXPECT_TRUE(Stream(Request()).ok());
  engine.join();
}

TEST_F(GenerateCallTest, DrainingCancelsWhatRunsAndRefusesWhatComes) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Request());
  engine_.WaitForSpec();
  engine_.set_state(engine::State::kDraining);
  const grpc::Status refused = Stream(Request());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(refused), "DRAINING");
  server_->Drain(absl::ZeroDuration());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace latentd::server::calls
