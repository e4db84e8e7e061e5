#include "server/worker_call.h"

#include <string>
#include <utility>

#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "server/grpc_status.h"
#include "server/log.h"

namespace latentd::server {

void LogAdminCall(absl::string_view method, const std::string& peer, const absl::Status& status) {
  LogFields fields = {{"method", std::string(method)},
                      {"peer", peer},
                      {"code", absl::StatusCodeToString(status.code())}};
  const std::string reason = GetReason(status);
  if (!reason.empty()) fields["reason"] = reason;
  Log(latent::v1::INFO, "admin", fields);
}

grpc::ServerUnaryReactor* RunOnWorker(AdminWorker& worker, grpc::CallbackServerContext& context,
                                      absl::string_view method,
                                      std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  const absl::Status queued =
      worker.Add([reactor, &context, method = std::string(method), work = std::move(work)] {
        const std::string peer = context.peer();
        const absl::Status status = context.IsCancelled()
                                        ? absl::CancelledError("the client cancelled the call")
                                        : CatchOutOfMemory(work);
        if (!method.empty()) LogAdminCall(method, peer, status);
        reactor->Finish(ToGrpcStatus(status));
      });
  if (!queued.ok()) reactor->Finish(ToGrpcStatus(queued));
  return reactor;
}

}  // namespace latentd::server
