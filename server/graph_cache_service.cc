#include "server/graph_cache_service.h"

#include <utility>
#include <vector>

#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "server/export_call.h"
#include "server/graph_conversion.h"
#include "server/graph_selection.h"
#include "server/grpc_status.h"
#include "server/import_call.h"
#include "server/queued_stream.h"
#include "server/worker_call.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

using WarmStream = QueuedStream<v1::WarmBucketsEvent>;

// Each holds a graph in memory.
constexpr int kMaxExports = 4;
constexpr int kMaxImports = 1;
constexpr absl::Duration kRetryDelay = absl::Seconds(10);

absl::Status TooMany(absl::string_view what) {
  return WithRetryDelay(WithReason(absl::ResourceExhaustedError(what), "QUEUE_FULL"), kRetryDelay);
}

void Warm(engine::GraphAdmin& graphs, const engine::GraphSelector& selector, bool dry_run,
          const std::string& peer, WarmStream& stream) {
  if (stream.cancelled()) return;
  const absl::StatusOr<engine::WarmOutcome> outcome =
      graphs.Warm(selector, dry_run, [&stream](const engine::WarmProgress& progress) {
        stream.Send(ToProto(progress));
        return !stream.cancelled();
      });
  LogAdminCall("WarmBuckets", peer, outcome.status());
  if (outcome.ok()) stream.Send(ToProto(*outcome));
  stream.End(outcome.status());
}

// A call that ends before anything was read or written.
class RefusedImport final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedImport(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

class RefusedExport final : public grpc::ServerWriteReactor<v1::GraphBytes> {
 public:
  explicit RefusedExport(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

GraphCacheService::GraphCacheService(CallEnvironment environment, Imports imports)
    : environment_(environment),
      imports_(imports),
      exports_now_(kMaxExports),
      imports_now_(kMaxImports),
      preparing_("admin-prepare"),
      files_("admin-files"),
      listing_("admin-list") {}

template <typename Request, typename Act>
grpc::ServerUnaryReactor* GraphCacheService::ActOn(AdminWorker& worker, absl::string_view method,
                                                   grpc::CallbackServerContext& context,
                                                   const Request& request,
                                                   v1::GraphResults& response, Act act) {
  absl::StatusOr<engine::GraphSelector> selector = ReadSelector(request, request.selector());
  if (!selector.ok()) return FinishNow(context, selector.status());
  return RunOnWorker(worker, context, method,
                     [&graphs = environment_.engine.graphs(), &response, act = std::move(act),
                      selector = *std::move(selector)]() -> absl::Status {
                       ASSIGN_OR_RETURN(const std::vector<engine::EntryResult> results,
                                        act(graphs, selector));
                       response = ToProto(results);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* GraphCacheService::ListGraphs(grpc::CallbackServerContext* context,
                                                        const v1::ListGraphsRequest* request,
                                                        v1::ListGraphsResponse* response) {
  v1::GraphSelector everything;
  everything.set_all(true);
  const absl::StatusOr<engine::GraphSelector> selector =
      ReadSelector(*request, request->has_selector() ? request->selector() : everything);
  if (!selector.ok()) return FinishNow(*context, selector.status());
  return RunOnWorker(
      listing_, *context, /*method=*/"",
      [&graphs = environment_.engine.graphs(), selector = *selector, response]() -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<engine::GraphEntry> entries, graphs.List(selector));
        for (const engine::GraphEntry& entry : entries) {
          *response->add_graphs() = ToProto(entry);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GraphCacheService::GetGraph(grpc::CallbackServerContext* context,
                                                      const v1::GetGraphRequest* request,
                                                      v1::Graph* response) {
  const absl::StatusOr<std::string> id = ReadId(request->id());
  if (!id.ok()) return FinishNow(*context, id.status());
  return RunOnWorker(
      listing_, *context, /*method=*/"",
      [&graphs = environment_.engine.graphs(), id = *id, response]() -> absl::Status {
        ASSIGN_OR_RETURN(const engine::GraphEntry entry, graphs.Find(id));
        *response = ToProto(entry);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::WarmBucketsEvent>* GraphCacheService::WarmBuckets(
    grpc::CallbackServerContext* context, const v1::WarmBucketsRequest* request) {
  const auto stream = WarmStream::Start(*context, environment_.clock, environment_.calls);
  const absl::StatusOr<engine::GraphSelector> selector =
      ReadSelector(*request, request->selector());
  absl::Status status = selector.status();
  if (status.ok()) {
    status = preparing_.Add([&graphs = environment_.engine.graphs(), selector = *selector,
                             dry_run = request->dry_run(), peer = context->peer(),
                             stream] { Warm(graphs, selector, dry_run, peer, *stream); });
  }
  if (!status.ok()) stream->End(status);
  return stream.get();
}

grpc::ServerUnaryReactor* GraphCacheService::SaveGraphs(grpc::CallbackServerContext* context,
                                                        const v1::SaveGraphsRequest* request,
                                                        v1::GraphResults* response) {
  return ActOn(files_, "SaveGraphs", *context, *request, *response,
               [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector) {
                 return graphs.Save(selector);
               });
}

grpc::ServerUnaryReactor* GraphCacheService::LoadGraphs(grpc::CallbackServerContext* context,
                                                        const v1::LoadGraphsRequest* request,
                                                        v1::GraphResults* response) {
  return ActOn(preparing_, "LoadGraphs", *context, *request, *response,
               [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector) {
                 return graphs.Load(selector);
               });
}

grpc::ServerUnaryReactor* GraphCacheService::VerifyGraphs(grpc::CallbackServerContext* context,
                                                          const v1::VerifyGraphsRequest* request,
                                                          v1::GraphResults* response) {
  return ActOn(files_, "VerifyGraphs", *context, *request, *response,
               [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector) {
                 return graphs.Verify(selector);
               });
}

grpc::ServerUnaryReactor* GraphCacheService::EvictGraphs(grpc::CallbackServerContext* context,
                                                         const v1::EvictGraphsRequest* request,
                                                         v1::GraphResults* response) {
  return ActOn(files_, "EvictGraphs", *context, *request, *response,
               [tier = FromProto(request->tier()), force = request->force()](
                   engine::GraphAdmin& graphs, const engine::GraphSelector& selector) {
                 return graphs.Evict(selector, tier, force);
               });
}

grpc::ServerUnaryReactor* GraphCacheService::PinGraphs(grpc::CallbackServerContext* context,
                                                       const v1::PinGraphsRequest* request,
                                                       v1::GraphResults* response) {
  return ActOn(files_, "PinGraphs", *context, *request, *response,
               [pinned = !request->unpin()](engine::GraphAdmin& graphs,
                                            const engine::GraphSelector& selector) {
                 return graphs.SetPinned(selector, pinned);
               });
}

grpc::ServerWriteReactor<v1::GraphBytes>* GraphCacheService::ExportGraphs(
    grpc::CallbackServerContext* context, const v1::ExportGraphsRequest* request) {
  absl::StatusOr<engine::GraphSelector> selector = ReadSelector(*request, request->selector());
  if (!selector.ok()) return new RefusedExport(selector.status());
  std::shared_ptr<void> ticket = exports_now_.Take();
  if (ticket == nullptr) return new RefusedExport(TooMany("other exports are running"));
  LogAdminCall("ExportGraphs", context->peer(), absl::OkStatus());
  return StartExport(environment_, files_, *std::move(selector), std::move(ticket), *context);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* GraphCacheService::ImportGraphs(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  absl::StatusOr<std::shared_ptr<void>> ticket = AdmitImport();
  if (!ticket.ok()) {
    LogAdminCall("ImportGraphs", context->peer(), ticket.status());
    return new RefusedImport(ticket.status());
  }
  return ImportCall::Start(environment_, files_, imports_.limits, *std::move(ticket), *context,
                           *response);
}

absl::StatusOr<std::shared_ptr<void>> GraphCacheService::AdmitImport() {
  if (!imports_.allowed) {
    return WithReason(
        absl::PermissionDeniedError(
            "this server takes no graphs of others: it was started without --allow-import"),
        "IMPORT_NOT_ALLOWED");
  }
  std::shared_ptr<void> ticket = imports_now_.Take();
  if (ticket == nullptr) return TooMany("another import is running");
  return ticket;
}

}  // namespace latentd::server
