// Copies that follow each other and write to the caller, made by one launch: what a UNet reads of a
// prompt is 140 slices of a few products, each too small for a launch of its own.
//
// Internal to this directory. Free functions; thread-safe.
#pragma once

#include <vector>

#include "core/backends/cuda/bound_program.h"
#include "core/backends/cuda/kernels/movement/copy_lines.h"

namespace latentd::backends::cuda {

// Instructions first .. first + size - 1 of a program.
struct CopyBatch {
  int first = 0, size = 0;
};

// Batches of at least two and at most CopyLinesArgs::kMost copies, which are lines of whole words.
// None depends on another: they read intermediates, and write what no instruction of a batch reads.
std::vector<CopyBatch> CopyBatchesOf(const Program& program);

// Gives the first instruction of each batch the work of all, and the others none.
void BatchCopies(BoundProgram& bound);

}  // namespace latentd::backends::cuda
