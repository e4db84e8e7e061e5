// Part of the device that each caller may have, by how much all have asked for lately: what the
// others do not ask for, shared equally with those who ask for more than that; never less than an
// equal part of all.
//
// Not thread-safe.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace latentd::batching {

class Demand {
 public:
  // The caller asks for so much of the device's time. Zero: unknown, and counts as much.
  void Add(const std::string& caller, absl::Duration work, absl::Time now);

  // Part of the device's time, or of anything else that they share; above 0, at most 1.
  double PartOf(const std::string& caller, absl::Time now) const;

 private:
  struct Asked {
    absl::Time first, last;
    double work = 0;  // in seconds, that by then had faded
  };

  static double RateOf(const Asked& asked, absl::Time now);

  absl::flat_hash_map<std::string, Asked> callers_;
};

}  // namespace latentd::batching
