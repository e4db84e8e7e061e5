// Holds what recipes made of tensors: each result once per device, however many executables use it.
//
// A recipe is a small graph whose leaves are weights and constants and which has one output: cast,
// permute, concatenation. A result is named by what it depends on only: the recipe's text without
// the weights' names, the content digests of its sources, and the form that a backend packs it into
// ("" = plain). So equal tensors of two files (the refiner's VAE is the base's) are held once with
// nothing to configure. The last user to go frees the memory.
//
// Thread-safe. Threads that ask for one result at a time make it once; if making it fails, each of
// them gets that error, and who asks later tries again. The store must outlive what it gave out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"

namespace latentd::weights {

// A held result. Copies share it, and the last one to go frees it; a Buffer copied out of it must
// not outlive it.
using Held = std::shared_ptr<const device::Buffer>;

// Runs a recipe on its sources, in the order of the graph's weights: the reference backend's
// evaluator, handed in because weights/ may not include backends/.
using Evaluator = std::function<absl::StatusOr<device::Buffer>(
    const graph::Graph& recipe, absl::Span<const device::Buffer> sources)>;

// Turns a plain result into a backend's own form; the plain one is dropped afterwards.
using Packer = std::function<absl::StatusOr<device::Buffer>(const device::Buffer& plain)>;

class WeightStore {
 public:
  explicit WeightStore(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  WeightStore(const WeightStore&) = delete;

  // The result of `recipe` over `set`, in `form` (made by `packer`; form "" and no packer: plain).
  // A recipe that is a weight and nothing else, held plain, is the mapped tensor without a copy.
  // NOT_FOUND names a tensor that the set lacks, INVALID_ARGUMENT one of another dtype or shape
  // than the recipe's weight. The packer must give the same bytes for the same form and plain
  // result.
  absl::StatusOr<Held> Get(const graph::Graph& recipe, const WeightSet& set,
                           absl::string_view form = "", const Packer& packer = nullptr);

  // The name of what Get would hold: 32 hexadecimal digits. Errors as Get's.
  static absl::StatusOr<std::string> Key(const graph::Graph& recipe, const WeightSet& set,
                                         absl::string_view form = "");

  // Bytes of all results that are held now (mapped ones too), and how many there are.
  size_t bytes_held() const;
  size_t entries() const;

 private:
  struct Entry;
  using EntryPointer = std::shared_ptr<Entry>;

  // The held result, waiting for a thread that makes it; null: this thread is to make it for
  // `entry`.
  absl::StatusOr<Held> FindOrBegin(const Digest& key, EntryPointer* entry);
  absl::StatusOr<Held> Finish(const Digest& key, const EntryPointer& entry,
                              absl::StatusOr<device::Buffer> made);
  void Release(const Digest& key, const EntryPointer& entry, size_t bytes);

  Evaluator evaluator_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, EntryPointer> entries_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_held_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t results_held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::weights
