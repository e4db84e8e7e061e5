// What a backend can do, as plain data that the backend states and passes read, so that no pass
// asks which backend it is.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "core/graph/op.h"

namespace latentd::graph {

struct Target {
  std::string name;                     // "reference", "cpu", "cuda"
  Layout image_layout = Layout::kNchw;  // what its convolutions like best
  absl::flat_hash_set<std::string>
      fused;  // FusedAttributes::kind values that it runs as one kernel
};

}  // namespace latentd::graph
