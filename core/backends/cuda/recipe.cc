#include "core/backends/cuda/recipe.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/bound_program.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"
#include "core/graph/recipes.h"
#include "core/graph/text.h"

namespace latentd::backends::cuda {
namespace {

using device::ConstBuffer;
using device::cuda::ToStatus;
using graph::Graph;
using graph::Node;

// Memory that work on a stream uses: taken when the work before is done and given back after what
// was enqueued.
class StreamMemory {
 public:
  StreamMemory(device::cuda::CudaDevice& device, cudaStream_t stream)
      : device_(device), stream_(stream) {}
  ~StreamMemory() {
    for (void* memory : taken_) cudaFreeAsync(memory, stream_);
  }
  StreamMemory(const StreamMemory&) = delete;

  absl::StatusOr<char*> Take(size_t bytes) {
    if (bytes == 0) return nullptr;
    void* memory = nullptr;
    cudaError_t error = cudaMallocAsync(&memory, bytes, stream_);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // or the next launch would be told of it
      device_.Trim();
      error = cudaMallocAsync(&memory, bytes, stream_);
    }
    RETURN_IF_ERROR(ToStatus(error, "memory for a weight"));
    taken_.push_back(memory);
    return static_cast<char*>(memory);
  }

  // Memory of the host is read before this returns.
  absl::StatusOr<char*> Upload(const void* from, size_t bytes) {
    ASSIGN_OR_RETURN(char* const to, Take(bytes));
    RETURN_IF_ERROR(device_.Upload(from, to, bytes, stream_));
    return to;
  }

  // The address of the source on the GPU: its own, or that of a copy. Nothing is written there.
  absl::StatusOr<char*> OnGpu(const ConstBuffer& source) {
    if (source.place() == device::Place::kDevice) {
      return static_cast<char*>(const_cast<void*>(source.data()));
    }
    return Upload(source.data(), source.bytes());
  }

 private:
  device::cuda::CudaDevice& device_;
  const cudaStream_t stream_;
  std::vector<void*> taken_;
};

}  // namespace

struct BoundRecipe {
  Graph graph;  // whose constants the program points to
  BoundProgram bound;
  Literals literals;
  graph::MemoryPlan memory;
};

namespace {

// Without TF32: weights that are made are the same for all readers.
absl::StatusOr<BoundRecipes::Pointer> BindRecipe(const Graph& recipe, Gpu gpu) {
  gpu.tf32 = false;
  auto result = std::make_shared<BoundRecipe>(BoundRecipe{graph::OfInputs(recipe), {}, {}, {}});
  Choices choices;
  ASSIGN_OR_RETURN(result->bound,
                   Bind(result->graph, {}, Chooser::Choosing(gpu.findings, choices), gpu));
  result->literals = PlaceLiterals(result->bound.program);
  ASSIGN_OR_RETURN(result->memory, graph::PlanMemory(result->bound.values.values));
  return result;
}

absl::Status Run(const BoundRecipe& recipe, absl::Span<char* const> sources, char* to,
                 StreamMemory& memory, cudaStream_t stream) {
  std::string host(recipe.literals.bytes, '\0');
  WriteLiterals(recipe.bound.program, recipe.literals, host.data());
  char* literals = nullptr;
  if (!host.empty()) {
    ASSIGN_OR_RETURN(literals, memory.Upload(host.data(), host.size()));
  }
  ASSIGN_OR_RETURN(char* const arena, memory.Take(recipe.memory.arena_bytes));
  lowering::Addresses at = WithPorts(lowering::AddressesIn(arena, recipe.bound, recipe.memory),
                                     recipe.bound.program, sources, {to});
  AddLiterals(literals, recipe.literals, at);
  for (size_t i = 0; i < recipe.bound.kernels.size(); ++i) {
    RETURN_IF_ERROR(recipe.bound.kernels[i]({at.FrameOf(i), stream}));
  }
  return absl::OkStatus();
}

absl::Status Evaluate(const Graph& recipe, absl::Span<const ConstBuffer> sources, char* to,
                      StreamMemory& memory, const Gpu& gpu, BoundRecipes& recipes,
                      cudaStream_t stream) {
  ASSIGN_OR_RETURN(const BoundRecipes::Pointer bound, recipes.FindOrBind(recipe, gpu));
  std::vector<char*> on_gpu;
  for (const ConstBuffer& source : sources) {
    ASSIGN_OR_RETURN(on_gpu.emplace_back(), memory.OnGpu(source));
  }
  return Run(*bound, on_gpu, to, memory, stream);
}

absl::StatusOr<char*> MakePlain(const Graph& recipe, absl::Span<const ConstBuffer> sources,
                                StreamMemory& memory, const Gpu& gpu, BoundRecipes& recipes,
                                cudaStream_t stream) {
  if (graph::IsStored(recipe)) return memory.OnGpu(sources[0]);
  ASSIGN_OR_RETURN(char* const plain, memory.Take(graph::ResultBytes(recipe)));
  RETURN_IF_ERROR(Evaluate(recipe, sources, plain, memory, gpu, recipes, stream));
  return plain;
}

absl::Status CopyStored(const ConstBuffer& from, char* to, const Gpu& gpu, cudaStream_t stream) {
  if (from.place() != device::Place::kDevice) {
    return gpu.device.Upload(from.data(), to, from.bytes(), stream);
  }
  return ToStatus(cudaMemcpyAsync(to, from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream),
                  "copying");
}

absl::Status CheckSize(absl::string_view form, const Node& result, size_t bytes) {
  size_t wanted = static_cast<size_t>(result.shape.elements() * device::SizeOf(result.dtype));
  if (!form.empty()) {
    ASSIGN_OR_RETURN(wanted, PackedBytes(form, result.dtype, result.shape));
  }
  if (wanted == bytes) return absl::OkStatus();
  return absl::InternalError("memory of another size than the weight's form");
}

}  // namespace

absl::StatusOr<BoundRecipes::Pointer> BoundRecipes::FindOrBind(const Graph& recipe,
                                                               const Gpu& gpu) {
  const Digest key = graph::GraphDigest(recipe);
  {
    absl::MutexLock lock(&mutex_);
    const auto found = kept_.find(key);
    if (found != kept_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(Pointer bound, BindRecipe(recipe, gpu));
  absl::MutexLock lock(&mutex_);
  if (kept_.size() >= kMost) kept_.clear();
  return kept_[key] = std::move(bound);
}

size_t BoundRecipes::size() const {
  absl::MutexLock lock(&mutex_);
  return kept_.size();
}

absl::StatusOr<size_t> MakingBytes(const Graph& recipe, const weights::WeightFormat& format,
                                   const Gpu& gpu, BoundRecipes& recipes) {
  const size_t plain = format.form.empty() ? 0 : graph::ResultBytes(recipe);
  if (graph::IsStored(recipe)) return plain;
  size_t sources = 0;
  for (const Node& node : recipe.nodes()) {
    if (node.op != graph::Op::kWeight) continue;
    sources += static_cast<size_t>(node.shape.elements() * device::SizeOf(node.dtype));
  }
  ASSIGN_OR_RETURN(const BoundRecipes::Pointer bound, recipes.FindOrBind(recipe, gpu));
  return plain + sources + bound->literals.bytes + bound->memory.arena_bytes;
}

absl::Status MakeWeight(const Graph& recipe, absl::Span<const ConstBuffer> sources,
                        absl::string_view form, const device::Buffer& to, const Gpu& gpu,
                        BoundRecipes& recipes, cudaStream_t stream) {
  const Node& result = graph::ResultOf(recipe);
  RETURN_IF_ERROR(CheckSize(form, result, to.bytes()));
  StreamMemory memory(gpu.device, stream);
  char* const made = static_cast<char*>(to.data());
  if (!form.empty()) {
    ASSIGN_OR_RETURN(const char* const plain,
                     MakePlain(recipe, sources, memory, gpu, recipes, stream));
    return Pack(form, result.dtype, result.shape, plain, made, stream);
  }
  if (!graph::IsStored(recipe)) {
    return Evaluate(recipe, sources, made, memory, gpu, recipes, stream);
  }
  return CopyStored(sources[0], made, gpu, stream);
}

}  // namespace latentd::backends::cuda
