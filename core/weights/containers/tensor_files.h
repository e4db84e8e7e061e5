// Finds the files of a component's folder that hold its tensors: the names that diffusers and
// transformers write, for a variant or without, in one piece or in shards.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "core/base/files/file_reader.h"
#include "core/weights/archives.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

struct TensorFiles {
  // Full path of the one file; empty where there is an index.
  std::string single;
  // Full path of the index, and what it says: full path of a shard -> names of its tensors.
  std::string index;
  absl::btree_map<std::string, std::vector<std::string>> shards;
};

// True iff the folder has tensors of exactly this variant ("": without a suffix).
bool HasTensorFiles(const std::string& folder, const std::string& variant);

// `variant` as for Checkpoint::Open. Between an index and a single file, the one is preferred that
// diffusers reads of its models, and transformers of its own.
// NOT_FOUND says what the folder has instead; INVALID_ARGUMENT an index that is not one, or that
// names a shard outside of the folder.
absl::StatusOr<TensorFiles> FindTensorFiles(const std::string& folder, const std::string& variant,
                                            const FileReader& read);

// All tensors of the files. INVALID_ARGUMENT if a shard lacks what the index says it has.
absl::StatusOr<TensorMap> ReadTensorFiles(const TensorFiles& files,
                                          const DigestArchive& digests = {});

}  // namespace latentd::weights
