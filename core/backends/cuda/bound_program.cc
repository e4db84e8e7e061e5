#include "core/backends/cuda/bound_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/copy_batches.h"
#include "core/backends/cuda/kernel_rules.h"
#include "core/backends/cuda/staged_graph.h"
#include "core/backends/lowering/lowering.h"
#include "core/backends/ports.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"

namespace latentd::backends::cuda {

namespace {

using BoundKernels = std::vector<absl::StatusOr<BoundKernel>>;

// A library takes its time to build a plan or to read one, and several threads as many at once.
// Small programs, such as weights', are bound by many threads already.
int BindingThreads(const Program& program) {
  constexpr size_t kSmall = 32;
  constexpr int kMost = 16;
  return program.instructions.size() < kSmall ? 1 : std::min(UsableCpus(), kMost);
}

BoundKernels BindKernels(const Program& program, const Chooser& chooser, const Gpu& gpu) {
  const auto count = static_cast<int>(program.instructions.size());
  BoundKernels kernels(count, absl::StatusOr<BoundKernel>(absl::UnknownError("")));
  SplitWorkOn(BindingThreads(program), count, [&](int i) {
    const absl::Status selected = gpu.device.Select();
    kernels[i] = selected.ok() ? BindKernel(program, program.instructions[i], chooser, gpu)
                               : absl::StatusOr<BoundKernel>(selected);
  });
  return kernels;
}

}  // namespace

absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  const Chooser& chooser, const Gpu& gpu) {
  BoundProgram bound;
  bound.recipes = std::move(recipes);
  bound.program = lowering::Lower(graph, bound.recipes, CudaKernelRules(IsHopper(gpu), gpu.tf32));
  for (absl::StatusOr<BoundKernel>& kernel : BindKernels(bound.program, chooser, gpu)) {
    RETURN_IF_ERROR(kernel.status());
    bound.kernels.push_back(std::move(kernel->enqueue));
    bound.needs.push_back(*std::move(kernel));
  }
  BatchCopies(bound);
  bound.values = lowering::ValuesInArena(bound.program, bound.needs);
  for (graph::LiveValue& value : bound.values.values) {
    value.bytes = RoundUp(value.bytes, kPlaceAlignment);
  }
  return bound;
}

Literals PlaceLiterals(const Program& program) {
  Literals literals;
  for (const Storage& storage : program.storages) {
    const bool is_literal = storage.place == Place::kLiteral;
    literals.offsets.push_back(is_literal ? static_cast<int64_t>(literals.bytes) : -1);
    if (is_literal)
      literals.bytes += RoundUp<size_t>(storage.elements * sizeof(float), kPlaceAlignment);
  }
  return literals;
}

void WriteLiterals(const Program& program, const Literals& literals, char* to) {
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (literals.offsets[i] < 0) continue;
    std::memcpy(to + literals.offsets[i], storage.literal, storage.elements * sizeof(float));
  }
}

void AddLiterals(char* at, const Literals& literals, lowering::Addresses& addresses) {
  for (size_t i = 0; i < literals.offsets.size(); ++i) {
    if (literals.offsets[i] >= 0) addresses.storages[i] = at + literals.offsets[i];
  }
}

absl::Status CheckPlaces(const graph::MemoryPlan& memory) {
  for (size_t offset : memory.offsets) {
    if (offset % kPlaceAlignment == 0) continue;
    return absl::InvalidArgumentError("a plan with a place that kernels cannot read");
  }
  return absl::OkStatus();
}

size_t OwnBytes(const graph::Graph& graph, const BoundProgram& bound) {
  constexpr size_t kNodeBytes = 8 << 10;
  return PlaceLiterals(bound.program).bytes + bound.kernels.size() * kNodeBytes +
         PlacePorts(InputPorts(graph), OutputPorts(graph)).bytes;
}

}  // namespace latentd::backends::cuda
