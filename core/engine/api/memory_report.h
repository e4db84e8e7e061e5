// Memory of an engine, as latent.v1.Admin and the page show it to operators. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace latentd::engine {

struct MemoryPrediction {
  int64_t weights = 0, arena = 0, state = 0, executables = 0;
  int64_t total() const { return weights + arena + state + executables; }
};

struct ComponentMemory {
  std::string model;  // a UNet's model, since each has its own; else empty: see `users`
  std::string component;
  int64_t bytes = 0;               // results that this component uses
  int64_t shared_bytes = 0;        // the part of `bytes` that another component or model uses too
  std::vector<std::string> users;  // "base", "refiner"
};

// Memory of a device that has its own.
struct DeviceMemoryReport {
  std::string name;
  int64_t total_bytes = 0, free_bytes = 0;  // as its driver says
  int64_t held_bytes = 0;                   // counted by latentd there: by kind in MemoryReport
  int64_t idle_bytes = 0;                   // kept by latentd for reuse
  // Other memory in use: the driver's own (contexts, modules, libraries' handles), what latentd
  // rounds up, other processes'.
  int64_t other_bytes = 0;
};

// Weights, kept tensors, arena, state and executables lie on the device, all else on the host: one
// memory where the device has none of its own.
struct MemoryReport {
  std::vector<ComponentMemory> weights;
  int64_t weight_bytes = 0;  // held now, each result counted once
  int64_t mapped_bytes = 0;  // the part of it in pages of files, which the kernel can drop
  // Stored tensors that further sets of LoRAs are merged into; dropped before anything else is.
  int64_t kept_tensor_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;  // pictures in flight; what copies take on the host is in it
  int64_t executable_bytes = 0;

  int64_t result_bytes = 0;         // finished pictures that wait to be encoded or read
  int64_t artifact_bytes = 0;       // compiled graphs kept in memory, or until they are on disk
  int64_t definition_bytes = 0;     // graphs as they were declared, before they are compiled
  int64_t waiting_image_bytes = 0;  // init images and latents of requests
  // Memory pinned by the device's driver for copies, used or idle: of it are results, and state's
  // part on the host.
  int64_t pinned_bytes = 0;
  int64_t allocator_bytes = 0;  // taken by malloc from the system, in use or not
  int64_t allocator_free_bytes = 0;
  int64_t resident_bytes = 0;  // resident set of the process, by the kernel
  int64_t peak_resident_bytes = 0;
  int64_t host_available_bytes = 0;  // memory that the machine and the cgroup still give

  // Limit of what the device holds, and of all where it has no own memory. Else the host has no
  // budget: MemoryBudget::kReserve of it stay free.
  int64_t budget_bytes = 0;
  int64_t available_bytes = 0;              // memory that the device still gives
  MemoryPrediction predicted;               // the configured buckets' need
  std::vector<DeviceMemoryReport> devices;  // none: the device has no memory of its own

  int64_t on_device() const {
    return weight_bytes + kept_tensor_bytes + arena_bytes + state_bytes + executable_bytes;
  }
  int64_t on_host() const {
    return result_bytes + artifact_bytes + definition_bytes + waiting_image_bytes;
  }
};

}  // namespace latentd::engine
