#include "core/backends/cuda/copy_batches.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/kernels/common/loop_nest.h"

namespace latentd::backends::cuda {
namespace {

using kernels::CopyLinesArgs;
using Part = CopyLinesArgs::Part;

constexpr int64_t kWordBytes = 16;

// As few dimensions as there can be; tensor 0 is the result.
kernels::LoopNest<2> NestOf(const Instruction& copy) {
  kernels::LoopNest<2> nest{.rank = copy.result.shape.rank()};
  for (int d = 0; d < nest.rank; ++d) {
    nest.sizes[d] = copy.result.shape[d];
    nest.strides[0][d] = copy.result.strides[d];
    nest.strides[1][d] = copy.operands[0].strides[d];
  }
  return Simplified(nest);
}

// The copy without its addresses; nothing if it does not copy lines of whole words.
std::optional<Part> LinesOf(const Program& program, const Instruction& copy) {
  const kernels::LoopNest<2> nest = NestOf(copy);
  const int last = nest.rank - 1;
  const int64_t lines = last == 0 ? 1 : nest.sizes[0], elements = nest.sizes[last];
  const int64_t to = last == 0 ? elements : nest.strides[0][0];
  const int64_t from = last == 0 ? elements : nest.strides[1][0];
  const int64_t in_word = kWordBytes / device::SizeOf(copy.result.dtype);
  const bool dense = last <= 1 && nest.strides[0][last] == 1 && nest.strides[1][last] == 1;
  if (!dense || elements == 0 || elements % in_word != 0) return std::nullopt;
  if (AlignmentOf(program, copy.result, {to}) % kWordBytes != 0 ||
      AlignmentOf(program, copy.operands[0], {from}) % kWordBytes != 0 ||
      lines * elements > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return Part{.x_pitch = from / in_word,
              .result_pitch = to / in_word,
              .lines = static_cast<int32_t>(lines),
              .words = static_cast<int32_t>(elements / in_word)};
}

bool IsBatchable(const Program& program, const Instruction& instruction) {
  return instruction.kernel == Kernel::kCopy &&
         program.storages[instruction.operands[0].storage].place == Place::kArena &&
         program.storages[instruction.result.storage].place == Place::kOutput &&
         LinesOf(program, instruction).has_value();
}

BoundKernel::Enqueue EnqueueOf(const Program& program, const CopyBatch& batch) {
  CopyLinesArgs args;
  args.count = batch.size;
  std::vector<std::pair<View, View>> ends;
  for (int i = 0; i < batch.size; ++i) {
    const Instruction& copy = program.instructions[batch.first + i];
    args.parts[i] = *LinesOf(program, copy);
    ends.emplace_back(copy.operands[0], copy.result);
  }
  return [args, ends = std::move(ends)](const Frame& frame) {
    CopyLinesArgs placed = args;
    for (size_t i = 0; i < ends.size(); ++i) {
      placed.parts[i].x = BytesOf(ends[i].first, frame);
      placed.parts[i].result = BytesOf(ends[i].second, frame);
    }
    return Launched(kernels::CopyLines(placed, frame.stream), graph::Op::kConcat);
  };
}

}  // namespace

std::vector<CopyBatch> CopyBatchesOf(const Program& program) {
  std::vector<CopyBatch> batches;
  const auto count = static_cast<int>(program.instructions.size());
  for (int first = 0; first < count;) {
    int size = 0;
    while (size < CopyLinesArgs::kMost && first + size < count &&
           IsBatchable(program, program.instructions[first + size])) {
      ++size;
    }
    if (size > 1) batches.push_back({first, size});
    first += std::max(size, 1);
  }
  return batches;
}

void BatchCopies(BoundProgram& bound) {
  for (const CopyBatch& batch : CopyBatchesOf(bound.program)) {
    bound.kernels[batch.first] = EnqueueOf(bound.program, batch);
    for (int i = 1; i < batch.size; ++i) {
      bound.kernels[batch.first + i] = [](const Frame&) { return absl::OkStatus(); };
    }
  }
}

}  // namespace latentd::backends::cuda
