#include "core/engine/memory_tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace latentd::engine {

void MemoryTally::Add(const std::string& id, const backends::MemoryNeeds& needs) {
  std::string keys;
  for (const auto& [key, bytes] : needs.weights) {
    absl::StrAppend(&keys, key, " ");
    if (weights_.insert(key).second) prediction_.weights += static_cast<int64_t>(bytes);
  }
  prediction_.arena = std::max(prediction_.arena, static_cast<int64_t>(needs.arena_bytes));
  if (executables_.emplace(id, std::move(keys)).second) {
    prediction_.executables += static_cast<int64_t>(needs.executable_bytes);
  }
}

void MemoryTally::AddState(int64_t bytes) {
  prediction_.state = std::max(prediction_.state, bytes);
}

}  // namespace latentd::engine
