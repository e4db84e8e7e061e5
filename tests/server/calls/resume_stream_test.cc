// ResumeStream and CancelGeneration over a real connection.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "server/generation/kept_streams.h"
#include "server/generation/outbox.h"
#include "tests/server/running_server.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using generation::kChunkBytes;
using generation::kStallLimit;
using ::testing::UnorderedElementsAre;

using EventReader = std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>>;

class ResumeStreamTest : public RunningServer {
 protected:
  static v1::GenerateRequest Resumable(const std::string& id = "mine") {
    v1::GenerateRequest request = Request();
    request.set_request_id(id);
    request.set_resumable(true);
    return request;
  }

  static std::string BadFieldOf(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return DetailOf<google::rpc::BadRequest>(status).field_violations(0).field();
  }

  // The bytes of all pictures that are still to come.
  static std::string ReadAll(grpc::ClientReader<v1::GenerateEvent>& reader) {
    std::string bytes;
    v1::GenerateEvent event;
    while (reader.Read(&event)) bytes += event.image_chunk().data();
    return bytes;
  }

  // The bytes of the next chunk.
  static std::string ReadChunk(grpc::ClientReader<v1::GenerateEvent>& reader) {
    v1::GenerateEvent event;
    while (reader.Read(&event) && !event.has_image_chunk()) {
    }
    return event.image_chunk().data();
  }

  EventReader Resume(grpc::ClientContext& context, int images = 0, int64_t bytes = 0) {
    v1::ResumeStreamRequest request;
    request.set_request_id("mine");
    request.set_received_images(images);
    request.set_received_bytes(bytes);
    return stub_->ResumeStream(&context, request);
  }

  grpc::Status Stream(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, request);
    ReadAll(*reader);
    return reader->Finish();
  }

  grpc::Status CancelGeneration(const std::string& id) {
    grpc::ClientContext context;
    v1::CancelGenerationRequest request;
    request.set_request_id(id);
    v1::CancelGenerationResponse response;
    return stub_->CancelGeneration(&context, request, &response);
  }

  // A request of which the client has one chunk, of a picture of `bytes`, when its call breaks.
  std::string BreakInPicture(const std::string& bytes) {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, Resumable());
    engine_.Send(engine::Started{{64, 32}});
    engine_.Send(engine::Image{.index = 0, .bytes = bytes});
    std::string chunk = ReadChunk(*reader);
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    return chunk;
  }
};

TEST_F(ResumeStreamTest, ABrokenStreamGoesOnWhereItBroke) {
  const std::string first(2 * kChunkBytes + 1000, 'a'), second(1000, 'b');
  const std::string had = BreakInPicture(first);
  ASSERT_EQ(had.size(), kChunkBytes);
  grpc::ClientContext context;
  const auto reader = Resume(context, 0, static_cast<int64_t>(had.size()));
  EXPECT_EQ(ReadChunk(*reader), std::string(kChunkBytes, 'a'));
  engine_.Send(engine::Image{.index = 1, .bytes = second});
  engine_.Send(engine::Completed{});
  EXPECT_EQ(ReadAll(*reader), std::string(1000, 'a') + second);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(engine_.job_count(), 1u);
}

TEST_F(ResumeStreamTest, WhatEndedMeanwhileIsThereWhole) {
  const std::string bytes(kChunkBytes + 1, 'a');
  BreakInPicture(bytes);
  engine_.Send(engine::Image{.index = 1, .bytes = "other"});
  engine_.Send(engine::Completed{});
  for (const int images : {0, 1, 2, 3}) {
    grpc::ClientContext context;
    const auto reader = Resume(context, images);
    EXPECT_EQ(ReadAll(*reader), (images < 1 ? bytes : "") + (images < 2 ? "other" : ""));
    EXPECT_TRUE(reader->Finish().ok());
  }
}

TEST_F(ResumeStreamTest, HowItFailedIsToldToWhoComesBack) {
  BreakInPicture("picture");
  engine_.Send(engine::Failed{absl::InternalError("the picture has no finite number")});
  grpc::ClientContext context;
  const auto reader = Resume(context);
  ReadAll(*reader);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INTERNAL);
}

TEST_F(ResumeStreamTest, TheNewestCallReadsAndTheOlderEnds) {
  grpc::ClientContext old_context, new_context;
  const auto older = stub_->GenerateStream(&old_context, Resumable());
  engine_.Send(engine::Started{{64, 32}});
  v1::GenerateEvent event;
  ASSERT_TRUE(older->Read(&event));
  const auto newer = Resume(new_context);
  ASSERT_TRUE(newer->Read(&event));
  EXPECT_TRUE(event.has_started());
  const grpc::Status ended = older->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(ended), "TAKEN_OVER");
  engine_.Send(engine::Completed{});
  ReadAll(*newer);
  EXPECT_TRUE(newer->Finish().ok());
}

TEST_F(ResumeStreamTest, CancelGenerationStopsTheWorkOfWhoReads) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Resumable());
  engine_.WaitForSpec();
  engine_.Send(engine::Started{{64, 32}});
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_TRUE(CancelGeneration("mine").ok());
  engine_.WaitUntilCancelled();
  const grpc::Status ended = reader->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(ReasonOf(ended), "STREAM_DROPPED");
  const grpc::Status again = CancelGeneration("mine");
  EXPECT_EQ(again.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(again), "NO_SUCH_STREAM");
}

TEST_F(ResumeStreamTest, WhatWasSentGivesWayToTheNextPicture) {
  absl::Notification let_go;
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Resumable());
  engine_.Send(engine::Image{.index = 0, .bytes = "first", .unread = NotifyWhenGone(let_go)});
  EXPECT_EQ(ReadChunk(*reader), "first");
  server_->MakeRoom();
  EXPECT_FALSE(let_go.HasBeenNotified());
  engine_.set_waits_for_readers();
  server_->MakeRoom();
  // The client may have the bytes before gRPC tells the server so and lets go of them.
  EXPECT_TRUE(let_go.WaitForNotificationWithTimeout(absl::Seconds(30)));
  engine_.Send(engine::Image{.index = 1, .bytes = "second"});
  engine_.Send(engine::Completed{});
  EXPECT_EQ(ReadAll(*reader), "second");
  EXPECT_TRUE(reader->Finish().ok());
  grpc::ClientContext with_first, without, again;
  EXPECT_EQ(ReadAll(*Resume(with_first, 1)), "second");
  const grpc::Status gone = Resume(without, 0, 3)->Finish();
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(gone), "NO_SUCH_STREAM");
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(gone).metadata().at("request_id"), "mine");
  EXPECT_EQ(ReasonOf(Resume(again, 1)->Finish()), "NO_SUCH_STREAM");  // nor anything else
}

TEST_F(ResumeStreamTest, WhoComesBackAndReadsNothingHoldsNoMemory) {
  BreakInPicture(std::string(64 * kChunkBytes, 'a'));
  clock_.Advance(kStallLimit);
  grpc::ClientContext context;
  const auto reader = Resume(context);
  EXPECT_EQ(ReadChunk(*reader).size(), kChunkBytes);
  engine_.set_waits_for_readers();
  server_->MakeRoom();
  engine_.WaitUntilCancelled();
  EXPECT_LT(ReadAll(*reader).size(), 63 * kChunkBytes);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ResumeStreamTest, ADrainEndsTheWorkThatNobodyReads) {
  BreakInPicture(std::string(kChunkBytes + 1, 'a'));
  grpc::ClientContext context;
  const auto reader = Resume(context, 2);  // nothing that there is
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  reader->Finish();
  engine_.OnDrain([&] { engine_.WaitUntilCancelled(); });
  server_->Drain(absl::Minutes(1));
}

TEST_F(ResumeStreamTest, WhatWasSentGivesWayInADrainToo) {
  absl::Notification released;
  std::shared_ptr<const void> token(nullptr, [&](const void*) { released.Notify(); });
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Resumable());
  engine_.Send(engine::Image{.index = 0, .bytes = "first", .unread = std::move(token)});
  EXPECT_EQ(ReadChunk(*reader), "first");
  engine_.set_waits_for_readers();
  engine_.OnDrain([&] {
    released.WaitForNotification();
    engine_.Send(engine::Image{.index = 1, .bytes = "second"});
    engine_.Send(engine::Completed{});
  });
  std::thread drain([&] { server_->Drain(absl::Minutes(1)); });
  EXPECT_EQ(ReadAll(*reader), "second");
  EXPECT_TRUE(reader->Finish().ok());
  drain.join();
}

TEST_F(ResumeStreamTest, ASecondRequestOfThatNameIsRefused) {
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Resumable());
  engine_.WaitForSpec();
  const grpc::Status refused = Stream(Resumable());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(refused), "STREAM_EXISTS");
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(refused).metadata().at("request_id"), "mine");
  std::thread engine([&] { engine_.Send(engine::Completed{}, 1); });
  EXPECT_TRUE(Stream(Resumable("another")).ok());
  engine.join();
}

TEST_F(ResumeStreamTest, WhatTheEngineRefusesIsNotKept) {
  engine_.set_submit_status(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Stream(Resumable()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CancelGeneration("mine").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ResumeStreamTest, WhoReadsWhatTheEngineThenRefusesIsToldSo) {
  engine_.set_submit_status(WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
  std::vector<std::string> reasons(2);
  std::vector<std::thread> resuming;
  absl::Notification one_ended;
  std::atomic<int> ended = 0;
  engine_.OnNextSubmit([&] {
    for (std::string& reason : reasons) {
      resuming.emplace_back([&] {
        grpc::ClientContext context;
        reason = ReasonOf(Resume(context)->Finish());
        if (++ended == 1) one_ended.Notify();
      });
    }
    one_ended.WaitForNotification();  // the other has taken over from it
  });
  EXPECT_EQ(ReasonOf(Stream(Resumable())), "TAKEN_OVER");
  for (std::thread& thread : resuming) thread.join();
  EXPECT_THAT(reasons, UnorderedElementsAre("TAKEN_OVER", "QUEUE_FULL"));
}

TEST_F(ResumeStreamTest, WhatIsNotResumableIsNotKept) {
  v1::GenerateRequest request = Resumable();
  request.set_resumable(false);
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, request);
  engine_.WaitForSpec();
  EXPECT_EQ(CancelGeneration("mine").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ResumeStreamTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(BadFieldOf(Stream(Resumable(""))), "resumable");
  grpc::ClientContext context;
  v1::GenerateResponse response;
  EXPECT_EQ(BadFieldOf(stub_->Generate(&context, Resumable(), &response)), "resumable");
  EXPECT_EQ(BadFieldOf(CancelGeneration("")), "request_id");
  grpc::ClientContext images, bytes, unknown;
  EXPECT_EQ(BadFieldOf(Resume(images, -1)->Finish()), "received_images");
  EXPECT_EQ(BadFieldOf(Resume(bytes, 0, -1)->Finish()), "received_bytes");
  EXPECT_EQ(ReasonOf(Resume(unknown)->Finish()), "NO_SUCH_STREAM");
}

}  // namespace
}  // namespace latentd::server::calls
