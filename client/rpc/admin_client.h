// The operators' side of a latentd: its compiled graphs, its memory, its state. Knows the proto
// only.
//
//   latentd::client::AdminClient client("unix:/run/latentd/admin.sock");
//   latent::v1::ListGraphsResponse graphs;
//   grpc::Status status = client.ListGraphs({}, graphs);
//
// Thread-safe: calls may run side by side; each blocks until its answer is there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/rpc/cancellation.h"
#include "client/rpc/channel.h"
#include "latent/v1/adapters.grpc.pb.h"
#include "latent/v1/admin.grpc.pb.h"
#include "latent/v1/graph_cache.grpc.pb.h"
#include "latent/v1/models.grpc.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

class AdminClient {
 public:
  // HOST:PORT or unix:PATH of --admin-listen. Connects when first used. `api_key` goes with each
  // call; empty: none.
  explicit AdminClient(const std::string& server, const std::optional<Tls>& tls = std::nullopt,
                       std::string api_key = "");

  grpc::Status ListGraphs(const v1::ListGraphsRequest& request, v1::ListGraphsResponse& response);
  grpc::Status GetGraph(const v1::GetGraphRequest& request, v1::Graph& graph);
  grpc::Status WarmBuckets(const v1::WarmBucketsRequest& request,
                           const std::function<void(const v1::WarmBucketsEvent&)>& on_event);
  grpc::Status SaveGraphs(const v1::SaveGraphsRequest& request, v1::GraphResults& results);
  grpc::Status LoadGraphs(const v1::LoadGraphsRequest& request, v1::GraphResults& results);
  grpc::Status VerifyGraphs(const v1::VerifyGraphsRequest& request, v1::GraphResults& results);
  grpc::Status EvictGraphs(const v1::EvictGraphsRequest& request, v1::GraphResults& results);
  grpc::Status PinGraphs(const v1::PinGraphsRequest& request, v1::GraphResults& results);

  // `take` gets the messages as they come and returns false to stop, which gives CANCELLED.
  grpc::Status ExportGraphs(const v1::ExportGraphsRequest& request,
                            const std::function<bool(const v1::GraphBytes&)>& take);
  // `next` fills a message and returns false when there is none.
  grpc::Status ImportGraphs(const std::function<bool(v1::GraphBytes&)>& next,
                            v1::GraphResults& results);

  grpc::Status ListModels(v1::ListModelsResponse& response);
  grpc::Status LoadModel(const std::string& name, v1::ModelStatus& model);
  grpc::Status EvictModel(const std::string& name, v1::ModelStatus& model);
  grpc::Status PinModel(const std::string& name, bool pinned, v1::ModelStatus& model);

  grpc::Status ListAdapters(v1::ListAdaptersResponse& response);
  grpc::Status LoadAdapter(const std::string& name, v1::AdapterStatus& adapter);
  grpc::Status EvictAdapter(const std::string& name, v1::AdapterStatus& adapter);
  grpc::Status PinAdapter(const std::string& name, bool pinned, v1::AdapterStatus& adapter);

  grpc::Status GetServerStatus(v1::ServerStatus& server_status);
  grpc::Status WatchServerStatus(const std::function<void(const v1::ServerStatus&)>& on_status);
  grpc::Status GetMemoryReport(v1::MemoryReport& report);
  grpc::Status Drain(const v1::DrainRequest& request);
  grpc::Status SetLogLevel(const v1::SetLogLevelRequest& request,
                           v1::SetLogLevelResponse& response);

  // Ends what runs with CANCELLED, and what is started later.
  void Cancel() { cancellation_.Cancel(); }

 private:
  // One unary call.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response,
                    std::optional<std::chrono::seconds> timeout = std::nullopt);
  void ShowKey(grpc::ClientContext& context) const;

  const std::string api_key_;
  std::unique_ptr<v1::GraphCache::Stub> graphs_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<v1::Models::Stub> models_;
  std::unique_ptr<v1::Adapters::Stub> adapters_;
  Cancellation cancellation_;
};

}  // namespace latentd::client
