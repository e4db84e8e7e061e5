// The second program of a lane's steps: control networks (core/pipeline/graphs/control_graph.h), of
// which each evaluation is of one picture's rows. Their memory is one piece for each number of
// rows, which the pictures of the lane use in turn, on one stream: sums of residuals stay in it
// until they are copied into the picture's rows.
//
// So a picture's residuals are the same bytes whatever steps beside it, and rows of pictures that
// want none cost nothing.
//
// One thread at a time, but for bytes().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/backends/bound_graph.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/pipeline/graphs/model_graphs.h"

namespace latentd::pipeline {

// An evaluation of one net.
struct ControlRun {
  ExecutablePointer executable;  // a kControl of as many rows as the picture has now
  const backends::NamedBuffers* request = nullptr;  // [rows or more, n]: the last rows are read
  const backends::NamedBuffers* image = nullptr;    // the hint's graph's outputs, [1, ...]
  float scale = 0;                                  // factor of all residuals
  bool guesses = false;  // diffusers' guess_mode: scaled as ScalesOf says
};

// Factors of so many residuals of each row, row by row; of two rows the first is the negative
// prompt's. Those of a run that guesses are none for the negative prompt, and grow in equal ratios
// from a tenth of the scale to all of it (diffusers' ControlNetModel).
std::vector<float> ScalesOf(const ControlRun& run, int rows, int64_t residuals);

// Values that all nets of an evaluation read.
struct ControlInputs {
  int rows = 1;
  device::Buffer latents;  // [1, C, h, w] on the device
  float input_scale = 1, timestep = 0;
};

class ControlPrograms {
 public:
  explicit ControlPrograms(device::Device& device) : device_(device) {}

  // Enqueues the runs, one at least, and gives the sums of what they say, [rows, ...] each: to be
  // copied by the stream before the next. Errors as Device::Allocate's and Executable::Bind's.
  absl::StatusOr<std::vector<device::Buffer>> Run(absl::Span<const ControlRun> runs,
                                                  const ControlInputs& inputs,
                                                  device::Stream& stream);

  // Takes out the graphs of nets whose executables are not among these, which would keep their
  // weights from leaving. The caller keeps them until the stream has come so far.
  std::vector<std::shared_ptr<const void>> TakeAllBut(
      const std::set<const backends::Executable*>& used);

  int64_t bytes() const { return bytes_; }  // bytes that it holds

 private:
  struct NetGraph {
    std::shared_ptr<backends::BoundGraph> graph;
    int64_t bytes = 0;  // bytes of its own inputs
  };
  // For one number of rows.
  struct Program {
    backends::NamedBuffers shared;  // inputs of all nets, and residuals
    std::vector<device::Buffer> residuals;
    // By executable; each has its own hint, scales and request values.
    std::map<ExecutablePointer, NetGraph> graphs;
  };

  absl::StatusOr<Program*> ProgramFor(const ControlRun& run, int rows);
  absl::StatusOr<backends::BoundGraph*> GraphFor(const ControlRun& run, Program& program);
  absl::StatusOr<backends::BoundGraph> Bind(const ControlRun& run, const Program& program);
  absl::Status CopyShared(const ControlInputs& inputs, const Program& program,
                          device::Stream& stream);
  absl::Status CopyOwn(const ControlRun& run, int rows, const backends::BoundGraph& graph,
                       device::Stream& stream);
  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, const device::Shape& shape);
  absl::Status Clear(const device::Buffer& memory, device::Stream& stream);
  // As many numbers as it has elements.
  absl::Status Write(const std::vector<float>& values, const device::Buffer& memory,
                     device::Stream& stream);
  // The same number to all elements.
  absl::Status Fill(const device::Buffer& memory, float value, device::Stream& stream);

  device::Device& device_;
  std::map<int, Program> programs_;  // by rows
  device::Buffer zeros_;             // as large as the largest residual of all rows
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace latentd::pipeline
