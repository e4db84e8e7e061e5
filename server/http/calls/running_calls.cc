#include "server/http/calls/running_calls.h"

#include <iterator>
#include <utility>

namespace latentd::server::http {

void RunningCalls::Add(const std::string& caller, const std::shared_ptr<HttpCall>& call) {
  absl::MutexLock lock(&mutex_);
  // Calls that are gone leave here, of all callers.
  for (auto of = calls_.begin(); of != calls_.end();) {
    std::erase_if(of->second, [](const std::weak_ptr<HttpCall>& old) { return old.expired(); });
    of = of->second.empty() ? calls_.erase(of) : std::next(of);
  }
  calls_[caller].push_back(call);
}

std::vector<std::shared_ptr<HttpCall>> RunningCalls::Of(const std::string& caller) const {
  std::vector<std::shared_ptr<HttpCall>> running;  // gone once nothing is locked
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(caller);
  if (found == calls_.end()) return running;
  for (const std::weak_ptr<HttpCall>& call : found->second) {
    if (auto alive = call.lock()) running.push_back(std::move(alive));
  }
  return running;
}

std::vector<std::shared_ptr<HttpCall>> RunningCalls::All() const {
  std::vector<std::shared_ptr<HttpCall>> running;
  absl::MutexLock lock(&mutex_);
  for (const auto& [caller, calls] : calls_) {
    for (const std::weak_ptr<HttpCall>& call : calls) {
      if (auto alive = call.lock()) running.push_back(std::move(alive));
    }
  }
  return running;
}

}  // namespace latentd::server::http
