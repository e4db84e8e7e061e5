#include "core/backends/cpu/recipe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/binding/bound_program.h"
#include "core/backends/cpu/products/packing.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
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
  BoundProgram bound;
  graph::MemoryPlan memory;
};

absl::StatusOr<BoundRecipe> BindRecipe(const Graph& recipe, const Machine& machine) {
  BoundRecipe result = {graph::OfInputs(recipe), {}, {}};
  const auto choose = [&](const Program& program) { return ChooseAlgorithms(program, machine); };
  ASSIGN_OR_RETURN(result.bound, Bind(result.graph, {}, choose, machine));
  ASSIGN_OR_RETURN(result.memory, graph::PlanMemory(result.bound.values.values));
  return result;
}

absl::Status Run(const BoundRecipe& recipe, absl::Span<const ConstBuffer> sources, char* to,
                 char* arena) {
  std::vector<char*> inputs;
  for (const ConstBuffer& source : sources) {
    inputs.push_back(static_cast<char*>(const_cast<void*>(source.data())));
  }
  const lowering::Addresses at = WithPorts(AddressesIn(arena, recipe.bound, recipe.memory),
                                           recipe.bound.program, inputs, {to});
  for (size_t i = 0; i < recipe.bound.kernels.size(); ++i) {
    RETURN_IF_ERROR(recipe.bound.kernels[i](at.FrameOf(i)));
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
  ASSIGN_OR_RETURN(const BoundRecipe bound, BindRecipe(recipe, machine));
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
  ASSIGN_OR_RETURN(const BoundRecipe bound, BindRecipe(recipe, machine));
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
