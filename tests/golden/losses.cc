#include "tests/golden/losses.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "tests/golden/case_files.h"

namespace latentd::golden {

using nlohmann::json;

absl::StatusOr<Losses> Losses::Read(const Options& options) {
  const std::string path = options.cases + "/losses.json";
  ASSIGN_OR_RETURN(const json all, ReadJsonFile(path));
  const bool bf16 = options.IsInBf16();
  const char* name = bf16 ? "bf16" : "fp16";
  const auto found = all.find(name);
  if (found != all.end() && found->is_object()) return Losses(*found);
  return absl::NotFoundError(absl::StrCat(path, " does not say what diffusers loses in ", name));
}

std::optional<double> Losses::Of(const std::string& name, const std::string& what) const {
  const auto found = by_case_.find(name);
  if (found == by_case_.end() || !found->contains(what)) return std::nullopt;
  return (*found)[what].get<double>();
}

}  // namespace latentd::golden
