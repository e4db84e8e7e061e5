// Content digests of a file's tensors that survive a restart, so that it need not read gigabytes to
// find out which tensors are equal.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/text/digest.h"
#include "core/weights/archives.h"
#include "core/weights/file_identity.h"

namespace latentd::weights {

// Digests that are kept for the file as it was with that identity; nullopt: none, or not as many
// as `count`.
std::optional<std::vector<Digest>> FindDigests(const DigestArchive& archive,
                                               const std::string& path,
                                               const FileIdentity& identity, size_t count);

// REQUIRES: `digests` were made of a file that had this identity, settled, before and after.
void KeepDigests(const DigestArchive& archive, const std::string& path,
                 const FileIdentity& identity, absl::Span<const Digest> digests);

}  // namespace latentd::weights
