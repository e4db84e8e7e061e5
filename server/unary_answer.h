// A unary call that is answered at once, on gRPC's thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/grpc_status.h"
#include "server/request_parser.h"
#include "server/serialize.h"

namespace latentd::server {

// The reactor of a call that has ended already.
grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& context,
                                    const absl::Status& status);

// The reactor of a call that `answer` has answered: it fills the response, which is sent where it
// returns OK. A request that cannot be read or has fields that this server does not know never
// reaches it. `bytes` and `response` are gRPC's, and alive as long as the call.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerNow(
    grpc::CallbackServerContext& context, const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
    absl::FunctionRef<absl::Status(const Request&, Response&)> answer) {
  const absl::StatusOr<Request> request = ReadRequest<Request>(bytes);
  if (!request.ok()) return FinishNow(context, request.status());
  Response message;
  const absl::Status status = answer(*request, message);
  if (status.ok()) response = Serialize(message);
  return FinishNow(context, status);
}

}  // namespace latentd::server
