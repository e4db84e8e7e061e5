// latent.v1.GraphCache over a real connection, but for the bytes of graphs.
#include "server/admin/graph_cache_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/server/running_server.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kId[] = "0123456789abcdef0123456789abcdef";

engine::GraphEntry Entry(const std::string& id = kId) {
  engine::GraphEntry entry;
  entry.id = id;
  entry.model = "base";
  entry.component = "unet";
  entry.part = "step";
  entry.bucket = {256, 192};
  entry.rows = 2;
  entry.users = {"base", "refiner"};
  entry.state = engine::GraphState::kReady;
  entry.key = {{"graph", "abc"}, {"backend", "cpu"}};
  entry.device_bytes = 1;
  entry.arena_bytes = 2;
  entry.memory_bytes = 3;
  entry.disk_bytes = 4;
  entry.compile_time = absl::Milliseconds(1500);
  entry.load_time = absl::Milliseconds(20);
  entry.hits = 5;
  entry.last_use = absl::FromUnixSeconds(1000);
  entry.pinned = true;
  entry.in_use = true;
  return entry;
}

class GraphCacheServiceTest : public RunningServer {
 protected:
  template <typename Request>
  static Request ForId(const std::string& id = kId) {
    Request request;
    request.mutable_selector()->add_ids(id);
    return request;
  }

  // Fields that a refusal names.
  static std::vector<std::string> BadFields(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    std::vector<std::string> fields;
    const auto details = DetailOf<google::rpc::BadRequest>(status);
    for (const auto& violation : details.field_violations()) fields.push_back(violation.field());
    return fields;
  }

  grpc::Status Save(const v1::SaveGraphsRequest& request, v1::GraphResults* results = nullptr) {
    grpc::ClientContext context;
    v1::GraphResults unused;
    return graph_cache_->SaveGraphs(&context, request, results != nullptr ? results : &unused);
  }

  // Records the verb and the selector of the next call.
  void RecordVerb(std::string* verb, engine::GraphSelector* selector = nullptr) {
    engine_.graphs().on_act = [=](const std::string& called, const engine::GraphSelector& with) {
      *verb = called;
      if (selector != nullptr) *selector = with;
      return FakeGraphAdmin::Results(std::vector<engine::EntryResult>());
    };
  }
};

TEST_F(GraphCacheServiceTest, ListTellsAllOfAGraph) {
  engine_.graphs().entries = {Entry()};
  grpc::ClientContext context;
  v1::ListGraphsResponse response;
  ASSERT_TRUE(graph_cache_->ListGraphs(&context, {}, &response).ok());
  ASSERT_EQ(response.graphs_size(), 1);
  EXPECT_EQ(response.graphs(0).ShortDebugString(),
            "id: \"0123456789abcdef0123456789abcdef\" component: \"unet\" part: \"step\" "
            "bucket { width: 256 height: 192 } rows: 2 users: \"base\" users: \"refiner\" "
            "state: GRAPH_STATE_READY key { name: \"graph\" value: \"abc\" } "
            "key { name: \"backend\" value: \"cpu\" } device_bytes: 1 arena_bytes: 2 "
            "memory_bytes: 3 disk_bytes: 4 compile_time { seconds: 1 nanos: 500000000 } "
            "load_time { nanos: 20000000 } hits: 5 last_use { seconds: 1000 } pinned: true "
            "in_use: true model: \"base\"");
}

TEST_F(GraphCacheServiceTest, AGraphForEveryBucketThatWasNeverUsedHasNoBucketAndNoLastUse) {
  engine::GraphEntry entry = Entry();
  entry.bucket = {};
  entry.last_use = absl::InfinitePast();
  entry.state = engine::GraphState::kFailed;
  entry.reason = "no memory";
  engine_.graphs().entries = {entry};
  grpc::ClientContext context;
  v1::GetGraphRequest request;
  request.set_id(kId);
  v1::Graph graph;
  ASSERT_TRUE(graph_cache_->GetGraph(&context, request, &graph).ok());
  EXPECT_FALSE(graph.has_bucket() || graph.has_last_use());
  EXPECT_EQ(graph.state(), v1::GRAPH_STATE_FAILED);
  EXPECT_EQ(graph.reason(), "no memory");
}

TEST_F(GraphCacheServiceTest, AGraphThatIsNotThereIsNotFound) {
  grpc::ClientContext context;
  v1::GetGraphRequest request;
  request.set_id("ABCDEF");
  v1::Graph graph;
  const grpc::Status status = graph_cache_->GetGraph(&context, request, &graph);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("abcdef"));
}

TEST_F(GraphCacheServiceTest, AnIdIsHexadecimal) {
  for (const char* id : {"", "12345", "not-hex", "0123456789abcdef0123456789abcdef0"}) {
    grpc::ClientContext context;
    v1::GetGraphRequest request;
    request.set_id(id);
    v1::Graph graph;
    EXPECT_THAT(BadFields(graph_cache_->GetGraph(&context, request, &graph)), ElementsAre("id"));
  }
}

TEST_F(GraphCacheServiceTest, ASelectorReachesTheEngine) {
  std::string verb;
  engine::GraphSelector selector;
  RecordVerb(&verb, &selector);
  auto request = ForId<v1::SaveGraphsRequest>("ABCDEF");
  request.mutable_selector()->add_components("vae_decoder");
  request.mutable_selector()->add_buckets()->set_width(64);
  request.mutable_selector()->mutable_buckets(0)->set_height(32);
  request.mutable_selector()->add_models("refiner");
  ASSERT_TRUE(Save(request).ok());
  EXPECT_EQ(verb, "save");
  EXPECT_FALSE(selector.all);
  EXPECT_THAT(selector.ids, ElementsAre("abcdef"));
  EXPECT_THAT(selector.components, ElementsAre("vae_decoder"));
  EXPECT_THAT(selector.models, ElementsAre("refiner"));
  EXPECT_THAT(selector.buckets, ElementsAre(pipeline::Size{64, 32}));
}

TEST_F(GraphCacheServiceTest, ASelectorThatSelectsNothingIsRefused) {
  EXPECT_THAT(BadFields(Save({})), ElementsAre("selector"));
  v1::ListGraphsRequest request;
  request.mutable_selector();
  grpc::ClientContext context;
  v1::ListGraphsResponse response;
  EXPECT_THAT(BadFields(graph_cache_->ListGraphs(&context, request, &response)),
              ElementsAre("selector"));
}

TEST_F(GraphCacheServiceTest, EveryBadFieldOfASelectorIsNamed) {
  auto request = ForId<v1::SaveGraphsRequest>("xyz");
  request.mutable_selector()->add_components("unet");
  request.mutable_selector()->add_components("vae");
  request.mutable_selector()->add_buckets()->set_width(-1);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(99, 1);
  const grpc::Status status = Save(request);
  EXPECT_THAT(BadFields(status), ElementsAre("selector.ids[0]", "selector.components[1]",
                                             "selector.buckets[0]", "99"));
  EXPECT_THAT(status.error_message(), HasSubstr("vae_encoder"));
}

TEST_F(GraphCacheServiceTest, ASelectorHasALimit) {
  v1::SaveGraphsRequest request;
  for (int i = 0; i < 1025; ++i) request.mutable_selector()->add_ids(kId);
  EXPECT_THAT(BadFields(Save(request)), ElementsAre("selector.ids"));
}

TEST_F(GraphCacheServiceTest, EveryVerbReachesTheEngineWithWhatItSays) {
  std::string verb;
  RecordVerb(&verb);
  v1::GraphResults results;
  const auto expect = [&](const grpc::Status& status, const std::string& expected) {
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(std::exchange(verb, ""), expected);
  };
  const auto evict = [&](v1::CacheTier tier, bool force) {
    auto request = ForId<v1::EvictGraphsRequest>();
    request.set_tier(tier);
    request.set_force(force);
    grpc::ClientContext context;
    return graph_cache_->EvictGraphs(&context, request, &results);
  };
  const auto pin = [&](bool unpin) {
    auto request = ForId<v1::PinGraphsRequest>();
    request.set_unpin(unpin);
    grpc::ClientContext context;
    return graph_cache_->PinGraphs(&context, request, &results);
  };
  grpc::ClientContext load, verify;
  expect(graph_cache_->LoadGraphs(&load, ForId<v1::LoadGraphsRequest>(), &results), "load");
  expect(graph_cache_->VerifyGraphs(&verify, ForId<v1::VerifyGraphsRequest>(), &results), "verify");
  expect(evict(v1::CACHE_TIER_UNSPECIFIED, false), "evict memory");
  expect(evict(v1::CACHE_TIER_DISK, false), "evict disk");
  expect(evict(v1::CACHE_TIER_BOTH, true), "evict both forced");
  expect(pin(false), "pin");
  expect(pin(true), "unpin");
  EXPECT_THAT(BadFields(evict(static_cast<v1::CacheTier>(9), false)), ElementsAre("tier"));
}

TEST_F(GraphCacheServiceTest, AnEntrysFailureIsItsOwn) {
  engine_.graphs().on_act = [](const std::string&, const engine::GraphSelector&) {
    const absl::Status pinned =
        WithReason(absl::FailedPreconditionError("the graph is pinned"), "PINNED");
    return FakeGraphAdmin::Results(
        {{.id = "a", .model = "base", .component = "unet", .bucket = {64, 64}},
         {.id = "b", .component = "vae_decoder", .status = pinned}});
  };
  v1::GraphResults results;
  ASSERT_TRUE(Save(ForId<v1::SaveGraphsRequest>(), &results).ok());
  ASSERT_EQ(results.results_size(), 2);
  EXPECT_FALSE(results.results(0).has_error());
  EXPECT_EQ(results.results(0).bucket().width(), 64);
  EXPECT_EQ(results.results(1).error().code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(results.results(1).error().reason(), "PINNED");
  EXPECT_EQ(results.results(1).error().message(), "the graph is pinned");
}

TEST_F(GraphCacheServiceTest, WhatIsNotCompiledCannotBeSaved) {
  engine_.graphs().on_act = [](const std::string&, const engine::GraphSelector&) {
    return FakeGraphAdmin::Results(
        WithReason(absl::FailedPreconditionError("not compiled: abc"), "NOT_COMPILED"));
  };
  const grpc::Status status = Save(ForId<v1::SaveGraphsRequest>());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NOT_COMPILED");
}

TEST_F(GraphCacheServiceTest, WarmingTellsItsProgressAndItsEnd) {
  engine_.graphs().on_warm = [](const engine::GraphSelector& selector, bool dry_run,
                                const FakeGraphAdmin::Progress& progress) {
    EXPECT_TRUE(selector.all);
    EXPECT_FALSE(dry_run);
    engine::EntryResult entry{.id = kId, .model = "base", .component = "unet"};
    EXPECT_TRUE(progress({entry, 1, 2, /*compiled=*/true, absl::Seconds(3)}));
    entry.status = absl::InternalError("broken");
    EXPECT_TRUE(progress({entry, 2, 2, /*compiled=*/false, absl::Seconds(1)}));
    return engine::WarmOutcome{.compiled = 1, .failed = 1, .predicted = {1, 2, 3, 4}};
  };
  v1::WarmBucketsRequest request;
  request.mutable_selector()->set_all(true);
  grpc::ClientContext context;
  const auto reader = graph_cache_->WarmBuckets(&context, request);
  v1::WarmBucketsEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.progress().total(), 2);
  EXPECT_TRUE(event.progress().compiled());
  EXPECT_EQ(event.progress().duration().seconds(), 3);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.progress().result().error().message(), "broken");
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.done().compiled(), 1);
  EXPECT_EQ(event.done().failed(), 1);
  EXPECT_EQ(event.done().predicted().total_bytes(), 10);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(GraphCacheServiceTest, ADryRunOnlyPredicts) {
  engine_.graphs().on_warm = [](const engine::GraphSelector&, bool dry_run,
                                const FakeGraphAdmin::Progress&) {
    EXPECT_TRUE(dry_run);
    return engine::WarmOutcome{.predicted = {.weights = 7}};
  };
  auto request = ForId<v1::WarmBucketsRequest>();
  request.set_dry_run(true);
  grpc::ClientContext context;
  const auto reader = graph_cache_->WarmBuckets(&context, request);
  v1::WarmBucketsEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.done().predicted().weights_bytes(), 7);
}

TEST_F(GraphCacheServiceTest, CancellingAWarmingStopsIt) {
  absl::Notification stopped;
  engine_.graphs().on_warm = [&](const engine::GraphSelector&, bool,
                                 const FakeGraphAdmin::Progress& progress) {
    while (progress({})) std::this_thread::yield();  // until the cancellation has arrived
    stopped.Notify();
    return absl::StatusOr<engine::WarmOutcome>(absl::CancelledError("as asked"));
  };
  grpc::ClientContext context;
  const auto reader = graph_cache_->WarmBuckets(&context, ForId<v1::WarmBucketsRequest>());
  v1::WarmBucketsEvent event;
  ASSERT_TRUE(reader->Read(&event));
  context.TryCancel();
  stopped.WaitForNotification();
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GraphCacheServiceTest, AWarmingInStrictModeIsRefused) {
  engine_.graphs().on_warm = [](const engine::GraphSelector&, bool,
                                const FakeGraphAdmin::Progress&) {
    return absl::StatusOr<engine::WarmOutcome>(
        WithReason(absl::FailedPreconditionError("would compile abc"), "COMPILE_FORBIDDEN"));
  };
  grpc::ClientContext context;
  const auto reader = graph_cache_->WarmBuckets(&context, ForId<v1::WarmBucketsRequest>());
  v1::WarmBucketsEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(ReasonOf(reader->Finish()), "COMPILE_FORBIDDEN");
}

TEST_F(GraphCacheServiceTest, ABadSelectorForWarmingIsRefused) {
  grpc::ClientContext context;
  const auto reader = graph_cache_->WarmBuckets(&context, {});
  v1::WarmBucketsEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_THAT(BadFields(reader->Finish()), ElementsAre("selector"));
}

// A warming that does not go on until the test ends it; other calls are made meanwhile.
class WhileWarmingTest : public GraphCacheServiceTest {
 protected:
  void SetUp() override {
    GraphCacheServiceTest::SetUp();
    engine_.graphs().on_warm = [this](const engine::GraphSelector&, bool,
                                      const FakeGraphAdmin::Progress&) {
      started_.Notify();
      go_on_.WaitForNotification();
      return engine::WarmOutcome();
    };
    reader_ = graph_cache_->WarmBuckets(&context_, ForId<v1::WarmBucketsRequest>());
    started_.WaitForNotification();
  }
  void TearDown() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    v1::WarmBucketsEvent event;
    while (reader_->Read(&event)) {
    }
    EXPECT_TRUE(reader_->Finish().ok());
  }

  absl::Notification started_, go_on_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WarmBucketsEvent>> reader_;
};

TEST_F(WhileWarmingTest, GraphsCanBeSaved) {
  std::string verb;
  RecordVerb(&verb);
  EXPECT_TRUE(Save(ForId<v1::SaveGraphsRequest>()).ok());
  EXPECT_EQ(verb, "save");
}

TEST_F(WhileWarmingTest, CallsBeyondTheLimitAreRefused) {
  std::atomic<int> loads = 0;
  engine_.graphs().on_act = [&](const std::string&, const engine::GraphSelector&) {
    ++loads;
    return FakeGraphAdmin::Results(std::vector<engine::EntryResult>());
  };
  // As many as wait, and one more: whichever comes last is refused.
  std::vector<grpc::Status> statuses(kMaxWaitingWork + 1);
  std::vector<std::thread> clients;
  absl::Notification refused;
  for (grpc::Status& status : statuses) {
    clients.emplace_back([&] {
      grpc::ClientContext context;
      v1::GraphResults results;
      status = graph_cache_->LoadGraphs(&context, ForId<v1::LoadGraphsRequest>(), &results);
      if (!status.ok()) refused.Notify();
    });
  }
  refused.WaitForNotification();
  go_on_.Notify();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(loads, static_cast<int>(kMaxWaitingWork));
  for (const grpc::Status& status : statuses) {
    if (status.ok()) continue;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
    EXPECT_GT(DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(), 0);
  }
}

}  // namespace
}  // namespace latentd::server::admin
