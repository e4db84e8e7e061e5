#include "core/weights/weight_store.h"

#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/graph/text.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// The text of the recipe with its weights called by number, so that it does not depend on where
// they came from.
std::string AnonymousText(const Graph& recipe) {
  std::vector<Node> nodes(recipe.nodes().begin(), recipe.nodes().end());
  int count = 0;
  for (Node& node : nodes) {
    if (node.op == Op::kWeight) node.name = absl::StrCat("w", count++);
  }
  return graph::ToText(Graph(std::move(nodes), {{"result", recipe.outputs()[0].value}}));
}

// The set's tensors for the recipe's weights, in order.
absl::StatusOr<std::vector<StoredTensor>> FindSources(const Graph& recipe, const WeightSet& set) {
  std::vector<StoredTensor> sources;
  for (const ValueId id : recipe.Select(Op::kWeight)) {
    const Node& weight = recipe.node(id);
    absl::StatusOr<StoredTensor> tensor = set.Find(weight.name);
    RETURN_IF_ERROR(CheckTensor(weight, tensor));
    tensor->data = tensor->data.Reshaped(weight.shape);
    sources.push_back(*std::move(tensor));
  }
  return sources;
}

Digest KeyOf(const Graph& recipe, const std::vector<StoredTensor>& sources,
             absl::string_view form) {
  std::string name = absl::StrCat(form, "\n", AnonymousText(recipe));
  for (const StoredTensor& source : sources) {
    absl::StrAppend(&name, "\n", source.digest->Get().ToString());
  }
  return DigestOf(name);
}

bool IsBareWeight(const Graph& recipe) {
  return recipe.node(recipe.outputs()[0].value).op == Op::kWeight;
}

absl::StatusOr<Buffer> MakePlain(const Graph& recipe, const std::vector<StoredTensor>& sources,
                                 const Evaluator& evaluator) {
  std::vector<Buffer> buffers;
  buffers.reserve(sources.size());
  for (const StoredTensor& source : sources) buffers.push_back(Aligned(source.data));
  if (IsBareWeight(recipe) && buffers.size() == 1) return buffers[0];
  return evaluator(recipe, buffers);
}

absl::StatusOr<Buffer> MakePacked(const Graph& recipe, const std::vector<StoredTensor>& sources,
                                  const Evaluator& evaluator, const Packer& packer) {
  ASSIGN_OR_RETURN(const Buffer plain, MakePlain(recipe, sources, evaluator));
  if (packer == nullptr) return plain;
  return packer(plain);
}

// An exception must not leave an entry that others wait for for ever.
absl::StatusOr<Buffer> Make(const Graph& recipe, const std::vector<StoredTensor>& sources,
                            const Evaluator& evaluator, const Packer& packer) {
  try {
    return MakePacked(recipe, sources, evaluator, packer);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for ", sources.empty() ? "a constant" : sources[0].file, " made ready to run"));
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("cannot make a weight ready: ", exception.what()));
  }
}

}  // namespace

// One result: being made, then held, then gone with its last user. An entry that is gone or failed
// is no longer in the map; who waited for it looks again.
struct WeightStore::Entry {
  bool making = true;
  absl::Status failure;
  std::weak_ptr<const Buffer> held;
};

absl::StatusOr<Held> WeightStore::Get(const Graph& recipe, const WeightSet& set,
                                      absl::string_view form, const Packer& packer) {
  ASSIGN_OR_RETURN(const std::vector<StoredTensor> sources, FindSources(recipe, set));
  const Digest key = KeyOf(recipe, sources, form);
  EntryPointer entry;
  ASSIGN_OR_RETURN(Held held, FindOrBegin(key, &entry));
  if (held != nullptr) return held;
  return Finish(key, entry, Make(recipe, sources, evaluator_, packer));
}

absl::StatusOr<std::string> WeightStore::Key(const Graph& recipe, const WeightSet& set,
                                             absl::string_view form) {
  ASSIGN_OR_RETURN(const std::vector<StoredTensor> sources, FindSources(recipe, set));
  return KeyOf(recipe, sources, form).ToString();
}

absl::StatusOr<Held> WeightStore::FindOrBegin(const Digest& key, EntryPointer* entry) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    EntryPointer& found = entries_[key];
    if (found == nullptr) {
      found = *entry = std::make_shared<Entry>();
      return Held();
    }
    // A copy, since the map may change while this thread waits.
    const EntryPointer waited = found;
    mutex_.Await(absl::Condition(
        +[](Entry* entry) { return !entry->making; }, waited.get()));
    if (!waited->failure.ok()) return waited->failure;
    if (Held held = waited->held.lock()) return held;
    // Its last user went before Release took the lock.
    if (const auto gone = entries_.find(key); gone != entries_.end() && gone->second == waited) {
      entries_.erase(gone);
    }
  }
}

absl::StatusOr<Held> WeightStore::Finish(const Digest& key, const EntryPointer& entry,
                                         absl::StatusOr<Buffer> made) {
  if (!made.ok()) {
    absl::MutexLock lock(&mutex_);
    entry->making = false;
    entry->failure = made.status();
    entries_.erase(key);
    return made.status();
  }
  const size_t bytes = made->bytes();
  Held held(new Buffer(*std::move(made)), [this, key, entry, bytes](const Buffer* buffer) {
    delete buffer;
    Release(key, entry, bytes);
  });
  absl::MutexLock lock(&mutex_);
  entry->making = false;
  entry->held = held;
  bytes_held_ += bytes;
  ++results_held_;
  return held;
}

void WeightStore::Release(const Digest& key, const EntryPointer& entry, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_held_ -= bytes;
  --results_held_;
  entry->held.reset();  // else entry and control block would keep each other
  // Another thread may have begun a new entry since.
  if (const auto found = entries_.find(key); found != entries_.end() && found->second == entry) {
    entries_.erase(found);
  }
}

size_t WeightStore::bytes_held() const {
  absl::MutexLock lock(&mutex_);
  return bytes_held_;
}

size_t WeightStore::entries() const {
  absl::MutexLock lock(&mutex_);
  return results_held_;
}

}  // namespace latentd::weights
