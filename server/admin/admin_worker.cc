#include "server/admin/admin_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::server::admin {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(5);

}  // namespace

AdminWorker::AdminWorker(const std::string& thread_name, OperatorCheck check)
    : check_(std::move(check)), worker_(thread_name, kMaxWaitingWork + 1) {}

absl::Status AdminWorker::Add(std::function<void()> work) {
  if (worker_.TryAdd(std::move(work))) return absl::OkStatus();
  return WithRetryDelay(
      WithReason(absl::ResourceExhaustedError(absl::StrCat(
                     kMaxWaitingWork, " calls of operators wait: try again when they are done")),
                 "QUEUE_FULL"),
      kRetryDelay);
}

void AdminWorker::Continue(std::function<void()> work) { worker_.Continue(std::move(work)); }

}  // namespace latentd::server::admin
