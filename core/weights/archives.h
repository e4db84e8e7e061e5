// What survives a restart, as functions, since weights/ knows no cache: the engine hands in the
// disk cache's. An archive without functions keeps nothing.
//
// The functions must be thread-safe, and outlive who was given them; what they cannot read or write
// is nobody's error.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/device/buffer.h"

namespace latentd::weights {

// Below this a result is made again in less time than a file of its own takes to open and check:
// see the figures at WeightStore.
inline constexpr size_t kLeastBytesKept = size_t{1} << 20;

// Results of recipes. A key is a text that says everything the bytes depend on.
struct FormArchive {
  // The bytes kept under the key, best mapped from a file, in a buffer of any dtype; nullopt: none.
  std::function<std::optional<device::Buffer>(absl::string_view key)> find;
  std::function<void(absl::string_view key, const device::Buffer& bytes)> keep;
  size_t least_bytes = kLeastBytesKept;
};

// Content digests of the tensors of one file. The key says which file, and of what size and time.
struct DigestArchive {
  std::function<std::optional<std::string>(absl::string_view key)> find;
  std::function<void(absl::string_view key, absl::string_view digests)> keep;
};

}  // namespace latentd::weights
