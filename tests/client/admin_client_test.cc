#include "client/rpc/admin_client.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace latentd::client {
namespace {

using ::testing::UnorderedElementsAreArray;

// A server that refuses every call, and notes what it was shown.
class RefusingServer final : public grpc::CallbackGenericService {
 public:
  RefusingServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~RefusingServer() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // The value of "authorization" by method, "/latent.v1.Admin/Drain"; "none".
  std::map<std::string, std::string> shown() const {
    absl::MutexLock lock(&mutex_);
    return shown_;
  }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    Refusal() { Finish({grpc::StatusCode::UNAUTHENTICATED, "this server asks for an API key"}); }
    void OnDone() override { delete this; }
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto found = context->client_metadata().find("authorization");
    absl::MutexLock lock(&mutex_);
    shown_[context->method()] = found == context->client_metadata().end()
                                    ? "none"
                                    : std::string(found->second.data(), found->second.size());
    return new Refusal;
  }

  int port_ = 0;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> shown_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

std::vector<std::string> MethodsOf(const google::protobuf::FileDescriptor& file) {
  std::vector<std::string> methods;
  for (int i = 0; i < file.service_count(); ++i) {
    const auto* service = file.service(i);
    for (int j = 0; j < service->method_count(); ++j) {
      methods.push_back(absl::StrCat("/", service->full_name(), "/", service->method(j)->name()));
    }
  }
  return methods;
}

void CallForGraphs(AdminClient& client) {
  v1::ListGraphsResponse list;
  client.ListGraphs({}, list);
  v1::Graph graph;
  client.GetGraph({}, graph);
  client.WarmBuckets({}, [](const v1::WarmBucketsEvent&) {});
  v1::GraphResults results;
  client.SaveGraphs({}, results);
  client.LoadGraphs({}, results);
  client.VerifyGraphs({}, results);
  client.EvictGraphs({}, results);
  client.PinGraphs({}, results);
  client.ExportGraphs({}, [](const v1::GraphBytes&) { return true; });
  client.ImportGraphs([](v1::GraphBytes&) { return false; }, results);
}

void CallForModelsAndAdapters(AdminClient& client) {
  v1::ListModelsResponse models;
  client.ListModels(models);
  v1::ModelStatus model;
  client.LoadModel("base", model);
  client.EvictModel("base", model);
  client.PinModel("base", true, model);
  v1::ListAdaptersResponse adapters;
  client.ListAdapters(adapters);
  v1::AdapterStatus adapter;
  client.LoadAdapter("film", adapter);
  client.EvictAdapter("film", adapter);
  client.PinAdapter("film", true, adapter);
}

void CallForTheServer(AdminClient& client) {
  v1::ServerStatus status;
  client.GetServerStatus(status);
  client.WatchServerStatus([](const v1::ServerStatus&) {});
  v1::MemoryReport report;
  client.GetMemoryReport(report);
  client.Drain({});
  v1::SetLogLevelResponse previous;
  client.SetLogLevel({}, previous);
}

TEST(AdminClientTest, EveryCallShowsTheKey) {
  RefusingServer server;
  AdminClient client(server.address(), /*tls=*/std::nullopt, "the-key-of-operators");
  CallForGraphs(client);
  CallForModelsAndAdapters(client);
  CallForTheServer(client);
  std::vector<std::string> methods;
  for (const auto* file :
       {v1::Graph::descriptor()->file(), v1::ServerStatus::descriptor()->file(),
        v1::ModelStatus::descriptor()->file(), v1::AdapterStatus::descriptor()->file()}) {
    for (std::string& method : MethodsOf(*file)) methods.push_back(std::move(method));
  }
  std::vector<std::string> called;
  for (const auto& [method, shown] : server.shown()) {
    called.push_back(method);
    EXPECT_EQ(shown, "Bearer the-key-of-operators") << method;
  }
  EXPECT_THAT(called, UnorderedElementsAreArray(methods));
}

TEST(AdminClientTest, WithoutAKeyNothingIsShown) {
  RefusingServer server;
  AdminClient client(server.address());
  v1::ServerStatus status;
  EXPECT_EQ(client.GetServerStatus(status).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(server.shown().at("/latent.v1.Admin/GetServerStatus"), "none");
}

}  // namespace
}  // namespace latentd::client
