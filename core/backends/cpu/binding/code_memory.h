// oneDNN generates machine code for each primitive, and writes through a null pointer where the
// system gives it no memory for that: at a limit of the process (ulimit -d, ulimit -v).
//
// Thread-safe.
#pragma once

#include "absl/status/status.h"

namespace latentd::backends::cpu {

// RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY unless the system would give what the code of
// several primitives needs. To be asked before each is made.
absl::Status CheckCodeMemory();

}  // namespace latentd::backends::cpu
