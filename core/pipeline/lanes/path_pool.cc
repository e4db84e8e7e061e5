#include "core/pipeline/lanes/path_pool.h"

#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {

PathSlot::~PathSlot() {
  if (pool_ != nullptr) pool_->Free(number_);
}

absl::StatusOr<std::shared_ptr<PathPool>> PathPool::Create(device::Device& device,
                                                           const StepPaths& paths) {
  ASSIGN_OR_RETURN(device::Buffer memory,
                   device.Allocate(paths.at.dtype, {paths.slots, paths.layout().slot_elements},
                                   device::Place::kDevice));
  return std::shared_ptr<PathPool>(new PathPool(device, std::move(memory)));
}

int64_t PathPool::Choose(const std::string& key) const {
  int64_t chosen = -1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.key == key) return static_cast<int64_t>(i);
    if (entry.users > 0) continue;
    if (chosen < 0 || entry.last_use < entries_[chosen].last_use) chosen = static_cast<int64_t>(i);
  }
  return chosen;
}

absl::StatusOr<std::optional<PathSlot>> PathPool::Take(std::shared_ptr<const AdapterPaths> paths,
                                                       device::Stream& stream) {
  int64_t slot;
  bool has_it;
  {
    absl::MutexLock lock(&mutex_);
    slot = Choose(paths->key);
    if (slot < 0) return std::nullopt;
    Entry& entry = entries_[slot];
    has_it = entry.key == paths->key;
    // Others find it from here on: one thread takes slots, and the stream has it in order.
    entry.key = paths->key;
    entry.last_use = ++uses_;
    ++entry.users;
  }
  PathSlot taken(shared_from_this(), slot);
  if (has_it) return std::optional<PathSlot>(std::move(taken));
  const device::ConstBuffer& matrices = *paths->matrices;
  const device::ConstBuffer from = device::ConstBuffer::Wrap(
      matrices.data(), matrices.dtype(), matrices.shape(), paths, matrices.place());
  const absl::Status copied = device_.Copy(from, memory_.Rows(slot, slot + 1), stream);
  if (copied.ok()) return std::optional<PathSlot>(std::move(taken));
  absl::MutexLock lock(&mutex_);
  entries_[slot].key.clear();
  return copied;
}

void PathPool::Free(int64_t slot) {
  absl::MutexLock lock(&mutex_);
  --entries_[slot].users;
}

}  // namespace latentd::pipeline
