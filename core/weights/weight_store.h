// Holds what recipes made of tensors: each result once per device, however many executables use it.
//
// A recipe is a small graph whose leaves are weights and constants and which has one output: cast,
// permute, concatenation. A result is named by what it depends on only: the recipe's text without
// the weights' names, the content digests of its sources, and the form that a backend packs it into
// ("" = plain). So equal tensors of two files (the refiner's VAE is the base's) are held once with
// nothing to configure. The last user to go frees the memory.
//
// Thread-safe. Two threads that ask for one result make it once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"

namespace latentd::weights {

// A held result. Copies share it.
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
  // NOT_FOUND names a tensor that the set lacks.
  absl::StatusOr<Held> Get(const graph::Graph& recipe, const WeightSet& set,
                           absl::string_view form = "", const Packer& packer = nullptr);

  // Bytes of all results that are held now, and how many there are.
  size_t bytes_held() const;
  size_t entries() const;

 private:
  struct Entry;
  Evaluator evaluator_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
