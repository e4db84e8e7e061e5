// Whose turn it is on the device: all get its time in equal parts, or by their weights, whatever
// one of their units takes (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, 1996). A key with
// no work for a time gets no device time for that later.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace latentd::batching {

// Counted time of a unit: not zero, so that those whose units are not measured take turns too.
inline absl::Duration CountedTime(absl::Duration time) {
  return std::max(time, absl::Microseconds(1));
}

template <typename Key>
class Turns {
 public:
  // The place where its next unit begins, in the time that all share.
  absl::Duration StartOf(const Key& key) const {
    const auto found = until_.find(key);
    return found == until_.end() ? now_ : std::max(found->second, now_);
  }

  // The one of these that has had least, the first of several; nothing where there are none.
  std::optional<Key> Next(absl::Span<const Key> keys) const {
    const auto next =
        std::min_element(keys.begin(), keys.end(),
                         [this](const Key& a, const Key& b) { return StartOf(a) < StartOf(b); });
    if (next == keys.end()) return std::nullopt;
    return *next;
  }

  // It gets the device, for about as long as this by its weight.
  void Begin(const Key& key, absl::Duration expected) {
    now_ = StartOf(key);
    if (until_.size() >= kMost) until_.clear();
    until_[key] = now_ + CountedTime(expected);
  }

  // A unit has ended that took this instead.
  void Correct(const Key& key, absl::Duration expected, absl::Duration took) {
    const auto found = until_.find(key);
    if (found != until_.end()) found->second += CountedTime(took) - CountedTime(expected);
  }

 private:
  // Keys are the clients' choice; when it knows that many it forgets them.
  static constexpr size_t kMost = 256;

  absl::Duration now_;  // the place where the unit began that had the last turn
  absl::flat_hash_map<Key, absl::Duration> until_;
};

}  // namespace latentd::batching
