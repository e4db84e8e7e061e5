// One run of an executable, in memory of the host for backends that compute there, or of any
// device.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/backends/executable.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"

namespace latentd::testing {

// Enqueues the session's run and waits for it.
inline absl::Status RunSession(backends::Session& session, device::Device& device) {
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  RETURN_IF_ERROR(session.Enqueue(*stream));
  return stream->Synchronize();
}

using Inputs = std::vector<device::ConstBuffer>;  // in the order of the ports

// The outputs' memory; an output that updates an input begins as a copy of it.
inline std::vector<device::Buffer> OutputsOnHost(const backends::Executable& executable,
                                                 const Inputs& inputs) {
  std::vector<device::Buffer> outputs;
  for (const backends::Port& port : executable.outputs()) {
    const device::Buffer& output =
        outputs.emplace_back(device::Buffer::Allocate(port.dtype, port.shape));
    if (port.updates < 0) continue;
    const device::ConstBuffer& input = inputs[port.updates];
    std::memcpy(output.data(), input.data(), input.bytes());
  }
  return outputs;
}

// To these outputs, which are OutputsOnHost's. The caller keeps all memory.
inline absl::StatusOr<std::unique_ptr<backends::Session>> BindOnHost(
    backends::Executable& executable, const Inputs& inputs,
    const std::vector<device::Buffer>& outputs) {
  Inputs bound = inputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int updates = executable.outputs()[i].updates;
    if (updates >= 0) bound[updates] = outputs[i];
  }
  return executable.Bind(bound, outputs);
}

// The outputs; the inputs are left as they are.
inline absl::StatusOr<std::vector<device::Buffer>> RunExecutable(backends::Executable& executable,
                                                                 const Inputs& inputs) {
  const std::vector<device::Buffer> outputs = OutputsOnHost(executable, inputs);
  ASSIGN_OR_RETURN(const auto session, BindOnHost(executable, inputs, outputs));
  RETURN_IF_ERROR(RunSession(*session, executable.device()));
  return outputs;
}

// Inputs to `given`, a run, and the outputs back from `made`.
inline absl::StatusOr<std::vector<device::Buffer>> RunOnceOnDevice(
    backends::Session& session, device::Device& device, const Inputs& inputs,
    const std::vector<device::Buffer>& given, const std::vector<device::Buffer>& made) {
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(device.Copy(inputs[i], given[i], *stream));
  }
  RETURN_IF_ERROR(session.Enqueue(*stream));
  std::vector<device::Buffer> outputs;
  for (const device::Buffer& output : made) {
    outputs.push_back(device::Buffer::Allocate(output.dtype(), output.shape()));
    RETURN_IF_ERROR(device.Copy(output, outputs.back(), *stream));
  }
  RETURN_IF_ERROR(stream->Synchronize());
  return outputs;
}

// The same in memory of the executable's device, wherever that is. INTERNAL where several `runs` of
// the session are not the same bytes.
inline absl::StatusOr<std::vector<device::Buffer>> RunOnDevice(backends::Executable& executable,
                                                               const Inputs& inputs, int runs = 1) {
  device::Device& device = executable.device();
  std::vector<device::Buffer> given, made;
  for (const device::ConstBuffer& input : inputs) {
    ASSIGN_OR_RETURN(given.emplace_back(),
                     device.Allocate(input.dtype(), input.shape(), device::Place::kDevice));
  }
  for (const backends::Port& port : executable.outputs()) {
    if (port.updates >= 0) {
      made.push_back(given[port.updates]);
    } else {
      ASSIGN_OR_RETURN(made.emplace_back(),
                       device.Allocate(port.dtype, port.shape, device::Place::kDevice));
    }
  }
  ASSIGN_OR_RETURN(const auto session, executable.Bind(Inputs(given.begin(), given.end()), made));
  ASSIGN_OR_RETURN(const std::vector<device::Buffer> first,
                   RunOnceOnDevice(*session, device, inputs, given, made));
  for (int run = 2; run <= runs; ++run) {
    ASSIGN_OR_RETURN(const std::vector<device::Buffer> again,
                     RunOnceOnDevice(*session, device, inputs, given, made));
    for (size_t i = 0; i < first.size(); ++i) {
      if (std::memcmp(first[i].data(), again[i].data(), first[i].bytes()) == 0) continue;
      return absl::InternalError(absl::StrCat("run ", run, " of a session differs from its first"));
    }
  }
  return first;
}

}  // namespace latentd::testing
