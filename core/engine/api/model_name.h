// The name that a model has where there is no room for its path: in capabilities and in metrics.
// Defined here, since the server's libraries read it and link no engine.
//
// Thread-safe: a free function.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/engine/api/capabilities.h"

namespace latentd::engine {

// The name of the checkpoint's directory, however its path is written: "base" of "/models/base/",
// and of "." in /models/base; of a snapshot in the Hub's cache, "NAME" of "models--ORG--NAME".
inline std::string NameOf(const ModelInfo& model) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model.path, error);
  path = (error ? std::filesystem::path(model.path) : path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.parent_path().filename() != "snapshots") return path.filename();
  const std::string repository = path.parent_path().parent_path().filename();
  constexpr absl::string_view kModels = "models--";
  if (!absl::StartsWith(repository, kModels)) return path.filename();
  const size_t name = repository.find("--", kModels.size());
  return repository.substr(name == std::string::npos ? kModels.size() : name + 2);
}

}  // namespace latentd::engine
