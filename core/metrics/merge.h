// Merges a gauge over a registry that has parts (registry.h). Counters and histograms are sums.
//
// Thread-safe: a free function without state.
#pragma once

#include <cstdint>
#include <utility>

#include "core/metrics/families.h"

namespace latentd::metrics {

enum class Merge : uint8_t {
  kSum,       // sum of the parts' and its own
  kGreatest,  // greatest of these
  kLeast,     // least of the parts'
  kOwn,       // its own: the parts' are not shown
  kPlaces     // the sum where the label is kDevice; of the host, which is one, the greatest
};

// Values of kMemoryAvailable's label.
inline constexpr char kHost[] = "host", kDevice[] = "device";

inline Merge MergeOf(const Family& family) {
  constexpr std::pair<const Family*, Merge> kNoSums[] = {
      {&kGraphCacheLastLook, Merge::kLeast},
      {&kBucketWarm, Merge::kLeast},
      {&kModelLoaded, Merge::kGreatest},
      {&kBucketLastUsed, Merge::kGreatest},
      {&kStartupPhase, Merge::kGreatest},
      {&kServerState, Merge::kOwn},
      {&kReadyTimestamp, Merge::kOwn},
      {&kCheckpointChangedFiles, Merge::kGreatest},
      {&kMemoryAvailable, Merge::kPlaces},
      {&kUnitOverdue, Merge::kGreatest},
      {&kThreadOverdue, Merge::kGreatest},
      {&kTlsCertificateExpiry, Merge::kOwn},
      {&kBuildInfo, Merge::kOwn},
      {&kBackendInfo, Merge::kGreatest},
      {&kModelInfo, Merge::kGreatest}};
  for (const auto& [other, merge] : kNoSums) {
    if (other == &family) return merge;
  }
  return Merge::kSum;
}

}  // namespace latentd::metrics
