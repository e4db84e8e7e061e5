// An adapter's file read into memory whole, so that what is made of it is of one content, whatever
// happens to the file.
//
// Thread-safe: a free function without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/adapters/lora/lora_reader.h"

namespace latentd::adapters {

// OpenLora's file, whose tensors are in memory of their own, with digests that are made: one behind
// the other, as parts of one unit (StoredTensor::part_of) that a device takes by one copy. Threads
// read and hash them beside each other. Errors as OpenLora's; FAILED_PRECONDITION or OUT_OF_RANGE:
// it was written to meanwhile; RESOURCE_EXHAUSTED: no memory; INVALID_ARGUMENT: it is too large.
absl::StatusOr<LoraFile> ReadWhole(const std::string& path);

}  // namespace latentd::adapters
