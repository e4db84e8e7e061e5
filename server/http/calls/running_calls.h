// The requests for pictures that run, by their callers: a caller asks for the progress of its own,
// and interrupts its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/http/calls/http_call.h"

namespace latentd::server::http {

// Thread-safe.
class RunningCalls {
 public:
  void Add(const std::string& caller, const std::shared_ptr<HttpCall>& call);

  // The caller's, oldest first.
  std::vector<std::shared_ptr<HttpCall>> Of(const std::string& caller) const;
  std::vector<std::shared_ptr<HttpCall>> All() const;

 private:
  using Calls = std::vector<std::weak_ptr<HttpCall>>;

  mutable absl::Mutex mutex_;
  std::map<std::string, Calls> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::http
