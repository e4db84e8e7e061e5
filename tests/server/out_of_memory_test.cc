// Calls for which there is no memory: they are answered, and nothing of them is left for a drain to
// trip over.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <new>
#include <vector>

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
  grpc::ClientContext context;
  latent::v1::WarmBucketsRequest request;
  request.mutable_selector()->set_all(true);
  const auto reader = graph_cache_->WarmBuckets(&context, request);
  latent::v1::WarmBucketsEvent event;
  while (reader->Read(&event)) {
  }
  ExpectOutOfMemory(reader->Finish());
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

}  // namespace
}  // namespace latentd::server
