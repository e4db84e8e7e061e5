// On which thread operators' lists are made: they read directories and files, for which gRPC's
// threads must not wait.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <pthread.h>

#include <string>
#include <vector>

#include "tests/server/running_server.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;

constexpr char kId[] = "0123456789abcdef0123456789abcdef";

std::string NameOfThisThread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

class GraphListingTest : public RunningServer {};

TEST_F(GraphListingTest, ListsAndFindsOnAWorkerOfItsOwn) {
  std::vector<std::string> threads;
  engine::GraphEntry entry;
  entry.id = kId;
  engine_.graphs().entries = {entry};
  engine_.graphs().on_read = [&threads] { threads.push_back(NameOfThisThread()); };
  grpc::ClientContext list_context, get_context;
  v1::ListGraphsResponse response;
  ASSERT_TRUE(graph_cache_->ListGraphs(&list_context, {}, &response).ok());
  v1::GetGraphRequest request;
  request.set_id(kId);
  v1::Graph graph;
  ASSERT_TRUE(graph_cache_->GetGraph(&get_context, request, &graph).ok());
  EXPECT_EQ(graph.id(), kId);
  EXPECT_THAT(threads, ElementsAre("admin-list", "admin-list"));
}

}  // namespace
}  // namespace latentd::server::admin
