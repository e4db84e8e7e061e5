#include "server/calls/unary_answer.h"

namespace latentd::server::calls {

grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& context,
                                    const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  reactor->Finish(FinalStatus(status));
  return reactor;
}

}  // namespace latentd::server::calls
