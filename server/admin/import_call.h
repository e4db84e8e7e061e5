// One call of ImportGraphs: reads messages, hands each graph to the engine on the worker, and reads
// on when that is done, so that one graph is held at a time.
//
// Messages come as raw bytes: to gRPC one that cannot be read is the end of the stream, as if the
// client had sent all it wanted.
//
// A client that sends nothing for a minute is cancelled (ActiveCalls).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/admin/admin_worker.h"
#include "server/admin/graph_bytes_reader.h"
#include "server/generation/active_calls.h"

namespace latentd::server::admin {

class ImportCall final : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                         public generation::ActiveCall {
 public:
  // All arguments outlive the call. `ticket` is released before the client sees the
  // call end.
  static grpc::ServerReadReactor<grpc::ByteBuffer>* Start(generation::CallEnvironment environment,
                                                          AdminWorker& worker, ImportLimits limits,
                                                          std::shared_ptr<void> ticket,
                                                          grpc::CallbackServerContext& context,
                                                          grpc::ByteBuffer& response);

  int64_t held_bytes() const override { return 0; }

 private:
  ImportCall(generation::CallEnvironment environment, AdminWorker& worker, ImportLimits limits,
             std::shared_ptr<void> ticket, grpc::CallbackServerContext& context,
             grpc::ByteBuffer& response);

  void Abort() override { context_.TryCancel(); }
  void OnReadDone(bool ok) override;
  void OnDone() override;

  void Read();
  // True if it completed a graph, and the worker goes on: then the call may be gone already.
  absl::StatusOr<bool> TakeMessage();
  // On the worker.
  void Import(std::string graph);
  // The client has sent all: makes the response.
  absl::Status End();
  void FinishWith(const absl::Status& status);

  grpc::CallbackServerContext& context_;  // gRPC's, and alive until OnDone
  AdminWorker& worker_;
  std::shared_ptr<void> ticket_;
  const std::string peer_;
  // These are touched by one of OnReadDone and Import at a time.
  GraphBytesReader reader_;
  grpc::ByteBuffer bytes_;
  latent::v1::GraphResults results_;
  int unused_ = 0;  // number of imported ones that no served bucket needs
  grpc::ByteBuffer& response_;
};

}  // namespace latentd::server::admin
