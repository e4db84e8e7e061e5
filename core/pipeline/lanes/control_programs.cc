#include "core/pipeline/lanes/control_programs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/pipeline/graphs/control_graph.h"
#include "core/pipeline/lanes/pinned.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;

// Inputs that every net reads alike.
constexpr const char* kSharedInputs[] = {"latents", "input_scale", "timestep"};

bool IsShared(const std::string& name) {
  return IsResidual(name) || std::find(std::begin(kSharedInputs), std::end(kSharedInputs), name) !=
                                 std::end(kSharedInputs);
}

Buffer ZerosLike(const Buffer& memory, const Buffer& zeros) {
  return Buffer::Wrap(zeros.data(), memory.dtype(), memory.shape(),
                      std::make_shared<const Buffer>(zeros), zeros.place());
}

}  // namespace

// diffusers computes logspace(-1, 0, residuals), and its product with the scale, in float32.
std::vector<float> ScalesOf(const ControlRun& run, int rows, int64_t residuals) {
  std::vector<float> scales;
  for (int row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < residuals; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(residuals - 1) - 1;
      const auto share = run.guesses ? static_cast<float>(std::pow(10.0, exponent)) : 1.0F;
      const bool is_negative = rows > 1 && row == 0;
      scales.push_back(run.guesses && is_negative ? 0 : run.scale * share);
    }
  }
  return scales;
}

absl::StatusOr<std::vector<Buffer>> ControlPrograms::Run(absl::Span<const ControlRun> runs,
                                                         const ControlInputs& inputs,
                                                         device::Stream& stream) {
  const int64_t before = bytes_;
  const absl::StatusOr<Program*> found = ProgramFor(runs.front(), inputs.rows);
  if (!found.ok()) {
    bytes_ = before;
    return found.status();
  }
  Program* program = *found;
  RETURN_IF_ERROR(CopyShared(inputs, *program, stream));
  for (const ControlRun& run : runs) {
    ASSIGN_OR_RETURN(backends::BoundGraph * graph, GraphFor(run, *program));
    RETURN_IF_ERROR(CopyOwn(run, inputs.rows, *graph, stream));
    RETURN_IF_ERROR(graph->Enqueue(stream));
  }
  return program->residuals;
}

// All nets of a model have residuals of the same shapes.
absl::StatusOr<ControlPrograms::Program*> ControlPrograms::ProgramFor(const ControlRun& run,
                                                                      int rows) {
  const auto found = programs_.find(rows);
  if (found != programs_.end()) return &found->second;
  Program program;
  int64_t largest = 0;
  for (const backends::Port& port : run.executable->inputs()) {
    if (!IsShared(port.name)) continue;
    ASSIGN_OR_RETURN(program.shared[port.name], Allocate(port.dtype, port.shape));
    if (IsResidual(port.name)) {
      largest = std::max(largest, static_cast<int64_t>(program.shared[port.name].bytes()));
    }
  }
  for (size_t i = 0; program.shared.contains(ResidualName(i)); ++i) {
    program.residuals.push_back(program.shared.at(ResidualName(i)));
  }
  if (!zeros_.has_memory() || static_cast<int64_t>(zeros_.bytes()) < largest) {
    ASSIGN_OR_RETURN(Buffer larger, Allocate(DType::kU8, {largest}));
    if (zeros_.has_memory()) bytes_ -= static_cast<int64_t>(zeros_.bytes());
    zeros_ = std::move(larger);
  }
  return &programs_.emplace(rows, std::move(program)).first->second;
}

absl::StatusOr<backends::BoundGraph*> ControlPrograms::GraphFor(const ControlRun& run,
                                                                Program& program) {
  const auto found = program.graphs.find(run.executable);
  if (found != program.graphs.end()) return found->second.graph.get();
  const int64_t before = bytes_;
  absl::StatusOr<backends::BoundGraph> bound = Bind(run, program);
  if (!bound.ok()) {
    bytes_ = before;
    return bound.status();
  }
  auto graph = std::make_shared<backends::BoundGraph>(*std::move(bound));
  program.graphs[run.executable] = {graph, bytes_ - before};
  return graph.get();
}

absl::StatusOr<backends::BoundGraph> ControlPrograms::Bind(const ControlRun& run,
                                                           const Program& program) {
  backends::NamedBuffers ports = program.shared;
  for (const backends::Port& port : run.executable->inputs()) {
    if (IsShared(port.name)) continue;
    ASSIGN_OR_RETURN(ports[port.name], Allocate(port.dtype, port.shape));
  }
  return backends::BoundGraph::Create(run.executable, ports);
}

std::vector<std::shared_ptr<const void>> ControlPrograms::TakeAllBut(
    const std::set<const backends::Executable*>& used) {
  std::vector<std::shared_ptr<const void>> taken;
  for (auto& [rows, program] : programs_) {
    std::erase_if(program.graphs, [&](auto& entry) {
      if (used.contains(entry.first.get())) return false;
      bytes_ -= entry.second.bytes;
      taken.push_back(std::move(entry.second.graph));
      return true;
    });
  }
  return taken;
}

absl::Status ControlPrograms::CopyShared(const ControlInputs& inputs, const Program& program,
                                         device::Stream& stream) {
  const Buffer& latents = program.shared.at("latents");
  for (int row = 0; row < inputs.rows; ++row) {
    RETURN_IF_ERROR(device_.Copy(inputs.latents, latents.Rows(row, row + 1), stream));
  }
  RETURN_IF_ERROR(Fill(program.shared.at("input_scale"), inputs.input_scale, stream));
  RETURN_IF_ERROR(Fill(program.shared.at("timestep"), inputs.timestep, stream));
  for (const Buffer& residual : program.residuals) RETURN_IF_ERROR(Clear(residual, stream));
  return absl::OkStatus();
}

absl::Status ControlPrograms::CopyOwn(const ControlRun& run, int rows,
                                      const backends::BoundGraph& graph, device::Stream& stream) {
  for (const backends::Port& port : run.executable->inputs()) {
    if (IsShared(port.name)) continue;
    const Buffer to = graph.input(port.name);
    if (port.name == "scales") {
      RETURN_IF_ERROR(Write(ScalesOf(run, rows, to.shape()[1]), to, stream));
      continue;
    }
    const backends::NamedBuffers& source_of =
        run.image->contains(port.name) ? *run.image : *run.request;
    if (!source_of.contains(port.name)) {
      return absl::InternalError("a control network reads what no prompt gives: " + port.name);
    }
    const Buffer& from = source_of.at(port.name);
    // The last rows, so that without guidance the prompt's is read; of the image the only one. A
    // run that guesses reads the prompt's for all: what it says to the negative prompt counts
    // nothing, and must be finite for that.
    const int before = static_cast<int>(from.shape()[0]) - rows;
    for (int row = 0; row < rows; ++row) {
      const int source = std::max(before + (run.guesses ? rows - 1 : row), 0);
      RETURN_IF_ERROR(device_.Copy(from.Rows(source, source + 1), to.Rows(row, row + 1), stream));
    }
  }
  return absl::OkStatus();
}

absl::Status ControlPrograms::Clear(const Buffer& memory, device::Stream& stream) {
  return device_.Copy(ZerosLike(memory, zeros_), memory, stream);
}

absl::Status ControlPrograms::Write(const std::vector<float>& values, const Buffer& memory,
                                    device::Stream& stream) {
  ASSIGN_OR_RETURN(const Buffer from,
                   Pinned(device_, DType::kF32, memory.shape(), absl::MakeConstSpan(values)));
  return device_.Copy(from, memory, stream);
}

absl::Status ControlPrograms::Fill(const Buffer& memory, float value, device::Stream& stream) {
  return Write(std::vector<float>(static_cast<size_t>(memory.elements()), value), memory, stream);
}

absl::StatusOr<Buffer> ControlPrograms::Allocate(DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(Buffer memory, device_.Allocate(dtype, shape, Place::kDevice));
  bytes_ += static_cast<int64_t>(memory.bytes());
  return memory;
}

}  // namespace latentd::pipeline
