// A unary call of an operator, whose work is done by a worker.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "server/admin/admin_worker.h"
#include "server/calls/request_parser.h"
#include "server/calls/serialize.h"
#include "server/calls/unary_answer.h"

namespace latentd::server::admin {

// The reactor of the call, which ends with what `work` returns; a call that was cancelled before
// its turn does no work. Leaves a log line with `method`, unless that is empty: what only reads
// leaves none. REQUIRES: the worker has judged its caller. Thread-safe.
grpc::ServerUnaryReactor* RunOnWorker(AdminWorker& worker, grpc::CallbackServerContext& context,
                                      absl::string_view method, std::function<absl::Status()> work);

// The same for a call that only reads, by an operator: `answer` fills the response. A request that
// cannot be read never reaches it. `bytes` and `response` are gRPC's, and alive as long as the
// call.
template <typename Request, typename Response, typename Answer>
grpc::ServerUnaryReactor* AnswerOnWorker(AdminWorker& worker, grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                         Answer answer) {
  return calls::StartOrRefuse(context, [&] {
    const absl::Status judged = worker.CheckCaller(context);
    if (!judged.ok()) return calls::FinishNow(context, judged);
    absl::StatusOr<Request> request = calls::ReadRequest<Request>(bytes);
    if (!request.ok()) return calls::FinishNow(context, request.status());
    return RunOnWorker(
        worker, context, /*method=*/"",
        [&response, answer = std::move(answer), request = *std::move(request)]() -> absl::Status {
          Response message;
          RETURN_IF_ERROR(answer(request, message));
          response = calls::Serialize(message);
          return absl::OkStatus();
        });
  });
}

// One log line: which method, who called, how many of what, and how it went. None where there is no
// memory for it.
void LogAdminCall(absl::string_view method, const std::string& peer, const absl::Status& status,
                  std::initializer_list<std::pair<const char*, int>> counts = {});

}  // namespace latentd::server::admin
