// The errors of several things that a request names, as one: all of their violations, or where none
// has any, the first error.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "core/base/errors/error_details.h"

namespace latentd::pipeline {

class Refusals {
 public:
  void Add(const absl::Status& status);
  // OK: none was an error.
  absl::Status Join() const;

 private:
  std::vector<FieldViolation> violations_;
  absl::Status other_;
};

}  // namespace latentd::pipeline
