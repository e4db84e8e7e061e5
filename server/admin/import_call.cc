#include "server/admin/import_call.h"

#include <utility>

#include "absl/status/statusor.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "server/admin/graph_conversion.h"
#include "server/admin/worker_call.h"
#include "server/calls/grpc_status.h"
#include "server/calls/serialize.h"

namespace latentd::server::admin {

grpc::ServerReadReactor<grpc::ByteBuffer>* ImportCall::Start(
    generation::CallEnvironment environment, AdminWorker& worker, ImportLimits limits,
    std::shared_ptr<void> ticket, grpc::CallbackServerContext& context,
    grpc::ByteBuffer& response) {
  std::shared_ptr<ImportCall> call(
      new ImportCall(environment, worker, limits, std::move(ticket), context, response));
  call->Enter();
  call->Read();
  return call.get();
}

ImportCall::ImportCall(generation::CallEnvironment environment, AdminWorker& worker,
                       ImportLimits limits, std::shared_ptr<void> ticket,
                       grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
    : ActiveCall(environment),
      context_(context),
      worker_(worker),
      ticket_(std::move(ticket)),
      peer_(context.peer()),
      reader_(limits),
      response_(response) {}

void ImportCall::Read() {
  StartWaiting();
  StartRead(&bytes_);
}

void ImportCall::OnReadDone(bool ok) {
  StopWaiting();
  // A client that is gone sees none of it.
  if (!ok) return FinishWith(CatchOutOfMemory([&] { return End(); }));
  const absl::StatusOr<bool> complete = CatchOutOfMemory([&] { return TakeMessage(); });
  if (!complete.ok()) return FinishWith(complete.status());
  if (!*complete) Read();
}

absl::StatusOr<bool> ImportCall::TakeMessage() {
  ASSIGN_OR_RETURN(std::optional<std::string> graph, reader_.Add(bytes_));
  if (!graph.has_value()) return false;
  worker_.Continue([this, graph = *std::move(graph)]() mutable { Import(std::move(graph)); });
  return true;
}

void ImportCall::Import(std::string graph) {
  // A border: the client is told.
  const absl::Status imported = CatchOutOfMemory([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const engine::EntryResult result,
                     environment_.engine.graphs().Import(std::move(graph)));
    if (!result.unused.empty()) ++unused_;
    *results_.add_results() = ToProto(result);
    return absl::OkStatus();
  });
  if (!imported.ok()) return FinishWith(imported);
  Read();
}

absl::Status ImportCall::End() {
  RETURN_IF_ERROR(reader_.End());
  response_ = calls::Serialize(results_);
  return absl::OkStatus();
}

void ImportCall::FinishWith(const absl::Status& status) {
  ticket_.reset();  // first, so that a client that sees the end may start another import
  LogAdminCall("ImportGraphs", peer_, status,
               {{"graphs", results_.results_size()}, {"unused", unused_}});
  Finish(calls::FinalStatus(status));
}

void ImportCall::OnDone() { Leave(); }

}  // namespace latentd::server::admin
