// Reads safetensors files: 8 bytes with the header's length (little-endian), the header (JSON: name
// -> dtype, shape, byte range), then the data, to which the ranges are relative.
// https://huggingface.co/docs/safetensors describes the format.
//
// The parse is strict, since the bytes come from anywhere: the header has at most 100 MB; the
// ranges lie in the data, fit their shapes, and cover all of it without overlap; nothing follows.
// Odd headers are judged as the safetensors package judges them. An error names the file, the
// tensor, and what would be right.
//
// A tensor of a dtype that the format knows but graphs do not have (I32, BOOL, ...) is checked like
// any other and marked StoredTensor::unusable_dtype: checkpoints carry such tensors (counters,
// masks) that no network reads, so only the use of one is an error. A dtype that the format does
// not know is an error, since its size is not known. One of F64 is marked likewise, but keeps its
// memory, as I64: WeightSet rounds it.
//
// Thread-safe: free functions without state.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/weights/archives.h"
#include "core/weights/containers/safetensors_header.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

struct SafetensorsFile {
  TensorMap tensors;
  absl::flat_hash_map<std::string, std::string> metadata;  // as SafetensorsHeader has it
};

// The same for a file by path, with what it says of itself. The file is open as a CheckpointFile
// while a tensor of it is held. Its digests are kept in the archive. NOT_FOUND and such name the
// path.
absl::StatusOr<SafetensorsFile> ReadSafetensorsFile(const std::string& path,
                                                    const DigestArchive& digests = {});
// Its tensors alone.
absl::StatusOr<TensorMap> ReadSafetensors(const std::string& path,
                                          const DigestArchive& digests = {});

// The same for bytes that `owner` keeps alive; `file` is for messages.
absl::StatusOr<TensorMap> ParseSafetensorsBytes(absl::string_view bytes, const std::string& file,
                                                const std::shared_ptr<const void>& owner);

}  // namespace latentd::weights
