// Liveness of the server, and its readiness for requests: decided here alone, from what
// the engine says of itself. grpc.health.v1 (server/admin/health_service.h) and the pages for
// probes over HTTP (health_pages.h) say what is here.
//
//   alive  from the start to the end, loading and draining included, unless a unit of work or a
//          thread hangs, and until the last device has failed
//   ready  once the engine can draw in some bucket, until it drains
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/api/hangs.h"
#include "core/engine/api/status.h"

namespace latentd::server::process {

class Health {
 public:
  // `find_hangs` is called by each reader of the health, so it knows whatever thread hangs, and
  // waits for nothing that may.
  explicit Health(std::function<engine::Hangs()> find_hangs) : find_hangs_(std::move(find_hangs)) {}

  // One line that says why it is not; empty: it is.
  std::string WhyNotAlive() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string WhyNotReady() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool alive() const { return WhyNotAlive().empty(); }
  bool ready() const { return WhyNotReady().empty(); }

  // Takes the engine's status of now.
  void Follow(const engine::ServerStatus& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Not ready from now on, whatever the engine says.
  void BeginDrain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<engine::Hangs()> find_hangs_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::string fault_ ABSL_GUARDED_BY(mutex_);  // fault of the device; empty: it works
  std::string why_not_ready_ ABSL_GUARDED_BY(mutex_) = "loading";
};

}  // namespace latentd::server::process
