// A maker of weights on the host whose work is a test's functions.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/device/host_device.h"
#include "core/weights/weight_maker.h"

namespace latentd::weights {

class FunctionMaker : public WeightMaker {
 public:
  // A function that evaluates a recipe of more than one tensor as it is.
  using Evaluator = std::function<absl::StatusOr<device::ConstBuffer>(
      const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources)>;
  using Packer =
      std::function<absl::StatusOr<device::ConstBuffer>(const device::ConstBuffer& plain)>;

  explicit FunctionMaker(Evaluator evaluator, device::HostDevice& device = device::Host())
      : evaluator_(std::move(evaluator)), device_(device) {}

  device::Device& device() const override { return device_; }
  std::string WeightFingerprint() const override { return "functions"; }
  absl::StatusOr<size_t> MakingBytes(const graph::Graph&, absl::Span<const device::ConstBuffer>,
                                     const WeightFormat& format) const override {
    ++predictions;
    return format.scratch_bytes;
  }

  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override {
    std::vector<device::ConstBuffer> readable;
    for (const device::ConstBuffer& source : sources) {
      (source.place() == device::Place::kDevice ? device_bytes : host_bytes) += source.bytes();
      readable.push_back(device_.Readable(source));
    }
    static_cast<device::HostStream&>(stream).Push([this, &recipe, sources = std::move(readable),
                                                   form = std::string(form), to]() -> absl::Status {
      ASSIGN_OR_RETURN(const device::ConstBuffer made, Made(recipe, sources, form));
      if (made.bytes() != to.bytes()) return absl::InternalError("another size");
      std::memcpy(device_.AddressOf(to), made.data(), made.bytes());
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }

  std::map<std::string, Packer> packers;  // by form
  std::function<void()> once;             // run before the next weight is made; may be empty
  std::atomic<int> evaluations = 0;
  std::atomic<size_t> host_bytes = 0, device_bytes = 0;  // bytes of sources, by where they were
  mutable std::atomic<int> predictions = 0;              // calls of MakingBytes

 private:
  absl::StatusOr<device::ConstBuffer> Made(const graph::Graph& recipe,
                                           absl::Span<const device::ConstBuffer> sources,
                                           const std::string& form) {
    if (once) std::exchange(once, nullptr)();
    device::ConstBuffer made = sources[0];
    if (recipe.size() > 1) {
      ++evaluations;
      ASSIGN_OR_RETURN(made, evaluator_(recipe, sources));
    }
    return form.empty() ? made : packers.at(form)(made);
  }

  const Evaluator evaluator_;
  device::HostDevice& device_;
};

}  // namespace latentd::weights
