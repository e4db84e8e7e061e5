#include "client/cancellation.h"

namespace latentd::client {

Cancellation::Scope::Scope(Cancellation& cancellation, grpc::ClientContext& context)
    : cancellation_(cancellation), context_(context) {
  absl::MutexLock lock(&cancellation_.mutex_);
  cancellation_.running_.insert(&context_);
  if (cancellation_.cancelled_) context_.TryCancel();
}

Cancellation::Scope::~Scope() {
  absl::MutexLock lock(&cancellation_.mutex_);
  cancellation_.running_.erase(&context_);
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
