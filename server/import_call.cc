#include "server/import_call.h"

#include <utility>

#include "absl/status/statusor.h"
#include "core/base/out_of_memory.h"
#include "server/graph_conversion.h"
#include "server/grpc_status.h"
#include "server/log.h"
#include "server/serialize.h"

namespace latentd::server {

grpc::ServerReadReactor<grpc::ByteBuffer>* ImportCall::Start(CallEnvironment environment,
                                                             AdminWorker& worker,
                                                             ImportLimits limits,
                                                             std::shared_ptr<void> ticket,
                                                             grpc::CallbackServerContext& context,
                                                             grpc::ByteBuffer& response) {
  std::shared_ptr<ImportCall> call(
      new ImportCall(environment, worker, limits, std::move(ticket), context, response));
  environment.calls.Add(call);  // before it owns itself: there may be no memory for it
  call->self_ = call;
  call->Read();
  return call.get();
}

ImportCall::ImportCall(CallEnvironment environment, AdminWorker& worker, ImportLimits limits,
                       std::shared_ptr<void> ticket, grpc::CallbackServerContext& context,
                       grpc::ByteBuffer& response)
    : environment_(environment),
      worker_(worker),
      ticket_(std::move(ticket)),
      reader_(limits),
      response_(response),
      context_(&context) {}

void ImportCall::Read() {
  {
    absl::MutexLock lock(&mutex_);
    reading_since_ = environment_.clock.Monotonic();
  }
  StartRead(&bytes_);
}

void ImportCall::OnReadDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    reading_since_ = absl::InfiniteFuture();
  }
  if (!ok) return FinishWith(reader_.End());  // a client that is gone sees none of it
  absl::StatusOr<std::optional<std::string>> graph =
      CatchOutOfMemory([&] { return reader_.Add(bytes_); });
  if (!graph.ok()) return FinishWith(graph.status());
  if (!graph->has_value()) return Read();
  worker_.Continue([this, graph = **std::move(graph)]() mutable { Import(std::move(graph)); });
}

void ImportCall::Import(std::string graph) {
  const absl::StatusOr<engine::EntryResult> result =
      CatchOutOfMemory([&] { return environment_.engine.graphs().Import(std::move(graph)); });
  if (!result.ok()) return FinishWith(result.status());
  if (!result->unused.empty()) ++unused_;
  *results_.add_results() = ToProto(*result);
  Read();
}

void ImportCall::FinishWith(const absl::Status& status) {
  Log(latent::v1::INFO, "admin",
      {{"method", "ImportGraphs"},
       {"graphs", results_.results_size()},
       {"unused", unused_},
       {"code", absl::StatusCodeToString(status.code())}});
  if (status.ok()) response_ = Serialize(results_);
  ticket_.reset();  // first, so that a client that sees the end may start another import
  Finish(ToGrpcStatus(status));
}

void ImportCall::CancelIfStalled(absl::Time now, absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr && now - reading_since_ >= limit) context_->TryCancel();
}

void ImportCall::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void ImportCall::OnDone() {
  {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  }
  environment_.calls.Remove(*this);
  self_.reset();
}

}  // namespace latentd::server
