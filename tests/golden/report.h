// Prints one line for each case and remembers whether all passed.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::golden {

class Report {
 public:
  // A case was run: it passes iff `distance` is at most `tolerance` (a NaN is not). `what` says
  // what is measured.
  void Measured(const std::string& name, absl::string_view what, double distance, double tolerance);
  // A case could not be run.
  void Failed(const std::string& name, const absl::Status& status);
  // A case that was not asked for.
  void Skipped(const std::string& name, absl::string_view reason);

  // Ends the list with a line of counts. True iff at least one case ran and none failed.
  bool Finish();

 private:
  int passed_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

}  // namespace latentd::golden
