#include "core/compiler/graph_store.h"

#include <iterator>
#include <utility>

#include "core/base/status_macros.h"
#include "core/compiler/compile.h"

namespace latentd::compiler {

using backends::Executable;

absl::StatusOr<std::shared_ptr<Executable>> GraphStore::GetOrLoad(
    const graph::Graph& graph, std::shared_ptr<const weights::WeightSet> weights) {
  const GraphKey key = KeyOf(graph, backend_, options_);
  const ExecutableKey executable_key{key.ToDigest(), weights.get()};
  if (auto found = FindOrBegin(executable_key)) return found;
  absl::StatusOr<std::shared_ptr<Executable>> made = Make(graph, key, *weights);
  std::list<Held> leaving;  // freed after the lock is: that takes as long as the weights are large
  absl::MutexLock lock(&mutex_);
  loading_.erase(executable_key);
  if (made.ok()) leaving = Hold({executable_key, *made, std::move(weights)});
  return made;
}

std::shared_ptr<Executable> GraphStore::FindOrBegin(const ExecutableKey& key) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !loading_.contains(key); };
  mutex_.Await(absl::Condition(&idle));
  const auto found = executables_.find(key);
  if (found == executables_.end()) {
    loading_.insert(key);
    return nullptr;
  }
  ++counts_.hits;
  held_.splice(held_.begin(), held_, found->second);
  return held_.front().executable;
}

absl::StatusOr<std::shared_ptr<Executable>> GraphStore::Make(const graph::Graph& graph,
                                                             const GraphKey& key,
                                                             const weights::WeightSet& weights) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const std::string> artifact, GetOrCompile(graph, key));
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, Load(*artifact, key, backend_, weights));
  absl::MutexLock lock(&mutex_);
  ++counts_.loads;
  counts_.load_time += clock_.Monotonic() - begin;
  return executable;
}

absl::StatusOr<std::shared_ptr<const std::string>> GraphStore::GetOrCompile(
    const graph::Graph& graph, const GraphKey& key) {
  const Digest digest = key.ToDigest();
  if (auto found = FindOrBeginArtifact(digest)) return found;
  const absl::Time begin = clock_.Monotonic();
  absl::StatusOr<std::string> compiled = Compile(graph, backend_, options_);
  absl::MutexLock lock(&mutex_);
  compiling_.erase(digest);
  if (!compiled.ok()) return compiled.status();
  ++counts_.compilations;
  counts_.compile_time += clock_.Monotonic() - begin;
  auto artifact = std::make_shared<const std::string>(*std::move(compiled));
  Keep({digest, artifact});
  return artifact;
}

std::shared_ptr<const std::string> GraphStore::FindOrBeginArtifact(const Digest& key) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [&]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !compiling_.contains(key); };
  mutex_.Await(absl::Condition(&idle));
  const auto found = artifacts_.find(key);
  if (found == artifacts_.end()) {
    compiling_.insert(key);
    return nullptr;
  }
  kept_.splice(kept_.begin(), kept_, found->second);
  return kept_.front().bytes;
}

std::list<GraphStore::Held> GraphStore::Hold(Held held) {
  held_.push_front(std::move(held));
  executables_[held_.front().key] = held_.begin();
  std::list<Held> leaving;
  while (held_.size() > limits_.executables) {
    executables_.erase(held_.back().key);
    leaving.splice(leaving.end(), held_, std::prev(held_.end()));
  }
  return leaving;
}

void GraphStore::Keep(Kept kept) {
  artifact_bytes_ += kept.bytes->size();
  kept_.push_front(std::move(kept));
  artifacts_[kept_.front().key] = kept_.begin();
  // The newest stays even if it is larger than the limit.
  while (artifact_bytes_ > limits_.artifact_bytes && kept_.size() > 1) {
    artifact_bytes_ -= kept_.back().bytes->size();
    artifacts_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

GraphStoreCounts GraphStore::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace latentd::compiler
