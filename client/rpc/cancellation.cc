#include "client/rpc/cancellation.h"

namespace latentd::client {

void Cancellation::Add(grpc::ClientContext& context) {
  absl::MutexLock lock(&mutex_);
  running_.insert(&context);
  if (cancelled_) context.TryCancel();
}

void Cancellation::Remove(grpc::ClientContext& context) {
  absl::MutexLock lock(&mutex_);
  running_.erase(&context);
}

void Cancellation::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

bool Cancellation::WaitFor(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), timeout);
}

}  // namespace latentd::client
