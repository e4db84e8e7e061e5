#include "server/admin/worker_call.h"

#include <string>
#include <utility>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "server/calls/grpc_status.h"
#include "server/process/logs/log.h"

namespace latentd::server::admin {

void LogAdminCall(absl::string_view method, const std::string& peer, const absl::Status& status,
                  std::initializer_list<std::pair<const char*, int>> counts) {
  CatchOutOfMemory([&] {
    process::LogFields fields = {{"method", std::string(method)}, {"peer", peer}};
    for (const auto& [name, count] : counts) fields[name] = count;
    fields["code"] = absl::StatusCodeToString(status.code());
    const std::string reason = GetReason(status);
    if (!reason.empty()) fields["reason"] = reason;
    process::Log(latent::v1::INFO, "admin", fields);
  }).IgnoreError();
}

grpc::ServerUnaryReactor* RunOnWorker(AdminWorker& worker, grpc::CallbackServerContext& context,
                                      absl::string_view method,
                                      std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  // Borders: from here on the call ends by its reactor.
  const absl::Status queued = CatchOutOfMemory([&] {
    return worker.Add([reactor, &context, method = std::string(method), peer = context.peer(),
                       work = std::move(work)] {
      const absl::Status status = CatchOutOfMemory([&] {
        return context.IsCancelled() ? absl::CancelledError("the client cancelled the call")
                                     : work();
      });
      if (!method.empty()) LogAdminCall(method, peer, status);
      reactor->Finish(calls::FinalStatus(status));
    });
  });
  if (!queued.ok()) reactor->Finish(calls::FinalStatus(queued));
  return reactor;
}

}  // namespace latentd::server::admin
