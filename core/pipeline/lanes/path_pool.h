// Slots for the low-rank paths of a model's steps, in memory of its device that all lanes with
// paths read: an image's set of LoRAs is copied to a slot when the image joins a lane, unless some
// slot has it, and stays there while an image uses it. Of the others the slot that was used least
// recently takes the next set. What is in a slot does not change while it is used.
//
// A slot is written by the stream that steps run on, behind the steps that read what it had.
// Thread-safe, but for that: one thread at a time takes slots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/pipeline/graphs/adapter_paths.h"

namespace latentd::pipeline {

class PathPool;

// A slot that is used. Free for others when this is destroyed, by any thread.
class PathSlot {
 public:
  PathSlot(PathSlot&&) noexcept = default;
  PathSlot& operator=(PathSlot&&) = delete;
  ~PathSlot();

  int64_t number() const { return number_; }

 private:
  friend class PathPool;
  PathSlot(std::shared_ptr<PathPool> pool, int64_t number)
      : pool_(std::move(pool)), number_(number) {}

  std::shared_ptr<PathPool> pool_;
  int64_t number_;
};

class PathPool : public std::enable_shared_from_this<PathPool> {
 public:
  // Errors as Device::Allocate's.
  static absl::StatusOr<std::shared_ptr<PathPool>> Create(device::Device& device,
                                                          const StepPaths& paths);

  // The input "paths" of steps, [slots, n].
  const device::Buffer& memory() const { return memory_; }

  // A slot with these, once the stream has come so far; nullopt: all are used for others.
  absl::StatusOr<std::optional<PathSlot>> Take(std::shared_ptr<const AdapterPaths> paths,
                                               device::Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string key;  // key of its matrices; empty: it has none
    int users = 0;
    uint64_t last_use = 0;  // the larger, the later
  };

  PathPool(device::Device& device, device::Buffer memory)
      : device_(device), memory_(std::move(memory)), entries_(memory_.shape()[0]) {}

  friend class PathSlot;
  void Free(int64_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  // The slot with that key, or the one that takes it; -1: there is none.
  int64_t Choose(const std::string& key) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  device::Device& device_;
  const device::Buffer memory_;
  mutable absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::pipeline
