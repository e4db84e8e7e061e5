// A way to run parts of one image's work on threads that its owner has to spare.
#pragma once

#include <functional>

#include "absl/functional/function_ref.h"

namespace latentd::image {

// Calls part(0) to part(count - 1), each once and on any thread, and returns when all have
// returned. `part` does not throw.
using RunParts = std::function<void(int count, absl::FunctionRef<void(int)> part)>;

inline void RunPartsHere(int count, absl::FunctionRef<void(int)> part) {
  for (int number = 0; number < count; ++number) part(number);
}

}  // namespace latentd::image
