// Prints one line for each case and remembers whether all passed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::golden {

enum class Bound { kAtMost, kAtLeast };

// How far something is from what it should be, or how like it: right iff `value` is at most, or at
// least, `limit`, which a NaN is not.
struct Measure {
  std::string what;
  double value = 0;
  double limit = 0;
  Bound bound = Bound::kAtMost;
  std::optional<double> of_diffusers = {};  // the same of its own, to be seen beside it

  bool Right() const { return bound == Bound::kAtMost ? value <= limit : value >= limit; }
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
