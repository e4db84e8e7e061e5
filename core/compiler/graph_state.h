// How a graph stands and where it is kept, as operators see it too: engine.h shows these to
// server/.
#pragma once

#include <cstdint>

namespace latentd::compiler {

enum class GraphState : uint8_t { kCold, kCompiling, kCompiled, kLoading, kReady, kFailed };
enum class Tier : uint8_t { kMemory, kDisk, kBoth };

}  // namespace latentd::compiler
