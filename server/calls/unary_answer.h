// A unary call that is answered at once, on gRPC's thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "server/calls/grpc_status.h"
#include "server/calls/request_parser.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

// The reactor of a call that has ended already.
grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& context,
                                    const absl::Status& status);

// The reactor that `start` returned, or that of a call which ends for lack of memory: gRPC answers
// UNIMPLEMENTED to an exception. REQUIRES: `start` throws nothing once it asked for a reactor.
template <typename Start>
grpc::ServerUnaryReactor* StartOrRefuse(grpc::CallbackServerContext& context, const Start& start) {
  grpc::ServerUnaryReactor* reactor = nullptr;
  const absl::Status started = CatchOutOfMemory([&] { reactor = start(); });
  return reactor != nullptr ? reactor : FinishNow(context, started);
}

// The reactor of a call that `answer` has answered: it fills the response, which is sent where it
// returns OK. A request that `read` refuses never reaches it. RESOURCE_EXHAUSTED where there is no
// memory for the answer. `bytes` and `response` are gRPC's, and alive as long as the call.
template <typename Request, typename Response, auto read = ReadRequest<Request>>
grpc::ServerUnaryReactor* AnswerNow(
    grpc::CallbackServerContext& context, const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
    absl::FunctionRef<absl::Status(const Request&, Response&)> answer) {
  const absl::Status answered = CatchOutOfMemory([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Request request, read(bytes));
    Response message;
    RETURN_IF_ERROR(answer(request, message));
    response = Serialize(message);
    return absl::OkStatus();
  });
  return FinishNow(context, answered);
}

}  // namespace latentd::server::calls
