#include "server/health_watch.h"

#include <utility>

#include "server/health_service.h"

namespace latentd::server {

HealthWatch::HealthWatch(HealthService& service, std::string name)
    : service_(service), name_(std::move(name)) {}

void HealthWatch::Update(Status status) {
  {
    absl::MutexLock lock(&mutex_);
    wanted_ = status;
  }
  Advance();
}

void HealthWatch::End(grpc::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!end_) end_ = std::move(status);
  }
  Advance();
}

void HealthWatch::Advance() {
  bool write = false;
  grpc::Status end;
  {
    absl::MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    if (!end_ && wanted_ == sent_) return;
    write = wanted_ != sent_;
    if (write) {
      writing_ = true;
      sent_ = wanted_;
      message_.set_status(*sent_);
    } else {
      finished_ = true;
      end = *end_;
    }
  }
  if (write) {
    StartWrite(&message_);
  } else {
    Finish(std::move(end));
  }
}

void HealthWatch::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) sent_ = wanted_;
  }
  if (!ok) return End(grpc::Status::CANCELLED);
  Advance();
}

void HealthWatch::OnCancel() { End(grpc::Status::CANCELLED); }

void HealthWatch::OnDone() {
  service_.Remove(this);
  delete this;
}

}  // namespace latentd::server
