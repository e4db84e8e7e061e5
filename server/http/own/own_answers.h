// latentd's own answers, which its page shows: messages of the API as JSON.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/engine.h"
#include "server/http/exchange/exchange.h"
#include "server/process/memory/client_memory.h"

namespace latentd::server::http {

// Says what clients make the process hold now; null: that is not known. Thread-safe.
using AskClientMemory = std::function<std::vector<process::ClientBytes>()>;

// Thread-safe. `engine` outlives it.
class OwnAnswers {
 public:
  struct Options {
    std::string version;
    // True: memory and graphs, which are for those who run the server, are shown to every caller.
    bool for_operators = false;
    AskClientMemory client_memory;
  };

  OwnAnswers(engine::Engine& engine, Options options)
      : engine_(engine), options_(std::move(options)) {}

  // ServerStatus.
  Answer Status() const;
  // GetCapabilitiesResponse, for that caller; UNAVAILABLE until the checkpoints are loaded.
  Answer Capabilities(const std::string& caller) const;
  // MemoryReport.
  Answer Memory() const;
  // ListGraphsResponse; may wait for a disk.
  Answer Graphs() const;

 private:
  absl::Status CheckOperators() const;

  engine::Engine& engine_;
  const Options options_;
};

}  // namespace latentd::server::http
