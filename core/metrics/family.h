// What a metric is: name, help text, type, and labels with all the values that they can have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace latentd::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

// Bounded: a value that is none of these counts as "other" (kOther). Without values and buckets the
// label is free, for series that are made once.
struct Label {
  const char* name = nullptr;
  const char* values = "";  // separated by commas
  bool buckets = false;     // and the configured ones, such as "256x256"

  constexpr bool is_free() const { return *values == '\0' && !buckets; }
};

inline constexpr char kOther[] = "other";
inline constexpr size_t kMaxLabels = 3;

struct Family {
  const char* name;
  const char* help;
  Type type;
  Label labels[kMaxLabels] = {};
  absl::Span<const double> bounds = {};  // of histograms

  constexpr size_t label_count() const {
    size_t count = 0;
    while (count < kMaxLabels && labels[count].name != nullptr) ++count;
    return count;
  }
};

}  // namespace latentd::metrics
