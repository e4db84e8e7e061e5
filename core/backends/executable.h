// An Executable is an artifact bound to one weight set on one device, ready to run.
//
// Thread-safe. Runs of executables that share an arena wait for each other, so that a thread that
// prepares a graph may run it once while another one serves.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"

namespace latentd::backends {

// Name, dtype and shape of an input or output, in the graph's order.
struct Port {
  std::string name;
  device::DType dtype = device::DType::kF32;
  device::Shape shape;
};

class Executable {
 public:
  virtual ~Executable() = default;

  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<Port>& outputs() const = 0;

  // Reads `inputs`, writes `outputs`: buffers with memory, in the order of the ports, of their
  // dtypes and shapes (checked: INVALID_ARGUMENT). Outputs must not overlap inputs. Nothing
  // outlives the call: intermediates lie in the device's arena. RESOURCE_EXHAUSTED: no memory;
  // every other failure is one of the machine, not of the plan.
  virtual absl::Status Run(absl::Span<const device::Buffer> inputs,
                           absl::Span<device::Buffer> outputs) = 0;

  // Bytes of the arena that one run uses, and bytes held beside arena and weights.
  virtual size_t arena_bytes() const = 0;
  virtual size_t own_bytes() const = 0;
  // Where the results lie that it holds in the weight store, which others may hold too.
  virtual std::vector<const void*> weights() const = 0;
};

}  // namespace latentd::backends
