// A function that reads a file whole: ReadFile, or one that does more about each file.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/files/files.h"

namespace latentd {

// Gives what ReadFile gives.
using FileReader =
    std::function<absl::StatusOr<std::string>(const std::string& path, size_t max_bytes)>;

// ReadFile for an open file, from its first byte on; `path` is for messages.
absl::StatusOr<std::string> ReadOpenFile(const FileDescriptor& file, const std::string& path,
                                         size_t max_bytes);

}  // namespace latentd
