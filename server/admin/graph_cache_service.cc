#include "server/admin/graph_cache_service.h"

#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "server/admin/export_call.h"
#include "server/admin/graph_conversion.h"
#include "server/admin/graph_selection.h"
#include "server/admin/import_call.h"
#include "server/admin/worker_call.h"
#include "server/calls/queued_stream.h"
#include "server/calls/refused_stream.h"
#include "server/calls/serialize.h"
#include "server/calls/unary_answer.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

using WarmStream = calls::QueuedStream<v1::WarmBucketsEvent>;

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
  const auto tell = [&stream](const engine::WarmProgress& progress) {
    stream.Send(ToProto(progress));
    return !stream.cancelled();
  };
  // A border: the client is told.
  const absl::Status warmed = CatchOutOfMemory([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const engine::WarmOutcome outcome, graphs.Warm(selector, dry_run, tell));
    stream.Send(ToProto(outcome));
    return absl::OkStatus();
  });
  LogAdminCall("WarmBuckets", peer, warmed);
  stream.End(warmed);
}

}  // namespace

GraphCacheService::GraphCacheService(generation::CallEnvironment environment, Imports imports,
                                     OperatorCheck check)
    : environment_(environment),
      imports_(imports),
      check_(std::move(check)),
      exports_now_(kMaxExports),
      imports_now_(kMaxImports),
      preparing_("admin-prepare", check_),
      files_("admin-files", check_),
      listing_("admin-list", check_) {}

template <typename Request, typename Act>
grpc::ServerUnaryReactor* GraphCacheService::ActOn(AdminWorker& worker, absl::string_view method,
                                                   grpc::CallbackServerContext& context,
                                                   const grpc::ByteBuffer& bytes,
                                                   grpc::ByteBuffer& response, Act act) {
  return calls::StartOrRefuse(context, [&] {
    const absl::Status judged = worker.CheckCaller(context);
    if (!judged.ok()) return calls::FinishNow(context, judged);
    Request request;
    absl::StatusOr<engine::GraphSelector> selector = ReadSelector(bytes, request);
    if (!selector.ok()) return calls::FinishNow(context, selector.status());
    return RunOnWorker(
        worker, context, method,
        [&graphs = environment_.engine.graphs(), &response, act = std::move(act),
         request = std::move(request), selector = *std::move(selector)]() -> absl::Status {
          ASSIGN_OR_RETURN(const std::vector<engine::EntryResult> results,
                           act(graphs, selector, request));
          response = calls::Serialize(ToProto(results));
          return absl::OkStatus();
        });
  });
}

grpc::ServerUnaryReactor* GraphCacheService::ListGraphs(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* bytes,
                                                        grpc::ByteBuffer* response) {
  return AnswerOnWorker<v1::ListGraphsRequest, v1::ListGraphsResponse>(
      listing_, *context, *bytes, *response,
      [this](const v1::ListGraphsRequest& request, v1::ListGraphsResponse& list) -> absl::Status {
        engine::GraphSelector selector = {.all = true};
        if (request.has_selector()) {
          ASSIGN_OR_RETURN(selector, ToSelector(request, request.selector()));
        }
        ASSIGN_OR_RETURN(const std::vector<engine::GraphEntry> entries,
                         environment_.engine.graphs().List(selector));
        for (const engine::GraphEntry& entry : entries) *list.add_graphs() = ToProto(entry);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GraphCacheService::GetGraph(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* bytes,
                                                      grpc::ByteBuffer* response) {
  return AnswerOnWorker<v1::GetGraphRequest, v1::Graph>(
      listing_, *context, *bytes, *response,
      [this](const v1::GetGraphRequest& request, v1::Graph& graph) -> absl::Status {
        ASSIGN_OR_RETURN(const std::string id, ReadId(request.id()));
        ASSIGN_OR_RETURN(const engine::GraphEntry entry, environment_.engine.graphs().Find(id));
        graph = ToProto(entry);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GraphCacheService::WarmBuckets(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return calls::StartOrRefuseWrite([&]() -> absl::StatusOr<calls::WriteReactor*> {
    RETURN_IF_ERROR(check_(*context));
    v1::WarmBucketsRequest request;
    ASSIGN_OR_RETURN(const engine::GraphSelector selector, ReadSelector(*bytes, request));
    const auto stream = WarmStream::Start(environment_, *context);
    const absl::Status queued = CatchOutOfMemory([&] {
      return preparing_.Add([&graphs = environment_.engine.graphs(), selector,
                             dry_run = request.dry_run(), peer = context->peer(),
                             stream] { Warm(graphs, selector, dry_run, peer, *stream); });
    });
    if (!queued.ok()) stream->End(queued);
    return stream.get();
  });
}

grpc::ServerUnaryReactor* GraphCacheService::SaveGraphs(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return ActOn<v1::SaveGraphsRequest>(
      files_, "SaveGraphs", *context, *request, *response,
      [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector,
         const v1::SaveGraphsRequest&) { return graphs.Save(selector); });
}

grpc::ServerUnaryReactor* GraphCacheService::LoadGraphs(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return ActOn<v1::LoadGraphsRequest>(
      preparing_, "LoadGraphs", *context, *request, *response,
      [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector,
         const v1::LoadGraphsRequest&) { return graphs.Load(selector); });
}

grpc::ServerUnaryReactor* GraphCacheService::VerifyGraphs(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  return ActOn<v1::VerifyGraphsRequest>(
      files_, "VerifyGraphs", *context, *request, *response,
      [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector,
         const v1::VerifyGraphsRequest&) { return graphs.Verify(selector); });
}

grpc::ServerUnaryReactor* GraphCacheService::EvictGraphs(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  return ActOn<v1::EvictGraphsRequest>(
      files_, "EvictGraphs", *context, *request, *response,
      [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector,
         const v1::EvictGraphsRequest& evict) {
        return graphs.Evict(selector, FromProto(evict.tier()), evict.force());
      });
}

grpc::ServerUnaryReactor* GraphCacheService::PinGraphs(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return ActOn<v1::PinGraphsRequest>(
      files_, "PinGraphs", *context, *request, *response,
      [](engine::GraphAdmin& graphs, const engine::GraphSelector& selector,
         const v1::PinGraphsRequest& pin) { return graphs.SetPinned(selector, !pin.unpin()); });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GraphCacheService::ExportGraphs(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return calls::StartOrRefuseWrite([&]() -> absl::StatusOr<calls::WriteReactor*> {
    RETURN_IF_ERROR(check_(*context));
    v1::ExportGraphsRequest request;
    ASSIGN_OR_RETURN(engine::GraphSelector selector, ReadSelector(*bytes, request));
    std::shared_ptr<void> ticket = exports_now_.Take();
    if (ticket == nullptr) return TooMany("other exports are running");
    return StartExport(environment_, files_, std::move(selector), std::move(ticket), *context);
  });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* GraphCacheService::ImportGraphs(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  return calls::StartOrRefuseRead([&]() -> absl::StatusOr<calls::ReadReactor*> {
    RETURN_IF_ERROR(check_(*context));
    absl::StatusOr<std::shared_ptr<void>> ticket = AdmitImport();
    if (!ticket.ok()) {
      LogAdminCall("ImportGraphs", context->peer(), ticket.status());
      return ticket.status();
    }
    return ImportCall::Start(environment_, files_, imports_.limits, *std::move(ticket), *context,
                             *response);
  });
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

}  // namespace latentd::server::admin
