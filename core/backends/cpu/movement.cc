#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/loop_nest.h"

namespace latentd::backends::cpu {
namespace {

absl::Status Embed(const View& table, const View& ids, const View& y, const Frame& f) {
  const int64_t entries = table.shape[0];
  const int64_t bytes = table.shape[1] * device::SizeOf(table.dtype);
  const auto* id = AddressOf<const int64_t>(ids, f);
  char* to = BytesOf(y, f);
  for (int64_t i = 0; i < ids.shape.elements(); ++i, to += bytes) {
    if (id[i] < 0 || id[i] >= entries) {
      return absl::InvalidArgumentError(
          absl::StrCat("embedding: id ", id[i], " is not in a table of ", entries));
    }
    std::memcpy(to, BytesOf(table, f) + id[i] * bytes, bytes);
  }
  return absl::OkStatus();
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
    return Embed(table, ids, y, f);
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
