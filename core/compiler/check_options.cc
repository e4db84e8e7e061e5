#include "core/compiler/check_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/passes/pipeline.h"

namespace latentd::compiler {

absl::Status CheckOptions(const CompileOptions& options) {
  std::set<absl::string_view> names;
  for (const passes::Pass& pass : passes::Passes()) names.insert(pass.name);
  for (const std::string& name : options.skipped_passes) {
    if (names.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("no pass is called \"", Excerpt(name),
                                                   "\": they are ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace latentd::compiler
