#include "server/generation/active_calls.h"

#include <utility>

namespace latentd::server::generation {

void ActiveCall::Enter() {
  std::shared_ptr<ActiveCall> self = shared_from_this();
  environment_.calls.Add(self);
  self_ = std::move(self);
}

void ActiveCall::CancelIfStalled(absl::Time now, absl::Duration limit) {
  absl::MutexLock lock(&call_mutex_);
  if (!left_ && now - waiting_since_ >= limit) Abort();
}

void ActiveCall::Cancel() {
  absl::MutexLock lock(&call_mutex_);
  if (!left_) Abort();
}

void ActiveCall::Leave() {
  {
    absl::MutexLock lock(&call_mutex_);
    left_ = true;
  }
  environment_.calls.Remove(*this);
  self_.reset();
}

void ActiveCall::StartWaiting() {
  absl::MutexLock lock(&call_mutex_);
  waiting_since_ = environment_.clock.Monotonic();
}

void ActiveCall::StopWaiting() {
  absl::MutexLock lock(&call_mutex_);
  waiting_since_ = absl::InfiniteFuture();
}

void ActiveCalls::Add(const std::shared_ptr<ActiveCall>& call) {
  absl::MutexLock lock(&mutex_);
  calls_.emplace(call.get(), call);
}

void ActiveCalls::Remove(const ActiveCall& call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(&call);
}

void ActiveCalls::CancelStalled(absl::Time now, absl::Duration limit) const {
  for (const auto& call : Snapshot()) call->CancelIfStalled(now, limit);
}

void ActiveCalls::CancelUnread(absl::Time now, absl::Duration limit) const {
  for (const auto& call : Snapshot()) call->CancelIfUnread(now, limit);
}

void ActiveCalls::CancelAll() const {
  for (const auto& call : Snapshot()) call->Cancel();
}

bool ActiveCalls::WaitUntilEmpty(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto empty = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
  return mutex_.AwaitWithTimeout(absl::Condition(&empty), timeout);
}

int64_t ActiveCalls::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& call : Snapshot()) bytes += call->held_bytes();
  return bytes;
}

HeldRequest::Bytes ActiveCalls::request_bytes() const {
  HeldRequest::Bytes all;
  for (const auto& call : Snapshot()) {
    const HeldRequest::Bytes bytes = call->request_bytes();
    all.received += bytes.received;
    all.read += bytes.read;
  }
  return all;
}

std::vector<std::shared_ptr<ActiveCall>> ActiveCalls::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<ActiveCall>> calls;
  for (const auto& [key, call] : calls_) {
    if (auto alive = call.lock()) calls.push_back(std::move(alive));
  }
  return calls;
}

}  // namespace latentd::server::generation
