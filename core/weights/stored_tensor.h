// A tensor as it lies in its file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/text/digest.h"
#include "core/device/buffer.h"

namespace latentd::weights {

class CheckpointFile;

// Threads that read files' pages beside each other: more have not been faster.
inline constexpr int kMostReaders = 8;

// StoredTensor::unusable_dtype of doubles.
inline constexpr absl::string_view kDoubles = "F64";

// The digest of a tensor's bytes: made when it is first asked for, then remembered. Thread-safe.
class ContentDigest {
 public:
  // Reads the bytes.
  explicit ContentDigest(device::ConstBuffer data);
  // Made on demand by code that may know it.
  explicit ContentDigest(std::function<Digest()> make) : make_(std::move(make)) {}

  const Digest& Get() const;

 private:
  std::function<Digest()> make_;
  mutable absl::once_flag once_;
  mutable Digest digest_;
};

// A value; copies share the memory and the digest.
struct StoredTensor {
  // Read-only: it wraps the mapping, which it keeps alive, and shows what is written to the file
  // meanwhile: see CheckpointFile. Old files may hold it at an address that
  // is not a multiple of the element's size: Aligned() makes it safe to read by element.
  device::ConstBuffer data;
  std::string file;  // for messages

  // The dtype as the file spells it, if graphs have no such dtype ("I32"): then `data` has the
  // shape and (but for kDoubles) no memory; to use it is an error, to have it in the file is none.
  // ScaledSource says here what keeps one of 8-bit floats from being used.
  std::string unusable_dtype = {};

  // Digest of `data`'s bytes; WeightSet::Add makes it where it is absent.
  std::shared_ptr<const ContentDigest> digest = nullptr;

  // True if `data` is a mapping of a file, whose pages the kernel can drop and read again.
  bool mapped = false;

  // The open file that `data` is mapped from; null: it is in memory, or its file is not watched.
  std::shared_ptr<const CheckpointFile> origin = nullptr;

  // True of what a set over another one (WeightSet::Over) has from that one: further sets over it
  // read the tensor again.
  bool of_base = false;

  // Memory of the host that the tensor lies in with others that are read with it, as those of a
  // LoRA's file are, at a multiple of kPartAlignment: a device has all of it, in one piece, or
  // none. It has a digest; null: the tensor lies by itself.
  std::shared_ptr<const StoredTensor> part_of = nullptr;
};

// As much as any device asks for.
inline constexpr size_t kPartAlignment = 256;

// All that a device has where it has the tensor: the tensor, or what it is a part of.
const StoredTensor& UnitOf(const StoredTensor& tensor);
// The tensor in a copy of its unit, which it keeps alive.
device::ConstBuffer InUnit(const StoredTensor& tensor, const device::ConstBuffer& copy);

// By name.
using TensorMap = absl::flat_hash_map<std::string, StoredTensor>;

// Takes the tensor's pages out of the process's memory if they are a file's: they stay in the
// system's cache while there is room, and come back when they are read.
void ReleasePages(const StoredTensor& tensor);

// The data, copied iff its address does not suit its dtype.
device::ConstBuffer Aligned(const device::ConstBuffer& data);
std::vector<device::ConstBuffer> Aligned(absl::Span<const device::ConstBuffer> data);
// Bytes of all copies that Aligned makes.
size_t CopiedBytes(absl::Span<const device::ConstBuffer> data);

}  // namespace latentd::weights
