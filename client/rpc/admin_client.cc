#include "client/rpc/admin_client.h"

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/rpc/answers.h"
#include "client/rpc/channel.h"

namespace latentd::client {
namespace {

using std::chrono::seconds;

// Timeout of calls that only look something up. Compiling and reading files have none.
constexpr seconds kShort(10);

// Blocks until the one operation under way has ended, and returns whether it could be done. The
// interface that blocks by itself ends the process where an answer cannot be read.
bool WaitForNext(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool is_done = false;
  return queue.Next(&tag, &is_done) && is_done;
}

}  // namespace

AdminClient::AdminClient(const std::string& server, const std::optional<Tls>& tls,
                         std::string api_key)
    : api_key_(std::move(api_key)) {
  const auto channel = Connect(server, tls);
  graphs_ = v1::GraphCache::NewStub(channel);
  admin_ = v1::Admin::NewStub(channel);
  models_ = v1::Models::NewStub(channel);
  adapters_ = v1::Adapters::NewStub(channel);
}

template <typename Stub, typename Request, typename Response>
grpc::Status AdminClient::Call(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, Response& response, std::optional<seconds> timeout) {
  grpc::ClientContext context;
  ShowKey(context);
  if (timeout) context.set_deadline(std::chrono::system_clock::now() + *timeout);
  const Cancellation::Scope scope(cancellation_, context);
  return ReadAnswer(response, [&] { return (stub.*method)(&context, request, &response); });
}

void AdminClient::ShowKey(grpc::ClientContext& context) const {
  if (!api_key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", api_key_));
}

grpc::Status AdminClient::ListGraphs(const v1::ListGraphsRequest& request,
                                     v1::ListGraphsResponse& response) {
  return Call(*graphs_, &v1::GraphCache::Stub::ListGraphs, request, response, kShort);
}

grpc::Status AdminClient::GetGraph(const v1::GetGraphRequest& request, v1::Graph& graph) {
  return Call(*graphs_, &v1::GraphCache::Stub::GetGraph, request, graph, kShort);
}

grpc::Status AdminClient::WarmBuckets(
    const v1::WarmBucketsRequest& request,
    const std::function<void(const v1::WarmBucketsEvent&)>& on_event) {
  grpc::ClientContext context;
  ShowKey(context);
  const Cancellation::Scope scope(cancellation_, context);
  const auto reader = graphs_->WarmBuckets(&context, request);
  return ReadStream(context, *reader, [&](const v1::WarmBucketsEvent& event) {
    on_event(event);
    return true;
  });
}

grpc::Status AdminClient::SaveGraphs(const v1::SaveGraphsRequest& request,
                                     v1::GraphResults& results) {
  return Call(*graphs_, &v1::GraphCache::Stub::SaveGraphs, request, results);
}

grpc::Status AdminClient::LoadGraphs(const v1::LoadGraphsRequest& request,
                                     v1::GraphResults& results) {
  return Call(*graphs_, &v1::GraphCache::Stub::LoadGraphs, request, results);
}

grpc::Status AdminClient::VerifyGraphs(const v1::VerifyGraphsRequest& request,
                                       v1::GraphResults& results) {
  return Call(*graphs_, &v1::GraphCache::Stub::VerifyGraphs, request, results);
}

grpc::Status AdminClient::EvictGraphs(const v1::EvictGraphsRequest& request,
                                      v1::GraphResults& results) {
  return Call(*graphs_, &v1::GraphCache::Stub::EvictGraphs, request, results);
}

grpc::Status AdminClient::PinGraphs(const v1::PinGraphsRequest& request,
                                    v1::GraphResults& results) {
  return Call(*graphs_, &v1::GraphCache::Stub::PinGraphs, request, results);
}

grpc::Status AdminClient::ExportGraphs(const v1::ExportGraphsRequest& request,
                                       const std::function<bool(const v1::GraphBytes&)>& take) {
  grpc::ClientContext context;
  ShowKey(context);
  const Cancellation::Scope scope(cancellation_, context);
  const auto reader = graphs_->ExportGraphs(&context, request);
  return ReadStream(context, *reader, take);
}

grpc::Status AdminClient::ImportGraphs(const std::function<bool(v1::GraphBytes&)>& next,
                                       v1::GraphResults& results) {
  grpc::ClientContext context;
  ShowKey(context);
  const Cancellation::Scope scope(cancellation_, context);
  return ReadAnswer(results, [&] {
    grpc::CompletionQueue queue;
    const auto writer = graphs_->AsyncImportGraphs(&context, &results, &queue, nullptr);
    WaitForNext(queue);
    v1::GraphBytes part;
    // A failed write means that the server has answered already.
    for (; next(part); part.Clear()) {
      writer->Write(part, nullptr);
      if (!WaitForNext(queue)) break;
    }
    writer->WritesDone(nullptr);
    WaitForNext(queue);
    grpc::Status status;
    writer->Finish(&status, nullptr);
    return WaitForNext(queue) ? status : UnreadableAnswer();
  });
}

grpc::Status AdminClient::ListModels(v1::ListModelsResponse& response) {
  return Call(*models_, &v1::Models::Stub::ListModels, {}, response, kShort);
}

grpc::Status AdminClient::LoadModel(const std::string& name, v1::ModelStatus& model) {
  v1::LoadModelRequest request;
  request.set_name(name);
  return Call(*models_, &v1::Models::Stub::LoadModel, request, model);
}

grpc::Status AdminClient::EvictModel(const std::string& name, v1::ModelStatus& model) {
  v1::EvictModelRequest request;
  request.set_name(name);
  return Call(*models_, &v1::Models::Stub::EvictModel, request, model);
}

grpc::Status AdminClient::PinModel(const std::string& name, bool pinned, v1::ModelStatus& model) {
  v1::PinModelRequest request;
  request.set_name(name);
  request.set_pinned(pinned);
  return Call(*models_, &v1::Models::Stub::PinModel, request, model);
}

grpc::Status AdminClient::ListAdapters(v1::ListAdaptersResponse& response) {
  return Call(*adapters_, &v1::Adapters::Stub::ListAdapters, {}, response, kShort);
}

grpc::Status AdminClient::LoadAdapter(const std::string& name, v1::AdapterStatus& adapter) {
  v1::LoadAdapterRequest request;
  request.set_name(name);
  return Call(*adapters_, &v1::Adapters::Stub::LoadAdapter, request, adapter);
}

grpc::Status AdminClient::EvictAdapter(const std::string& name, v1::AdapterStatus& adapter) {
  v1::EvictAdapterRequest request;
  request.set_name(name);
  return Call(*adapters_, &v1::Adapters::Stub::EvictAdapter, request, adapter);
}

grpc::Status AdminClient::PinAdapter(const std::string& name, bool pinned,
                                     v1::AdapterStatus& adapter) {
  v1::PinAdapterRequest request;
  request.set_name(name);
  request.set_pinned(pinned);
  return Call(*adapters_, &v1::Adapters::Stub::PinAdapter, request, adapter);
}

grpc::Status AdminClient::GetServerStatus(v1::ServerStatus& server_status) {
  return Call(*admin_, &v1::Admin::Stub::GetServerStatus, v1::GetServerStatusRequest(),
              server_status, kShort);
}

grpc::Status AdminClient::WatchServerStatus(
    const std::function<void(const v1::ServerStatus&)>& on_status) {
  grpc::ClientContext context;
  ShowKey(context);
  const Cancellation::Scope scope(cancellation_, context);
  const auto reader = admin_->WatchServerStatus(&context, v1::WatchServerStatusRequest());
  return ReadStream(context, *reader, [&](const v1::ServerStatus& server_status) {
    on_status(server_status);
    return true;
  });
}

grpc::Status AdminClient::GetMemoryReport(v1::MemoryReport& report) {
  return Call(*admin_, &v1::Admin::Stub::GetMemoryReport, v1::GetMemoryReportRequest(), report,
              kShort);
}

grpc::Status AdminClient::Drain(const v1::DrainRequest& request) {
  v1::DrainResponse response;
  return Call(*admin_, &v1::Admin::Stub::Drain, request, response, kShort);
}

grpc::Status AdminClient::SetLogLevel(const v1::SetLogLevelRequest& request,
                                      v1::SetLogLevelResponse& response) {
  return Call(*admin_, &v1::Admin::Stub::SetLogLevel, request, response, kShort);
}

}  // namespace latentd::client
