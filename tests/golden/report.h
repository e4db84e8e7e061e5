// Prints one line for each case and remembers whether all passed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::golden {

// How far something is from what it should be: right iff `distance` is at most `tolerance`, which a
// NaN is not.
struct Measure {
  std::string what;
  double distance = 0;
  double tolerance = 0;

  bool Right() const { return distance <= tolerance; }
};

class Report {
 public:
  // A case was run: it passes iff all measures are right.
  void Measured(const std::string& name, const std::vector<Measure>& measures);
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
