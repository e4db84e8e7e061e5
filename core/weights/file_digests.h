// Content digests of a file's tensors that survive a restart, so that it need not read gigabytes to
// find out which tensors are equal.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>

#include "core/weights/archives.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// A file as it is now: absolute path, inode, size and time of its last change. nullopt: not there.
std::optional<std::string> FileIdentity(const std::string& path);

// The digests of `tensors`, which are all that the file `path` holds, come from the archive; or are
// made of all tensors at once when the first is asked for, and kept if the file still is `identity`
// then.
void ArchiveDigests(const std::string& path, const std::string& identity,
                    const DigestArchive& archive, TensorMap* tensors);

}  // namespace latentd::weights
