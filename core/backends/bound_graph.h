// An executable with memory for its ports, on its device, and the session that runs it there.
//
// Buffers are found by port names. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/executable.h"
#include "core/device/buffer.h"

namespace latentd::backends {

using NamedBuffers = absl::flat_hash_map<std::string, device::Buffer>;

class BoundGraph {
 public:
  // Ports that `given` names lie there, the others in zero-filled memory of the device that the
  // result owns. What is given for no port is ignored. Errors as Device::Allocate's and
  // Executable::Bind's.
  static absl::StatusOr<BoundGraph> Create(std::shared_ptr<Executable> executable,
                                           const NamedBuffers& given = {});

  BoundGraph(BoundGraph&&) = default;
  // By its members the executable would go before the session.
  BoundGraph& operator=(BoundGraph&&) = delete;

  device::Device& device() const { return executable_->device(); }
  const std::vector<device::Buffer>& inputs() const { return inputs_; }
  const std::vector<device::Buffer>& outputs() const { return outputs_; }

  // Without memory where there is no such port.
  device::Buffer input(absl::string_view name) const;
  device::Buffer output(absl::string_view name) const;

  Session& session() const { return *session_; }

  // As Session::Enqueue.
  absl::Status Enqueue(device::Stream& stream) { return session_->Enqueue(stream); }

 private:
  BoundGraph() = default;

  std::shared_ptr<Executable> executable_;
  std::vector<device::Buffer> inputs_, outputs_;  // in the order of the ports
  std::unique_ptr<Session> session_;
};

}  // namespace latentd::backends
