// Text that is not UTF-8, from an engine that has met names and files of that kind: every answer
// can be read, and says where it was.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <string>

#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kForeign[] = "caf\xE9";  // Latin-1
constexpr char kReadable[] = "caf\\xe9";

class ForeignTextTest : public RunningServer {
 protected:
  void SetUp() override {
    engine::ServerStatus status = {.state = engine::State::kDegraded, .reason = kForeign};
    status.buckets = {{.size = {256, 256}, .reason = kForeign}};
    engine_.set_status(status);
    RunningServer::SetUp();
  }

  static engine::EntryResult Refused() {
    return {.id = "1f", .component = kForeign, .status = absl::NotFoundError(kForeign)};
  }

  static v1::GraphSelector All() {
    v1::GraphSelector selector;
    selector.set_all(true);
    return selector;
  }

  grpc::ClientContext context_;
};

TEST_F(ForeignTextTest, AStatusCanBeRead) {
  v1::ServerStatus status;
  const grpc::Status called = admin_->GetServerStatus(&context_, {}, &status);
  ASSERT_TRUE(called.ok()) << called.error_message();
  EXPECT_EQ(status.reason(), kReadable);
  EXPECT_EQ(status.buckets(0).reason(), kReadable);
}

TEST_F(ForeignTextTest, AWatchedStatusCanBeRead) {
  const auto reader = admin_->WatchServerStatus(&context_, {});
  v1::ServerStatus status;
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.reason(), kReadable);
  context_.TryCancel();
  reader->Finish();
}

TEST_F(ForeignTextTest, GraphsCanBeListed) {
  engine_.graphs().entries = {{.id = "1f",
                               .component = kForeign,
                               .users = {kForeign},
                               .reason = kForeign,
                               .key = {{kForeign, kForeign}}}};
  v1::ListGraphsResponse list;
  ASSERT_TRUE(graph_cache_->ListGraphs(&context_, {}, &list).ok());
  const v1::Graph& graph = list.graphs(0);
  EXPECT_EQ(graph.component(), kReadable);
  EXPECT_THAT(graph.users(), ElementsAre(kReadable));
  EXPECT_EQ(graph.reason(), kReadable);
  EXPECT_EQ(graph.key(0).name(), kReadable);
  EXPECT_EQ(graph.key(0).value(), kReadable);
}

TEST_F(ForeignTextTest, ResultsOfVerbsCanBeRead) {
  engine_.graphs().on_act = [](const std::string&, const engine::GraphSelector&) {
    return std::vector<engine::EntryResult>{Refused()};
  };
  v1::SaveGraphsRequest request;
  *request.mutable_selector() = All();
  v1::GraphResults results;
  ASSERT_TRUE(graph_cache_->SaveGraphs(&context_, request, &results).ok());
  EXPECT_EQ(results.results(0).component(), kReadable);
  EXPECT_EQ(results.results(0).error().message(), kReadable);
}

TEST_F(ForeignTextTest, ProgressOfWarmingCanBeRead) {
  engine_.graphs().on_warm = [](const auto&, bool, const FakeGraphAdmin::Progress& tell) {
    tell({.entry = Refused(), .done = 1, .total = 1});
    return engine::WarmOutcome{.failed = 1};
  };
  v1::WarmBucketsRequest request;
  *request.mutable_selector() = All();
  const auto reader = graph_cache_->WarmBuckets(&context_, request);
  v1::WarmBucketsEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.progress().result().error().message(), kReadable);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.done().failed(), 1);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(ForeignTextTest, MemoryCanBeRead) {
  engine_.report().weights = {{.component = kForeign, .users = {kForeign}}};
  engine_.report().devices = {{.name = kForeign}};
  v1::MemoryReport report;
  ASSERT_TRUE(admin_->GetMemoryReport(&context_, {}, &report).ok());
  EXPECT_EQ(report.weights(0).component(), kReadable);
  EXPECT_EQ(report.devices(0).name(), kReadable);
}

TEST_F(ForeignTextTest, WhyACallFailsCanBeRead) {
  engine_.set_submit_status(WithFacts(
      WithReason(absl::FailedPreconditionError(kForeign), "BUCKET_COLD"), {{"file", kForeign}}));
  v1::GenerateResponse response;
  const grpc::Status status = stub_->Generate(&context_, Request(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), kReadable);
  EXPECT_EQ(ReasonOf(status), "BUCKET_COLD");
  EXPECT_THAT(DetailOf<google::rpc::ErrorInfo>(status).metadata(),
              ElementsAre(Pair("file", kReadable)));
}

TEST_F(ForeignTextTest, WarningsOfAPictureCanBeRead) {
  const auto reader = stub_->GenerateStream(&context_, Request());
  engine_.Send(engine::Completed{.warnings = {kForeign}});
  v1::GenerateEvent event;
  while (reader->Read(&event) && !event.has_completed()) {
  }
  EXPECT_THAT(event.completed().warnings(), ElementsAre(kReadable));
  EXPECT_TRUE(reader->Finish().ok());
}

}  // namespace
}  // namespace latentd::server
