// The place of the demo checkpoint, which latentd serves when no model is given.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace latentd::server::config {

struct DemoCheckpoint {
  std::string base;
  std::string refiner;
};

// Looks in ../share/latentd/demo-model (installed) and ../../deploy/demo-model (build tree) from
// `executable_directory`, then in `source_directory`/deploy/demo-model. NOT_FOUND names the places.
absl::StatusOr<DemoCheckpoint> FindDemoCheckpoint(const std::string& executable_directory,
                                                  const std::string& source_directory);

// The directory of this process's program.
std::string ExecutableDirectory();

}  // namespace latentd::server::config
