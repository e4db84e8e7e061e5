// Tells the log how starting goes: each graph at debug, every tenth of them and every bucket at
// info, buckets that stay cold as warnings, the moment when the server serves, and what came of the
// step graphs that follow.
#pragma once

#include <functional>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/api/status.h"
#include "core/metrics/registry.h"
#include "server/process/logs/log.h"

namespace latentd::server::process {

// Not thread-safe.
class StartupLog {
 public:
  using Write =
      std::function<void(latent::v1::LogLevel, absl::string_view message, const LogFields&)>;

  // Time is counted from here. `clock` and `registry` outlive the object; `registry` says what was
  // compiled and loaded.
  StartupLog(const Clock& clock, const metrics::Registry& registry, Write write);

  // The engine's status has changed, or not.
  void Note(const engine::ServerStatus& status);

 private:
  void NoteProgress(const engine::ServerStatus& status);
  void NoteServing(const engine::ServerStatus& status);
  void NoteSharedSteps(const engine::ServerStatus& status);
  // While others are left.
  void NoteLostDevices(const engine::ServerStatus& status);
  double SecondsSinceStart() const;

  const Clock& clock_;
  const metrics::Registry& registry_;
  const Write write_;
  const absl::Time start_;
  engine::ServerStatus last_;
};

}  // namespace latentd::server::process
