#include "tests/golden/network_runner.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
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

}  // namespace

NetworkRunner::NetworkRunner(backends::Backend& backend, const std::string& component,
                             const weights::TensorMap& tensors, const graph::Precision& precision,
                             compiler::CompileOptions options)
    : precision_(precision),
      store_(backend),
      weights_(std::make_shared<weights::WeightSet>(&store_)),
      graphs_(backend, SystemClock(), registry_, /*disk=*/nullptr,
              {.compile = std::move(options)}) {
  weights_->Add(component, tensors);
}

absl::StatusOr<NamedBuffers> NetworkRunner::Run(const graph::Graph& graph,
                                                const NamedBuffers& inputs) {
  RETURN_IF_ERROR(weights_->Check(graph));
  ASSIGN_OR_RETURN(const graph::SplitGraphs split, compiler::SplitInPrecision(graph, precision_));
  NamedBuffers of_step = inputs;
  if (split.request) {
    ASSIGN_OR_RETURN(const NamedBuffers packed, RunRequestRows(*split.request, inputs));
    of_step.insert(packed.begin(), packed.end());
  }
  return RunPart(split.step, of_step);
}

absl::StatusOr<NamedBuffers> NetworkRunner::RunPart(graph::Graph part, const NamedBuffers& inputs) {
  const auto declared = graphs_.Declare(
      {.graph = std::make_shared<const graph::Graph>(std::move(part)), .weights = weights_});
  ASSIGN_OR_RETURN(const auto executable, graphs_.Get(declared));
  return RunOnce(executable, inputs);
}

absl::StatusOr<NamedBuffers> NetworkRunner::RunRequestRows(const graph::Graph& request,
                                                           const NamedBuffers& inputs) {
  const graph::ValueId first_input = request.Select(graph::Op::kInput).front();
  const int64_t rows = inputs.at(request.node(first_input).name).shape()[0];
  std::map<std::string, Buffer> packed;
  for (const graph::Output& output : request.outputs()) {
    const graph::Node& of_one_row = request.node(output.value);
    packed[output.name] = Buffer::Allocate(of_one_row.dtype, {rows, of_one_row.shape[1]});
  }
  for (int64_t row = 0; row < rows; ++row) {
    NamedBuffers of_row;
    for (graph::ValueId id : request.Select(graph::Op::kInput)) {
      const std::string& name = request.node(id).name;
      of_row[name] = inputs.at(name).Rows(row, row + 1);
    }
    ASSIGN_OR_RETURN(const NamedBuffers made, RunPart(request, of_row));
    for (const auto& [name, values] : made) {
      std::memcpy(packed.at(name).Rows(row, row + 1).data(), values.data(), values.bytes());
    }
  }
  return NamedBuffers(packed.begin(), packed.end());
}

}  // namespace latentd::golden
