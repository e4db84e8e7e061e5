// How urgent requests may say that they are: what the operator allows everyone, and single callers.
// In a header, since server/ tells callers without linking the engine.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace latentd::engine {

inline constexpr int kMinPriority = -3, kMaxPriority = 3;

// Each from 0, which is what a request has that says nothing, to kMaxPriority.
struct PriorityLimits {
  // Highest priority of a caller as in GenerateSpec: one with several names, with commas between
  // them, may do what the best of its names may.
  int MaxOf(absl::string_view caller) const {
    std::optional<int> highest;
    for (const absl::string_view name : absl::StrSplit(caller, ',')) {
      const auto found = named.find(name);
      if (found != named.end()) highest = std::max(highest.value_or(found->second), found->second);
    }
    return highest.value_or(everyone);
  }

  int everyone = 0;  // limit of callers that are not named
  std::map<std::string, int, std::less<>> named;
};

}  // namespace latentd::engine
