#include "core/backends/lowering/program_builder.h"

#include <utility>

namespace latentd::backends::lowering {

using graph::DType;

View ProgramBuilder::Store(Place place, int index, DType dtype, const graph::Shape& shape) {
  program_.storages.push_back({place, index, dtype, shape.elements(), nullptr});
  return DenseView(static_cast<int>(program_.storages.size()) - 1, dtype, shape);
}

View ProgramBuilder::Literal(const graph::Node& constant) {
  const View view = Store(Place::kLiteral, 0, constant.dtype, constant.shape);
  program_.storages.back().literal =
      std::get<graph::ConstantAttributes>(constant.attributes).values.data();
  return view;
}

void ProgramBuilder::Copy(const View& from, const View& to) {
  Instruction copy;
  copy.kernel = Kernel::kCopy;
  copy.operands = {from};
  copy.result = to;
  program_.instructions.push_back(std::move(copy));
}

View ProgramBuilder::Copied(const View& view) {
  const View copy = Intermediate(view.dtype, view.shape);
  Copy(view, copy);
  return copy;
}

bool ProgramBuilder::HasStridesFor(const Instruction& instruction, const View& view) const {
  switch (StridesOf(instruction.kernel, instruction.operands.size())) {
    case Strides::kAny:
      return true;
    case Strides::kLastDense:
      return view.shape.rank() == 0 || view.shape[-1] == 1 || view.strides.back() == 1;
    case Strides::kLines:
      return AsLines(view).has_value();
    case Strides::kRowsDense:
      return view.rows_dense();
    case Strides::kDense:
      break;
  }
  return view.dense();
}

void ProgramBuilder::AddOperand(Instruction& instruction, const View& view) {
  const bool as_it_is = !view.present() || IsReadable(instruction, view);
  instruction.operands.push_back(as_it_is ? view : Widened(view));
}

bool ProgramBuilder::IsReadable(const Instruction& instruction, const View& view) const {
  const size_t operand = instruction.operands.size();
  const bool held = operand == 1 && HasWeight(instruction.kernel) && IsHeld(program_, view);
  return held || rules_.Reads(instruction.kernel, operand, view.dtype);
}

void ProgramBuilder::Emit(Instruction instruction, const View& to) {
  const bool same = HasOwnDType(instruction.kernel) || instruction.operands[0].dtype == to.dtype;
  instruction.result = same ? to : Intermediate(DType::kF32, to.shape);
  program_.instructions.push_back(std::move(instruction));
  if (!same) Convert(View(program_.instructions.back().result), to);
}

void ProgramBuilder::Convert(const View& from, const View& to) {
  Instruction cast;
  cast.kernel = Kernel::kCast;
  cast.op = graph::Op::kCast;
  cast.operands = {from};
  cast.result = to;
  program_.instructions.push_back(std::move(cast));
}

// A copy in f32, made once: of a recipe's whole result when it is loaded.
View ProgramBuilder::Widened(const View& view) {
  const View dense = view.dense() ? view : Copied(view);
  const auto [made, is_new] =
      widened_.try_emplace(std::tuple(dense.storage, dense.offset, dense.shape.elements()), View());
  if (is_new && IsHeld(program_, dense)) {
    made->second = HeldInF32(dense);
  } else if (is_new) {
    made->second = Intermediate(DType::kF32, dense.shape);
    Convert(dense, made->second);
  }
  return DenseView(made->second.storage, DType::kF32, dense.shape);
}

View ProgramBuilder::HeldInF32(const View& view) {
  Storage storage = program_.storages[view.storage];
  storage.dtype = DType::kF32;
  storage.widened = true;
  program_.storages.push_back(storage);
  return DenseView(static_cast<int>(program_.storages.size()) - 1, DType::kF32, view.shape);
}

}  // namespace latentd::backends::lowering
