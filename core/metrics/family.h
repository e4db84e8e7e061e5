// Description of a metric: name, help text, type, and labels with all values that they can have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace latentd::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

// Values that are known once flags and checkpoints are read (Registry::Declare).
enum class Declared : uint8_t { kNone, kBuckets, kModels, kDevices };

// Bounded: a value that is none of these counts as "other" (kOther). Without values, listed or
// declared, the label is free, for series that are made once.
struct Label {
  const char* name = nullptr;
  const char* values = "";              // separated by commas
  Declared declared = Declared::kNone;  // and these, such as "256x256" or "base"

  constexpr bool is_free() const { return *values == '\0' && declared == Declared::kNone; }
};

inline constexpr char kOther[] = "other";
inline constexpr size_t kMaxLabels = 4;

struct Family {
  const char* name;
  const char* help;
  Type type;
  Label labels[kMaxLabels] = {};
  absl::Span<const double> bounds = {};  // bounds of histograms' buckets

  constexpr size_t label_count() const {
    size_t count = 0;
    while (count < kMaxLabels && labels[count].name != nullptr) ++count;
    return count;
  }
};

}  // namespace latentd::metrics
