// One Watch call of the health service: sends its service's status at once and again whenever it
// changes.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"

namespace latentd::server {

class HealthService;

// Thread-safe. Owns itself until gRPC is done with it.
class HealthWatch final : public grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  HealthWatch(HealthService& service, std::string name);

  const std::string& name() const { return name_; }

  // Sends it unless it is what the client knows; of several that wait, the last.
  void Update(Status status);

  // The call ends with `status` once nothing is in flight.
  void End(grpc::Status status);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Advance();

  HealthService& service_;
  const std::string name_;
  absl::Mutex mutex_;
  std::optional<Status> sent_ ABSL_GUARDED_BY(mutex_);
  std::optional<Status> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::health::v1::HealthCheckResponse message_;  // belongs to the write in flight
};

}  // namespace latentd::server
