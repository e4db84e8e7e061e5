// An executable on the host whose runs are a test's function, which may read and write the ports'
// memory.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/backends/executable.h"
#include "core/backends/ports.h"
#include "core/device/host_device.h"

namespace latentd::testing {

class FunctionExecutable : public backends::Executable {
 public:
  using Run = std::function<absl::Status(absl::Span<const device::ConstBuffer> inputs,
                                         absl::Span<const device::Buffer> outputs)>;

  FunctionExecutable(backends::ExecutableInfo info, Run run)
      : info_(std::move(info)), run_(std::move(run)) {}

  const backends::ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device::Host(); }

  absl::StatusOr<std::unique_ptr<backends::Session>> Bind(
      absl::Span<const device::ConstBuffer> inputs,
      absl::Span<const device::Buffer> outputs) override {
    if (auto fits = backends::CheckBuffers(info_, device(), inputs, outputs); !fits.ok())
      return fits;
    return std::make_unique<FunctionSession>(run_, inputs, outputs);
  }

 private:
  class FunctionSession : public backends::Session {
   public:
    FunctionSession(Run run, absl::Span<const device::ConstBuffer> inputs,
                    absl::Span<const device::Buffer> outputs)
        : run_(std::move(run)) {
      for (const device::ConstBuffer& input : inputs) {
        inputs_.push_back(device::ConstBuffer::Wrap(input.data(), input.dtype(), input.shape(),
                                                    std::make_shared<device::ConstBuffer>(input)));
      }
      for (const device::Buffer& output : outputs) {
        outputs_.push_back(device::Buffer::Wrap(output.data(), output.dtype(), output.shape(),
                                                std::make_shared<device::Buffer>(output)));
      }
    }

    absl::Status Enqueue(device::Stream& stream) override {
      static_cast<device::HostStream&>(stream).Push([this] { return run_(inputs_, outputs_); });
      return absl::OkStatus();
    }

   private:
    const Run run_;
    std::vector<device::ConstBuffer> inputs_;
    std::vector<device::Buffer> outputs_;
  };

  const backends::ExecutableInfo info_;
  const Run run_;
};

}  // namespace latentd::testing
