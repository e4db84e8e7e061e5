#include "core/weights/device_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/device/dtype.h"
#include "core/graph/graph.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::ConstBuffer;

// Units of many tensors are uploaded in parts of that size, each by a thread.
constexpr int64_t kPartBytes = int64_t{8} << 20;

// Part `i` of a buffer of one dimension; all of another one.
template <typename AnyBuffer>
AnyBuffer PartOf(const AnyBuffer& buffer, int i) {
  if (buffer.shape().rank() != 1) return buffer;
  const int64_t step = kPartBytes / device::SizeOf(buffer.dtype());
  return buffer.Rows(i * step, std::min(buffer.elements(), (i + 1) * step));
}

int PartsOf(const ConstBuffer& buffer) {
  if (buffer.shape().rank() != 1) return 1;
  const int64_t step = kPartBytes / device::SizeOf(buffer.dtype());
  return static_cast<int>((buffer.elements() + step - 1) / step);
}

// The tensor as it is.
graph::Graph Plain(const ConstBuffer& tensor) {
  return graph::Graph(
      {{.op = graph::Op::kWeight, .dtype = tensor.dtype(), .shape = tensor.shape(), .name = "w0"}},
      {graph::Output{"result", 0}});
}

}  // namespace

std::optional<ConstBuffer> DeviceTensors::Bring(const StoredTensor& tensor) {
  if (std::optional<ConstBuffer> found = kept_.Find(tensor)) return found;
  const bool is_part = tensor.part_of != nullptr;
  if (!is_part && !tensor.of_base) return std::nullopt;
  std::optional<absl::MutexLock> alone;
  if (is_part) {
    alone.emplace(&bringing_);
    if (std::optional<ConstBuffer> found = kept_.Find(tensor)) return found;
  }
  const StoredTensor& unit = UnitOf(tensor);
  if (!kept_.MakeRoomFor(tensor)) return std::nullopt;
  const absl::StatusOr<ConstBuffer> copy = Upload(unit);
  if (absl::IsResourceExhausted(copy.status())) kept_.StopGrowing();
  if (!copy.ok()) return std::nullopt;
  return InUnit(tensor, *copy);
}

absl::StatusOr<ConstBuffer> DeviceTensors::Upload(const StoredTensor& unit) {
  const ConstBuffer& data = unit.data;
  // Not packed: what is dropped is free then, and not a hole between weights that stay.
  ASSIGN_OR_RETURN(const Buffer copy,
                   maker_.device().Allocate(data.dtype(), data.shape(), device::Place::kDevice));
  RETURN_IF_ERROR(Copy(data, copy));
  RETURN_IF_ERROR(CheckContent(unit, data));
  ReleasePages(unit);
  kept_.Add(unit, copy);
  return copy;
}

absl::Status DeviceTensors::Copy(const ConstBuffer& from, const Buffer& to) {
  std::vector<absl::Status> outcomes(static_cast<size_t>(PartsOf(from)));
  SplitWorkOn(std::min(UsableCpus(), kMostReaders), PartsOf(from), [&](int i) {
    outcomes[static_cast<size_t>(i)] = CopyPart(PartOf(from, i), PartOf(to, i));
  });
  for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
}

absl::Status DeviceTensors::CopyPart(const ConstBuffer& from, const Buffer& to) {
  const graph::Graph plain = Plain(from);
  ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> stream, streams_.Take());
  RETURN_IF_ERROR(maker_.MakeWeight(plain, {from}, /*form=*/"", to, *stream));
  return streams_.Finish(std::move(stream));
}

}  // namespace latentd::weights
