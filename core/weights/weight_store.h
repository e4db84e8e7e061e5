// Holds what recipes made of tensors: each result once per device, however many executables use it.
//
// A recipe is a small graph whose leaves are weights and constants and which has one output: cast,
// permute, concatenation. A result is named by what it depends on only: the recipe's text without
// the weights' names, the content digests of its sources, and the form that a backend packs it into
// ("" = plain). So equal tensors of two files (the refiner's VAE is the base's) are held once with
// nothing to configure. The last user to go frees the memory.
//
// Results of WeightCache::least_bytes and more are kept over a restart, if an archive is given,
// unless they are a tensor as it is. Once a result is made, its sources' pages are released.
//
// Nothing that is held is memory of a checkpoint's file: what is written to the file shows in no
// weight. A file that changed since it was opened gives no result any more, new or held.
//
// Thread-safe. Threads that ask for one result at a time make it once; if making it fails, each of
// them gets that error, and who asks later tries again. The store must outlive what it gave out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/archives.h"
#include "core/weights/weight_set.h"

namespace latentd::weights {

// A result that the store holds. Copies share it, and the last one to go frees it; a Buffer copied
// out of it must not outlive it.
using WeightRef = std::shared_ptr<const device::Buffer>;

// Runs a recipe on its sources, in the order of the graph's weights: the reference backend's
// evaluator, handed in because weights/ may not include backends/.
using Evaluator = std::function<absl::StatusOr<device::Buffer>(
    const graph::Graph& recipe, absl::Span<const device::Buffer> sources)>;

// The most bytes that the evaluator holds at a time for a recipe, its result among them; 0: the
// result is a source as it came.
using EvaluationBytes = std::function<size_t(const graph::Graph& recipe)>;

// Turns a plain result into a backend's own form; the plain one is dropped afterwards.
using Packer = std::function<absl::StatusOr<device::Buffer>(const device::Buffer& plain)>;

// How a result is wanted.
struct WeightFormat {
  std::string form;  // names all that the packed bytes depend on beside the plain; "": plain
  Packer packer;     // null for ""
  size_t bytes = 0;  // of what it makes; of no meaning for ""
  size_t scratch_bytes = 0;  // that the packer takes and frees, beside the plain and the packed
};

// What Get would hold, and what it takes for a moment beside that.
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
  int users = 0;        // references that somebody has
  // Who they got it for: the first part of the weights' names ("unet"), the sets' names ("base").
  std::vector<std::string> components, sets;
  const void* data = nullptr;  // where it lies
};

class WeightStore {
 public:
  // Without `evaluation_bytes` a recipe is taken to need its result alone.
  explicit WeightStore(Evaluator evaluator, WeightCache archive = {},
                       EvaluationBytes evaluation_bytes = {})
      : evaluator_(std::move(evaluator)),
        archive_(std::move(archive)),
        evaluation_bytes_(std::move(evaluation_bytes)) {}
  WeightStore(const WeightStore&) = delete;

  // The result of `recipe` over `set`: from memory, from the archive (mapped, without a copy), or
  // made. NOT_FOUND names a tensor that the set lacks, INVALID_ARGUMENT one of another dtype or
  // shape than the recipe's weight, INTERNAL a packer that makes other than packing.bytes;
  // RESOURCE_EXHAUSTED: no memory for it; FAILED_PRECONDITION, reason CHECKPOINT_CHANGED, a file
  // that was edited. The packer must give the same bytes for the same form and plain result.
  absl::StatusOr<WeightRef> Get(const graph::Graph& recipe, const WeightSet& set,
                                const WeightFormat& packing = {});

  // Of Get with the same, without making anything; what the archive has is taken to be made. Errors
  // as Get's.
  absl::StatusOr<ResultNeeds> NeedsOf(const graph::Graph& recipe, const WeightSet& set,
                                      const WeightFormat& packing = {}) const;

  // Bytes of all results that are held now, mapped ones too; of the mapped ones; and how many there
  // are.
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
  absl::StatusOr<NewResult> Make(const graph::Graph& recipe,
                                 const std::vector<StoredTensor>& sources,
                                 const WeightFormat& packing, const std::string& name) const;
  absl::StatusOr<device::Buffer> MakePlain(const graph::Graph& recipe,
                                           const std::vector<StoredTensor>& sources) const;
  std::optional<device::Buffer> FindKept(const graph::Node& plain, const WeightFormat& packing,
                                         const std::string& name) const;
  void Finish(const Digest& key, const EntryPointer& entry, absl::StatusOr<NewResult> made);
  void Leave(const Digest& key, const EntryPointer& entry, const User& user);

  const Evaluator evaluator_;
  const WeightCache archive_;
  const EvaluationBytes evaluation_bytes_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, EntryPointer> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
