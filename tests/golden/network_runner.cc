#include "tests/golden/network_runner.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/compile.h"
#include "tests/support/run_executable.h"

namespace latentd::golden {
namespace {

using device::Buffer;

absl::StatusOr<NamedBuffers> RunOnce(const std::shared_ptr<backends::Executable>& executable,
                                     const NamedBuffers& inputs) {
  std::vector<device::ConstBuffer> given;
  for (const backends::Port& port : executable->inputs()) {
    auto found = inputs.find(port.name);
    if (found == inputs.end())
      return absl::InvalidArgumentError(absl::StrCat("input ", port.name, " is not given"));
    given.push_back(found->second);
  }
  ASSIGN_OR_RETURN(const std::vector<Buffer> made, testing::RunOnDevice(*executable, given));
  NamedBuffers outputs;
  for (size_t i = 0; i < made.size(); ++i) outputs[executable->outputs()[i].name] = made[i];
  return outputs;
}

// Runs the request part for each row, and packs what it gives.
absl::StatusOr<NamedBuffers> RunRequestRows(const graph::Graph& request, const LoadedRun& run,
                                            const NamedBuffers& inputs) {
  const std::vector<graph::ValueId> ids = request.Select(graph::Op::kInput);
  for (const graph::ValueId id : ids) {
    const std::string& name = request.node(id).name;
    if (!inputs.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", name, " is not given"));
    }
  }
  const int64_t rows = inputs.at(request.node(ids.front()).name).shape()[0];
  std::map<std::string, Buffer> packed;
  for (const graph::Output& output : request.outputs()) {
    const graph::Node& of_one_row = request.node(output.value);
    packed[output.name] = Buffer::Allocate(of_one_row.dtype, {rows, of_one_row.shape[1]});
  }
  for (int64_t row = 0; row < rows; ++row) {
    NamedBuffers of_row;
    for (const graph::ValueId id : ids) {
      const std::string& name = request.node(id).name;
      of_row[name] = inputs.at(name).Rows(row, row + 1);
    }
    ASSIGN_OR_RETURN(const NamedBuffers made, run(of_row));
    for (const auto& [name, values] : made) {
      std::memcpy(packed.at(name).Rows(row, row + 1).data(), values.data(), values.bytes());
    }
  }
  return NamedBuffers(packed.begin(), packed.end());
}

}  // namespace

NetworkRunner::NetworkRunner(backends::Backend& backend, compiler::CompileOptions options)
    : store_(backend),
      weights_(std::make_shared<weights::WeightSet>(&store_)),
      graphs_(backend, SystemClock(), registry_, /*disk=*/nullptr,
              {.compile = std::move(options)}) {}

NetworkRunner::NetworkRunner(backends::Backend& backend, const std::string& component,
                             const weights::TensorMap& tensors, compiler::CompileOptions options)
    : NetworkRunner(backend, std::move(options)) {
  weights_->Add(component, tensors);
}

NetworkRunner::NetworkRunner(backends::Backend& backend,
                             const std::map<std::string, weights::SourceMap>& components,
                             compiler::CompileOptions options)
    : NetworkRunner(backend, std::move(options)) {
  for (const auto& [component, sources] : components) weights_->Add(component, sources);
}

absl::StatusOr<LoadedRun> NetworkRunner::Load(const graph::Graph& graph,
                                              const graph::Precision& precision) {
  RETURN_IF_ERROR(weights_->Check(graph));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, compiler::SplitInPrecision(graph, precision));
  ASSIGN_OR_RETURN(LoadedRun step, LoadPart(std::move(split.step)));
  if (!split.request) return step;
  ASSIGN_OR_RETURN(LoadedRun request, LoadPart(*split.request));
  return [request_graph = *std::move(split.request), request = std::move(request),
          step = std::move(step)](const NamedBuffers& inputs) -> absl::StatusOr<NamedBuffers> {
    ASSIGN_OR_RETURN(const NamedBuffers packed, RunRequestRows(request_graph, request, inputs));
    NamedBuffers of_step = inputs;
    of_step.insert(packed.begin(), packed.end());
    return step(of_step);
  };
}

absl::StatusOr<NamedBuffers> NetworkRunner::Run(const graph::Graph& graph,
                                                const graph::Precision& precision,
                                                const NamedBuffers& inputs) {
  ASSIGN_OR_RETURN(const LoadedRun run, Load(graph, precision));
  return run(inputs);
}

absl::StatusOr<LoadedRun> NetworkRunner::LoadPart(graph::Graph part) {
  const auto declared = graphs_.Declare(
      {.graph = std::make_shared<const graph::Graph>(std::move(part)), .weights = weights_});
  ASSIGN_OR_RETURN(const auto executable, graphs_.Get(declared));
  return [declared, executable](const NamedBuffers& inputs) { return RunOnce(executable, inputs); };
}

}  // namespace latentd::golden
