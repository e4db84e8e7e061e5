// Brings stored tensors to a device for results that are made of them again and again: those of a
// model that sets of LoRAs change, and those of the LoRAs, whose files go there whole, in one copy.
// What is brought is kept as far as KeptTensors allows, and checked against its digest once.
//
// Thread-safe.
#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/buffer.h"
#include "core/weights/idle_streams.h"
#include "core/weights/kept_tensors.h"
#include "core/weights/stored_tensor.h"
#include "core/weights/weight_maker.h"

namespace latentd::weights {

class DeviceTensors {
 public:
  // Both must outlive it.
  DeviceTensors(WeightMaker& maker, IdleStreams& streams) : maker_(maker), streams_(streams) {}
  DeviceTensors(const DeviceTensors&) = delete;

  KeptTensors& kept() { return kept_; }
  const KeptTensors& kept() const { return kept_; }

  // The tensor's content on the device, for one that further results are made of too (a base's, or
  // a part of others); nullopt: it is read from the host, since there is no room for it, or its
  // file was edited.
  std::optional<device::ConstBuffer> Bring(const StoredTensor& tensor)
      ABSL_LOCKS_EXCLUDED(bringing_);

 private:
  // Uploads the unit, and keeps it if it is what its digest says.
  absl::StatusOr<device::ConstBuffer> Upload(const StoredTensor& unit);
  absl::Status Copy(const device::ConstBuffer& from, const device::Buffer& to);
  absl::Status CopyPart(const device::ConstBuffer& from, const device::Buffer& to);

  WeightMaker& maker_;
  IdleStreams& streams_;
  KeptTensors kept_;
  absl::Mutex bringing_;  // one thread, with helpers, brings a unit of many tensors
};

}  // namespace latentd::weights
