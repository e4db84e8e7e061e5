// Holds what recipes made of tensors, in the memory of one device: each result once, however many
// executables use it.
//
// A recipe is a small graph whose leaves are weights and constants and which has one output: cast,
// permute, concatenation. What is made is that recipe of what the set's sources are made of: one
// graph of stored tensors (Compose). A result is named by what it depends on only: that graph's
// text, the content digests of the tensors, and the form that a backend packs it into ("" = plain).
// So equal tensors of two files (the refiner's VAE is the base's) are held once with nothing to
// configure. The last user to go frees the memory.
//
// Results of WeightCache::least_bytes and more are kept over a restart, if an archive is given,
// unless they are a tensor as it is, or StopKeeping was called. Once a result is made, its sources'
// pages are released. Where the device is the host itself, what was kept is used where it is
// mapped.
//
// Tensors of a base that sets stand over (StoredTensor::of_base), and those of LoRAs, are kept on
// the device beside the results (device_tensors.h), and further sets' results are made of these,
// with nothing read, hashed or uploaded; where a tensor as it is is a result that is held, that one
// is read.
//
// Nothing that is held is memory of a checkpoint's file: what is written to the file shows in no
// weight. A file that changed since it was opened gives no result any more, new or held.
//
// Thread-safe. Threads that ask for one result at a time make it once; if making it fails, each of
// them gets that error, and who asks later tries again. The store must outlive what it gave out.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/text/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/archives.h"
#include "core/weights/device_tensors.h"
#include "core/weights/idle_streams.h"
#include "core/weights/kept_tensors.h"
#include "core/weights/source.h"
#include "core/weights/weight_maker.h"
#include "core/weights/weight_set.h"

namespace latentd::weights {

// A result that the store holds, in memory of its device. Copies share it, and the last one to go
// frees it; a ConstBuffer copied out of it must not outlive it.
using WeightRef = std::shared_ptr<const device::ConstBuffer>;

// Memory that Get would hold, and that it takes for a moment beside that.
struct ResultNeeds {
  std::string key;  // the name of the result: 32 hexadecimal digits
  size_t bytes = 0;
  size_t making_bytes = 0;
};

// One result that is held, for reports.
struct WeightInfo {
  std::string key;  // as in ResultNeeds
  size_t bytes = 0;
  bool mapped = false;  // pages of the archive, which the kernel can drop and read again
  int users = 0;        // references in use
  // Users' components, the first part of the weights' names ("unet"), and sets, by name ("base").
  std::vector<std::string> components, sets;
  const void* data = nullptr;  // address on the device
};

class WeightStore {
 public:
  // `maker` must outlive the store.
  explicit WeightStore(WeightMaker& maker, WeightCache archive = {})
      : maker_(maker),
        archive_(std::move(archive)),
        streams_(maker.device()),
        tensors_(maker, streams_) {}
  WeightStore(const WeightStore&) = delete;

  // From now on the archive is given nothing more of a device with memory of its own: to copy and
  // write a model's weights takes longer than making them, and its first request would wait for it.
  void StopKeeping() { keeps_ = false; }

  // Device that the results are on.
  device::Device& device() const { return maker_.device(); }

  // Tensors that are kept for results to come; none until their limit is set. Where memory for a
  // result is lacking they are dropped first.
  KeptTensors& kept_tensors() { return tensors_.kept(); }
  const KeptTensors& kept_tensors() const { return tensors_.kept(); }

  // The result of `recipe` over `set`: from memory, from the archive (mapped, without a copy), or
  // made. NOT_FOUND names a weight that the set lacks, INVALID_ARGUMENT one that does not fit the
  // recipe's (CheckFits); RESOURCE_EXHAUSTED: no memory for it; FAILED_PRECONDITION,
  // reason CHECKPOINT_CHANGED, a file that was edited; otherwise as WeightMaker::MakeWeight.
  absl::StatusOr<WeightRef> Get(const graph::Graph& recipe, const WeightSet& set,
                                const WeightFormat& format = {});

  // Needs of Get with the same, without making anything; archived results count as made. Errors
  // as Get's.
  absl::StatusOr<ResultNeeds> NeedsOf(const graph::Graph& recipe, const WeightSet& set,
                                      const WeightFormat& format = {}) const;

  // Bytes of all results that are held now, mapped ones too, but of no kept tensors; of the mapped
  // ones; and how many there are.
  size_t bytes_held() const;
  size_t mapped_bytes() const;
  size_t entries() const;
  // Each of them, in no order.
  std::vector<WeightInfo> List() const;

 private:
  struct User {
    std::string set, component;
    auto operator<=>(const User&) const = default;
  };
  struct Entry;
  using EntryPointer = std::shared_ptr<Entry>;
  struct Use;
  struct NewResult;

  // The entry of that key, with one user more. Waits for a thread that makes it; true: this thread
  // is to make it, and to call Finish.
  bool Join(const Digest& key, const User& user, EntryPointer* entry);
  absl::StatusOr<NewResult> Make(const Source& source, const WeightFormat& format,
                                 const std::string& name);
  absl::StatusOr<device::Buffer> MakeOnDevice(const Source& source, const WeightFormat& format);
  // A tensor's content on the device: kept, or a result that is held; nullopt: it is on the host.
  std::optional<device::ConstBuffer> OnDevice(const StoredTensor& tensor);
  std::optional<device::ConstBuffer> FindHeld(const StoredTensor& tensor) const;
  // WeightMaker::MakingBytes, asked once for all recipes of the same text.
  absl::StatusOr<size_t> MakingBytes(const Source& source, const WeightFormat& format) const;
  std::optional<device::ConstBuffer> FindKept(const graph::Node& plain, const WeightFormat& format,
                                              const std::string& name) const;
  void Keep(const std::string& name, const device::ConstBuffer& result) const;
  // A copy of it at that place, once it is there.
  absl::StatusOr<device::Buffer> Copied(const device::ConstBuffer& from, device::Place to) const;
  void Finish(const Digest& key, const EntryPointer& entry, absl::StatusOr<NewResult> made);
  void Leave(const Digest& key, const EntryPointer& entry, const User& user);

  WeightMaker& maker_;
  const WeightCache archive_;
  std::atomic<bool> keeps_ = true;
  IdleStreams streams_;
  DeviceTensors tensors_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, EntryPointer> entries_ ABSL_GUARDED_BY(mutex_);
  // By recipe, format and what copies of sources take.
  mutable absl::flat_hash_map<Digest, size_t> making_bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
