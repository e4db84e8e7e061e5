#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"

namespace latentd::backends::cpu {

absl::StatusOr<BoundKernel> BindAttention(const BinderArguments& a) {
  const auto& attention = std::get<graph::AttentionAttributes>(a.instruction.attributes);
  const View query = a.operand(0), key = a.operand(1), value = a.operand(2), y = a.result();
  AttentionArguments arguments = {};
  arguments.element = ElementOf(query.dtype);
  arguments.rows = query.shape[0];
  arguments.queries = query.shape[1];
  arguments.keys = key.shape[1];
  arguments.heads = attention.heads;
  arguments.size = query.shape[2] / attention.heads;
  arguments.query_row = query.strides[0];
  arguments.query_token = query.strides[1];
  arguments.key_row = key.strides[0];
  arguments.key_token = key.strides[1];
  arguments.value_row = value.strides[0];
  arguments.value_token = value.strides[1];
  arguments.scale = attention.scale;
  arguments.causal = attention.causal;
  arguments.threads = a.machine.threads;

  BoundKernel kernel;
  kernel.workspace_bytes = a.machine.kernels->attention_workspace(arguments);
  kernel.run = [=, run = a.machine.kernels->attention](const Frame& f) mutable {
    arguments.query = BytesOf(query, f);
    arguments.key = BytesOf(key, f);
    arguments.value = BytesOf(value, f);
    arguments.result = BytesOf(y, f);
    arguments.workspace = f.workspace;
    run(arguments);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
