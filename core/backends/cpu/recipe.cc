#include "core/backends/cpu/recipe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/backends/cpu/algorithms.h"
#include "core/backends/cpu/code_memory.h"
#include "core/backends/cpu/kernel_rules.h"
#include "core/backends/cpu/packing.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/lowering/lifetimes.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/alignment.h"
#include "core/base/status_macros.h"
#include "core/graph/recipes.h"
#include "core/weights/stored_tensor.h"

namespace latentd::backends::cpu {
namespace {

using device::ConstBuffer;
using graph::Graph;
using graph::Node;

// A recipe as kernels that lack memory.
struct BoundRecipe {
  Graph graph;  // whose literals the program reads
  Program program;
  std::vector<BoundKernel> kernels;
  lowering::ArenaValues values;
  graph::MemoryPlan memory;
};

absl::StatusOr<BoundRecipe> Bind(const Graph& recipe, const Machine& machine) {
  BoundRecipe bound = {graph::OfInputs(recipe), {}, {}, {}, {}};
  bound.program = lowering::Lower(bound.graph, {}, CpuKernelRules(machine));
  for (const Instruction& instruction : bound.program.instructions) {
    RETURN_IF_ERROR(CheckCodeMemory());
    const Algorithm algorithm = ChooseAlgorithm(bound.program, instruction, machine);
    ASSIGN_OR_RETURN(bound.kernels.emplace_back(),
                     BindKernel(bound.program, instruction, algorithm, machine));
  }
  bound.values = ValuesInArena(bound.program, bound.kernels);
  ASSIGN_OR_RETURN(bound.memory, graph::PlanMemory(bound.values.values));
  return bound;
}

char* AddressOf(const Storage& storage, absl::Span<const ConstBuffer> sources, char* to) {
  switch (storage.place) {
    case Place::kInput:
      return static_cast<char*>(const_cast<void*>(sources[storage.index].data()));
    case Place::kLiteral:
      return reinterpret_cast<char*>(const_cast<float*>(storage.literal));
    default:
      return to;
  }
}

absl::Status Run(const BoundRecipe& bound, absl::Span<const ConstBuffer> sources, char* to,
                 char* arena) {
  const auto in_arena = [&](int value) { return arena + bound.memory.offsets[value]; };
  std::vector<char*> storages;
  for (const Storage& storage : bound.program.storages) {
    const int value = bound.values.of_storage[storages.size()];
    storages.push_back(value < 0 ? AddressOf(storage, sources, to) : in_arena(value));
  }
  for (size_t i = 0; i < bound.kernels.size(); ++i) {
    const int value = bound.values.of_workspace[i];
    char* workspace = value < 0 ? nullptr : in_arena(value);
    RETURN_IF_ERROR(bound.kernels[i].run({storages.data(), workspace, /*packed=*/nullptr}));
  }
  return absl::OkStatus();
}

// Memory that is written before it is read: filling it with zeros takes as long as a cast.
device::Buffer Scratch(device::DType dtype, const device::Shape& shape) {
  const auto bytes = static_cast<size_t>(shape.elements() * device::SizeOf(dtype));
  void* data = std::aligned_alloc(device::kAlignment, RoundUp(bytes + 1, device::kAlignment));
  if (data == nullptr) throw std::bad_alloc();
  return device::Buffer::Wrap(data, dtype, shape, std::shared_ptr<void>(data, std::free));
}

// The plain result. Its intermediates are in `spare` if they fit.
absl::Status Evaluate(const Graph& recipe, absl::Span<const ConstBuffer> sources, char* to,
                      absl::Span<char> spare, const Machine& machine) {
  ASSIGN_OR_RETURN(const BoundRecipe bound, Bind(recipe, machine));
  const bool fits = bound.memory.arena_bytes <= spare.size();
  const auto missing = static_cast<int64_t>(fits ? 0 : bound.memory.arena_bytes);
  const device::Buffer arena = Scratch(device::DType::kU8, {missing});
  return Run(bound, weights::Aligned(sources), to,
             fits ? spare.data() : static_cast<char*>(arena.data()));
}

absl::StatusOr<ConstBuffer> MakePlain(const Graph& recipe, absl::Span<const ConstBuffer> sources,
                                      absl::Span<char> spare, const Machine& machine) {
  if (graph::IsStored(recipe)) return weights::Aligned(sources[0]);
  const Node& result = graph::ResultOf(recipe);
  const device::Buffer plain = Scratch(result.dtype, result.shape);
  RETURN_IF_ERROR(Evaluate(recipe, sources, static_cast<char*>(plain.data()), spare, machine));
  return plain;
}

}  // namespace

absl::StatusOr<size_t> MakingBytes(const Graph& recipe, absl::Span<const ConstBuffer> sources,
                                   const weights::WeightFormat& format, const Machine& machine) {
  const size_t copies = weights::CopiedBytes(sources);
  if (graph::IsStored(recipe)) return format.form.empty() ? 0 : copies + format.scratch_bytes;
  ASSIGN_OR_RETURN(const BoundRecipe bound, Bind(recipe, machine));
  const size_t arena = bound.memory.arena_bytes;
  if (format.form.empty()) return copies + arena;
  const size_t evaluation = copies + (arena <= format.bytes ? 0 : arena);
  return graph::ResultBytes(recipe) + std::max(evaluation, format.scratch_bytes);
}

absl::Status MakeWeight(const Graph& recipe, absl::Span<const ConstBuffer> sources,
                        absl::string_view form, absl::Span<char> to, const Machine& machine) {
  if (form.empty() && to.size() != graph::ResultBytes(recipe)) {
    return absl::InternalError("memory of another size than the plain result");
  }
  if (!form.empty()) {
    ASSIGN_OR_RETURN(const ConstBuffer plain, MakePlain(recipe, sources, /*spare=*/to, machine));
    return Pack(form, plain, to, machine);
  }
  if (!graph::IsStored(recipe)) return Evaluate(recipe, sources, to.data(), /*spare=*/{}, machine);
  std::memcpy(to.data(), sources[0].data(), to.size());
  return absl::OkStatus();
}

}  // namespace latentd::backends::cpu
