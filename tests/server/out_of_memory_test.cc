// Calls for which there is no memory: they are answered, and nothing of them is left for a drain to
// trip over.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "server/calls/grpc_status.h"
#include "server/calls/serialize.h"
#include "server/generation/outbox.h"
#include "tests/server/no_memory.h"
#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

class OutOfMemoryTest : public RunningServer {
 protected:
  grpc::Status Generate(const latent::v1::GenerateRequest& request) {
    grpc::ClientContext context;
    latent::v1::GenerateResponse response;
    return stub_->Generate(&context, request, &response);
  }
  grpc::Status Stream(const latent::v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, request);
    latent::v1::GenerateEvent event;
    while (reader->Read(&event)) {
    }
    return reader->Finish();
  }
  grpc::Status WarmAll() {
    latent::v1::WarmBucketsRequest request;
    request.mutable_selector()->set_all(true);
    return Warm(request);
  }
  grpc::Status Warm(const latent::v1::WarmBucketsRequest& request) {
    grpc::ClientContext context;
    const auto reader = graph_cache_->WarmBuckets(&context, request);
    latent::v1::WarmBucketsEvent event;
    while (reader->Read(&event)) {
    }
    return reader->Finish();
  }
  static void ExpectOutOfMemory(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_EQ(ReasonOf(status), "OUT_OF_MEMORY");
  }
};

TEST_F(OutOfMemoryTest, ARequestThatTheEngineHasNoMemoryForIsRefused) {
  engine_.RunOutOfMemory();
  ExpectOutOfMemory(Stream(Request()));
  engine_.RunOutOfMemory();
  ExpectOutOfMemory(Generate(Request()));
  server_->Drain(absl::ZeroDuration());
}

TEST_F(OutOfMemoryTest, WorkOfAnOperatorThatThereIsNoMemoryForIsRefusedAndTheNextIsDone) {
  int calls = 0;
  engine_.graphs().on_act = [&](const std::string&, const engine::GraphSelector&) {
    if (++calls == 1) throw std::bad_alloc();
    return FakeGraphAdmin::Results(std::vector<engine::EntryResult>());
  };
  const auto save = [&] {
    grpc::ClientContext context;
    latent::v1::SaveGraphsRequest request;
    request.mutable_selector()->set_all(true);
    latent::v1::GraphResults results;
    return graph_cache_->SaveGraphs(&context, request, &results);
  };
  ExpectOutOfMemory(save());
  EXPECT_TRUE(save().ok());
}

TEST_F(OutOfMemoryTest, WarmingThatThereIsNoMemoryForEndsItsStream) {
  engine_.graphs().on_warm = [](const engine::GraphSelector&, bool, const FakeGraphAdmin::Progress&)
      -> absl::StatusOr<engine::WarmOutcome> { throw std::bad_alloc(); };
  ExpectOutOfMemory(WarmAll());
  server_->Drain(absl::ZeroDuration());
}

TEST_F(OutOfMemoryTest, ARequestThatCannotBeReadForWantOfMemoryIsRefused) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  latent::v1::GenerateRequest request = Request();
  request.set_image(std::string(3 << 20, 'i'));
  {
    const testing::NoMemoryFrom none(2 << 20);
    ExpectOutOfMemory(Stream(request));
    ExpectOutOfMemory(Generate(request));
  }
  EXPECT_EQ(engine_.job_count(), 0u);
  server_->Drain(absl::ZeroDuration());
}

TEST_F(OutOfMemoryTest, WithoutMemoryToSayWhyARequestIsRefusedAllTheSame) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  const auto run_out = [] {
    testing::RefuseNext(1);  // the message
    throw std::bad_alloc();
  };
  engine_.OnNextSubmit(run_out);
  EXPECT_EQ(Stream(Request()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine_.OnNextSubmit(run_out);
  EXPECT_EQ(Generate(Request()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  server_->Drain(absl::ZeroDuration());
}

// A stream sends pictures from where they are; previews it copies.
TEST_F(OutOfMemoryTest, WhatThereIsNoMemoryToSendEndsItsRequest) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  size_t number = 0;
  for (const bool streams : {true, false}) {
    grpc::Status status;
    std::thread client([&] { status = streams ? Stream(Request()) : Generate(Request()); });
    engine_.WaitForSpec(number);
    std::string bytes(generation::kChunkBytes, 'i');
    engine::Event event = engine::Image{.size = {64, 32}, .bytes = std::move(bytes)};
    if (streams) event = engine::Preview{.bytes = std::string(generation::kChunkBytes, 'p')};
    {
      const testing::NoMemoryFrom none(generation::kChunkBytes);
      engine_.Send(std::move(event), number);
    }
    client.join();
    ExpectOutOfMemory(status);
    engine_.WaitUntilCancelled(number++);
  }
  server_->Drain(absl::ZeroDuration());
}

TEST_F(OutOfMemoryTest, ACallWhoseLineThereIsNoMemoryForIsGoneAllTheSame) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  constexpr size_t kBytes = 1 << 20;
  grpc::Status status;
  std::thread client([&] { status = Stream(Request()); });
  engine_.WaitForSpec();
  const std::weak_ptr<engine::EventSink> call = engine_.SinkOf(0);
  {
    engine::Event failed = engine::Failed{absl::InternalError(std::string(kBytes, 'e'))};
    const testing::NoMemoryFrom none(kBytes);
    engine_.Send(std::move(failed));
    client.join();
    server_.reset();
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(call.expired());
}

TEST_F(OutOfMemoryTest, WorkOfAnOperatorWhoseLineThereIsNoMemoryForEnds) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  engine_.graphs().on_act = [](const std::string&, const engine::GraphSelector&) {
    testing::RefuseNext(1);
    return FakeGraphAdmin::Results(absl::Status(absl::StatusCode::kAborted, ""));
  };
  grpc::ClientContext context;
  latent::v1::SaveGraphsRequest request;
  request.mutable_selector()->set_all(true);
  latent::v1::GraphResults results;
  const grpc::Status status = graph_cache_->SaveGraphs(&context, request, &results);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
}

// With names enough that the list of them can be told from everything else.
latent::v1::WarmBucketsRequest ManyNames() {
  latent::v1::WarmBucketsRequest request;
  for (int i = 0; i < 1024; ++i) request.mutable_selector()->add_ids("aaaaaaaa");
  return request;
}

TEST_F(OutOfMemoryTest, WarmingEndsWhereverThereIsNoMemoryForItsNames) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  engine_.graphs().on_warm = [](const engine::GraphSelector&, bool,
                                const FakeGraphAdmin::Progress&) { return engine::WarmOutcome(); };
  const latent::v1::WarmBucketsRequest request = ManyNames();
  int before = 0;
  for (grpc::Status status(grpc::StatusCode::UNKNOWN, ""); !status.ok(); ++before) {
    ASSERT_LT(before, 100);
    const testing::NoMemoryFrom none(1024 * sizeof(std::string), before);
    status = Warm(request);
    if (!status.ok()) ExpectOutOfMemory(status);
  }
  EXPECT_GT(before, 2);  // the request is read, and then waits for the worker
  server_->Drain(absl::ZeroDuration());
}

TEST_F(OutOfMemoryTest, WarmingWhoseOutcomeThereIsNoMemoryForEndsItsStream) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  engine_.graphs().on_warm = [](const engine::GraphSelector&, bool,
                                const FakeGraphAdmin::Progress&) {
    testing::RefuseNext(1);
    return engine::WarmOutcome();
  };
  EXPECT_EQ(WarmAll().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(OutOfMemoryTest, HealthThatThereIsNoMemoryForIsAnswered) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(3 << 20, 's'));
  grpc::health::v1::HealthCheckResponse response;
  const testing::NoMemoryFrom none(2 << 20);
  grpc::ClientContext context;
  ExpectOutOfMemory(health_->Check(&context, request, &response));
  grpc::ClientContext watching;
  const auto reader = health_->Watch(&watching, request);
  EXPECT_FALSE(reader->Read(&response));
  ExpectOutOfMemory(reader->Finish());
}

TEST_F(OutOfMemoryTest, AStatusThatThereIsNoMemoryForEndsThoseWhoWatchIt) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  grpc::ClientContext context;
  const auto reader = admin_->WatchServerStatus(&context, {});
  latent::v1::ServerStatus told;
  ASSERT_TRUE(reader->Read(&told));
  engine::ServerStatus status = engine_.status();
  status.reason = std::string(1 << 20, 'r');
  {
    const testing::NoMemoryFrom none(1 << 20, /*before=*/1);  // the engine's own
    engine_.set_status(status);
  }
  EXPECT_FALSE(reader->Read(&told));
  ExpectOutOfMemory(reader->Finish());
}

class ImportOutOfMemoryTest : public OutOfMemoryTest {
 protected:
  void SetUp() override {
    Start({.imports = {true, {.graph_bytes = 4 << 20, .stream_bytes = 6 << 20}}});
  }
  grpc::Status Import() {
    grpc::ClientContext context;
    latent::v1::GraphResults results;
    const auto writer = graph_cache_->ImportGraphs(&context, &results);
    latent::v1::GraphBytes message;
    message.set_total_bytes(5);
    message.set_data("bytes");
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(ImportOutOfMemoryTest, AGraphWhoseResultThereIsNoMemoryForEndsTheImport) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  engine_.graphs().on_import = [](std::string) {
    testing::RefuseNext(1);
    return engine::EntryResult{.id = "id"};
  };
  EXPECT_EQ(Import().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine_.graphs().on_import = [](std::string) { return engine::EntryResult{.id = "id"}; };
  EXPECT_TRUE(Import().ok());
}

TEST(FinalStatusTest, IsThereWithoutMemory) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  const absl::Status status = absl::InternalError("a message that is longer than sixteen bytes");
  testing::RefuseNext(1);
  EXPECT_EQ(calls::FinalStatus(status).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(calls::FinalStatus(status).error_code(), grpc::StatusCode::INTERNAL);
}

// gRPC makes room for large slices with operator new, so callers can catch it.
TEST(SerializeTest, ThrowsWhereThereIsNoMemory) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  latent::v1::ImageChunk chunk;
  chunk.set_data(std::string(1 << 20, 'i'));
  const testing::NoMemoryFrom none(1 << 20);
  EXPECT_THROW(calls::Serialize(chunk), std::bad_alloc);
}

}  // namespace
}  // namespace latentd::server
