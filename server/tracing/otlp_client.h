// Calls a collector: OTLP over gRPC.
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "otlp/trace_service.grpc.pb.h"
#include "server/tracing/endpoint.h"
#include "server/tracing/span_sender.h"

namespace latentd::server::tracing {

// Connects when it has something to send. Thread-safe.
class OtlpClient {
 public:
  // With TLS it believes the system's authorities, or those that gRPC is told by
  // GRPC_DEFAULT_SSL_ROOTS_FILE_PATH.
  explicit OtlpClient(const Endpoint& endpoint);

  // How many spans the collector has not taken. gRPC's own errors; DEADLINE_EXCEEDED: no answer
  // within `timeout`. Blocks. One at a time.
  absl::StatusOr<int64_t> Send(const ExportRequest& request, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the call, now or yet to come, with CANCELLED at once.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // False once it is cancelled.
  bool Begin(grpc::ClientContext& context) ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;
  absl::Mutex mutex_;
  grpc::ClientContext* under_way_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// One that is called by a client of its own.
SpanSender::Collector CollectorAt(const Endpoint& endpoint);

}  // namespace latentd::server::tracing
