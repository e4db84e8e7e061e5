// AdminDevices are the devices of an engine, as its administrations see them (GraphAdmin,
// ModelAdmin, AdapterAdmin): those that have failed while others have not are neither shown nor
// asked.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/api/memory_report.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/models/memory_use.h"
#include "core/engine/models/stores.h"
#include "core/engine/prepare/preparer.h"
#include "core/pipeline/spec/models/model_table.h"

namespace latentd::engine {

// Parts of a device that operators see. All must outlive the administration.
struct AdminDevice {
  BucketGraphs& buckets() const { return *models.buckets; }  // REQUIRES: `open`
  // CANCELLED or so once nothing is begun any more.
  absl::Status CheckNotStopping() const;

  Stores& stores;
  const Models& models;
  const MemoryUse& memory;
  Preparer& preparer;
  const std::atomic<bool>& open;  // checkpoints are loaded; until then it is UNAVAILABLE
  const std::atomic<bool>& stop;  // nothing is begun any more
  const std::atomic<bool>& retired;
  std::function<void()> changed;  // called when graphs came or went
};

class AdminDevices {
 public:
  // REQUIRES: there are some, and they are equal: a graph has the same id on each. `names` are
  // theirs, in messages.
  AdminDevices(std::vector<std::string> names, std::vector<AdminDevice> devices)
      : names_(std::move(names)), devices_(std::move(devices)) {}

  size_t size() const { return devices_.size(); }
  const AdminDevice& operator[](size_t device) const { return devices_[device]; }
  const std::vector<std::string>& names() const { return names_; }

  // Numbers of the devices that are not retired; the first of these.
  std::vector<size_t> Left() const;
  const AdminDevice& First() const { return devices_[Left().front()]; }

  // UNAVAILABLE, reason LOADING.
  absl::Status CheckOpen() const;
  // True: the device has not the model from the start on, and another one has
  // (ModelRow::is_placed).
  bool IsElsewhere(size_t device, pipeline::ModelId model) const;
  MemoryReport memory() const;

 private:
  const std::vector<std::string> names_;
  const std::vector<AdminDevice> devices_;
};

}  // namespace latentd::engine
