#include "core/engine/model_name.h"

#include <filesystem>
#include <system_error>

namespace latentd::engine {

std::string NameOf(const ModelInfo& model) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model.path, error);
  path = (error ? std::filesystem::path(model.path) : path).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

}  // namespace latentd::engine
