// Archives that survive a restart, as functions, as weights/ knows no cache: the engine passes the
// disk cache's. An archive without functions keeps nothing.
//
// The functions must be thread-safe, and outlive what they are given to; failures to read or write
// are ignored.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/device/buffer.h"

namespace latentd::weights {

// Smaller results are made again in about the time that a file of its own takes to open and check.
// On two cores of a Xeon, with everything in the system's cache, making and packing 256 KiB takes
// 0.05 ms, finding it 0.1; 1 MiB 0.3 and 0.25; 4 MiB 1.9 and 0.7; 16 MiB 9.7 and 2.4; 64 MiB 57
// (from f16: 124) and 14. Writing takes 6 ms a file and more, once.
inline constexpr size_t kLeastBytesKept = size_t{1} << 20;

// Results of recipes. A key is a text that says everything the bytes depend on.
struct WeightCache {
  // The bytes kept under the key, best mapped from a file, in a buffer of any dtype; nullopt: none.
  std::function<std::optional<device::ConstBuffer>(absl::string_view key)> find;
  std::function<void(absl::string_view key, const device::ConstBuffer& bytes)> keep;
  size_t least_bytes = kLeastBytesKept;
  // Version of the code that makes results, with its instruction set; part of every key, so that
  // no other build takes them.
  std::string version = {};
};

// Content digests of the tensors of one file. The key says which file, and when it was changed
// last.
struct DigestArchive {
  std::function<std::optional<std::string>(absl::string_view key)> find;
  std::function<void(absl::string_view key, absl::string_view digests)> keep;
  const Clock* clock = &SystemClock();  // clock of the files' times
};

}  // namespace latentd::weights
