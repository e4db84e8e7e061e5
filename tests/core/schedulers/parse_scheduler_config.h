// SchedulerFile::Parse and With, for a file that is read for one use.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "core/schedulers/config.h"

namespace latentd::schedulers {

inline absl::StatusOr<SchedulerConfig> ParseSchedulerConfig(absl::string_view json,
                                                            const Overrides& overrides = {},
                                                            absl::string_view class_name = {}) {
  ASSIGN_OR_RETURN(const SchedulerFile file, SchedulerFile::Parse(json, class_name));
  return file.With(overrides);
}

}  // namespace latentd::schedulers
