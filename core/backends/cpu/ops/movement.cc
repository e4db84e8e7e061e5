#include <algorithm>
#include <cstring>

#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/loop_nest.h"

namespace latentd::backends::cpu {
namespace {

// Offset of entry `index`, clamped, in a table of `entries` of `bytes` each.
int64_t EntryOffset(int64_t index, int64_t entries, int64_t bytes) {
  return std::clamp<int64_t>(index, 0, entries - 1) * bytes;
}

void Embed(const View& table, const View& ids, const View& y, const Frame& f) {
  const int64_t bytes = table.shape[1] * device::SizeOf(table.dtype);
  const auto* id = AddressOf<const int64_t>(ids, f);
  char* to = BytesOf(y, f);
  for (int64_t i = 0; i < ids.shape.elements(); ++i, to += bytes) {
    std::memcpy(to, BytesOf(table, f) + EntryOffset(id[i], table.shape[0], bytes), bytes);
  }
}

void Select(const View& table, const View& index, const View& y, const Frame& f) {
  const int64_t entries = table.shape[1];
  const int64_t bytes = table.shape[2] * device::SizeOf(table.dtype);
  const auto* entry = AddressOf<const int64_t>(index, f);
  for (int64_t row = 0; row < table.shape[0]; ++row) {
    std::memcpy(BytesOf(y, f) + row * bytes,
                BytesOf(table, f) + row * entries * bytes + EntryOffset(entry[row], entries, bytes),
                bytes);
  }
}

}  // namespace

absl::StatusOr<BoundKernel> BindCopy(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), loops = LoopsOver({&a.result(), &a.operand(0)}),
                run = a.machine.kernels->copy](const Frame& f) {
    run(loops, device::SizeOf(x.dtype), BytesOf(y, f), BytesOf(x, f));
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindUpsample(const BinderArguments& a) {
  const auto& upsample = std::get<graph::UpsampleAttributes>(a.instruction.attributes);
  const bool nhwc = upsample.layout == graph::Layout::kNhwc;
  const graph::Shape& shape = a.operand(0).shape;
  UpsampleArguments arguments = {};
  arguments.element_bytes = device::SizeOf(a.result().dtype);
  arguments.outer = nhwc ? shape[0] : shape[0] * shape[1];
  arguments.height = shape[nhwc ? 1 : 2];
  arguments.width = shape[nhwc ? 2 : 3];
  arguments.to_height = upsample.height;
  arguments.to_width = upsample.width;
  arguments.inner = nhwc ? shape[3] : 1;

  BoundKernel kernel;
  kernel.run = [=, x = a.operand(0), y = a.result(),
                run = a.machine.kernels->upsample_nearest](const Frame& f) mutable {
    arguments.x = BytesOf(x, f);
    arguments.y = BytesOf(y, f);
    run(arguments);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindEmbedding(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [table = a.operand(0), ids = a.operand(1), y = a.result()](const Frame& f) {
    Embed(table, ids, y, f);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindSelect(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [table = a.operand(0), index = a.operand(1), y = a.result()](const Frame& f) {
    Select(table, index, y, f);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
