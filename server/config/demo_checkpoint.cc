#include "server/config/demo_checkpoint.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::server::config {

namespace fs = std::filesystem;

absl::StatusOr<DemoCheckpoint> FindDemoCheckpoint(const std::string& executable_directory,
                                                  const std::string& source_directory) {
  const fs::path executable(executable_directory);
  std::vector<std::string> places;
  for (const fs::path& place :
       {executable / "../share/latentd/demo-model", executable / "../../deploy/demo-model",
        fs::path(source_directory) / "deploy/demo-model"}) {
    const fs::path folder = place.lexically_normal();
    std::error_code error;
    if (fs::exists(folder / "base/model_index.json", error)) {
      return DemoCheckpoint{folder / "base", folder / "refiner"};
    }
    places.push_back(folder);
  }
  return absl::NotFoundError(absl::StrCat("no demo checkpoint in ", absl::StrJoin(places, ", "),
                                          ": say what to serve with --base=DIR"));
}

std::string ExecutableDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace latentd::server::config
