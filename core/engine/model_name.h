// What a model is called where there is no room for its path: in capabilities and in metrics.
//
// Thread-safe: a free function.
#pragma once

#include <string>

#include "core/engine/engine.h"

namespace latentd::engine {

// The name of the checkpoint's directory, however its path is written: "base" of "/models/base/",
// and of "." in /models/base.
std::string NameOf(const ModelInfo& model);

}  // namespace latentd::engine
