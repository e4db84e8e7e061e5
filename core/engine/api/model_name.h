// The name that a model has where there is no room for its path: in capabilities and in metrics.
// Defined here, since the server's libraries read it and link no engine.
//
// Thread-safe: a free function.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "core/engine/api/capabilities.h"

namespace latentd::engine {

// The name of the checkpoint's directory, however its path is written: "base" of "/models/base/",
// and of "." in /models/base.
inline std::string NameOf(const ModelInfo& model) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model.path, error);
  path = (error ? std::filesystem::path(model.path) : path).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

}  // namespace latentd::engine
