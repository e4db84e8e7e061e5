// latentd's own answers, which its page shows: messages of the API as JSON.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

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
    AskClientMemory client_memory;
  };

  OwnAnswers(engine::Engine& engine, Options options)
      : engine_(engine), options_(std::move(options)) {}

  // ServerStatus; with reasons, which may quote drivers and name files, for operators alone.
  Answer Status(bool for_operators) const;
  // GetCapabilitiesResponse, for that caller; UNAVAILABLE until the checkpoints are loaded.
  Answer Capabilities(const std::string& caller) const;
  // MemoryReport; for operators, as the next.
  Answer Memory() const;
  // ListGraphsResponse; may wait for a disk.
  Answer Graphs() const;

 private:
  engine::Engine& engine_;
  const Options options_;
};

}  // namespace latentd::server::http
