// What several graphs hold together, from what each one needs: weights that they share once, the
// arena of the largest, every executable.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/backends/backend.h"
#include "core/engine/graph_admin.h"

namespace latentd::engine {

class MemoryTally {
 public:
  // Of the graph with that id or name; one that was added with the same weights is the same.
  void Add(const std::string& id, const backends::MemoryNeeds& needs);
  // Of one picture; the largest counts.
  void AddState(int64_t bytes);

  const MemoryPrediction& prediction() const { return prediction_; }

 private:
  std::set<std::string> weights_;
  std::set<std::pair<std::string, std::string>> executables_;  // ids and keys of weights
  MemoryPrediction prediction_;
};

}  // namespace latentd::engine
