// Appends storages and instructions to a program, and around each instruction the copies and
// conversions that its kernel wants.
//
// Not thread-safe. Borrows the rules.
#pragma once

#include <map>
#include <tuple>

#include "core/backends/lowering/kernel_rules.h"
#include "core/backends/lowering/program.h"
#include "core/graph/graph.h"

namespace latentd::backends::lowering {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const KernelRules& rules) : rules_(rules) {}

  View Store(Place place, int index, graph::DType dtype, const graph::Shape& shape);
  View Intermediate(graph::DType dtype, const graph::Shape& shape) {
    return Store(Place::kArena, 0, dtype, shape);
  }
  // The values of a constant (f32), where the graph has them.
  View Literal(const graph::Node& constant);

  void Copy(const View& from, const View& to);
  // In an intermediate, without gaps.
  View Copied(const View& view);

  // True if `view` can be the instruction's next operand but for its dtype.
  bool HasStridesFor(const Instruction& instruction, const View& view) const;

  // Adds an operand, absent or one that HasStridesFor: in f32 if the kernel does not read it
  // otherwise.
  void AddOperand(Instruction& instruction, const View& view);

  // Appends the instruction with `to` for its result: what a kernel computes in f32 is rounded into
  // a value of another dtype.
  void Emit(Instruction instruction, const View& to);

  const Program& program() const { return program_; }
  Program Finish() && { return std::move(program_); }

 private:
  bool IsReadable(const Instruction& instruction, const View& view) const;
  View Widened(const View& view);
  View HeldInF32(const View& view);
  void Convert(const View& from, const View& to);

  const KernelRules& rules_;
  Program program_;
  // Copies in f32 of views of another dtype, by storage, offset and number of elements.
  std::map<std::tuple<int, int64_t, int64_t>, View> widened_;
};

}  // namespace latentd::backends::lowering
