// The algorithms that can compute an instruction, and the choice of one.
//
// By rules, and not by timing each shape where it is compiled: on two cores with AVX-512 the best
// algorithm for each instruction of the demo model (cpu_backend_bench --algorithms) would save
// 0.4 % of a decode, and of a step nothing that could be seen in whole steps; Winograd is ahead of
// oneDNN by 2 to 3 times with AVX2, and by 4 without. So a picture does not depend on a clock.
//
// By the size of one row: a row's values are the same bytes, however many others are computed
// beside it, and one packed weight serves all row counts.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "core/backends/cpu/binding/bound_kernel.h"

namespace latentd::backends::cpu {

// True if products of bf16 are computed as such, with sums in f32.
bool MultipliesInBf16(const Machine& machine);

// All of them, kDirect first.
std::vector<Algorithm> AlgorithmsFor(const Program& program, const Instruction& instruction);

// One of them, for one instruction and for each.
Algorithm ChooseAlgorithm(const Program& program, const Instruction& instruction,
                          const Machine& machine);
std::vector<Algorithm> ChooseAlgorithms(const Program& program, const Machine& machine);

}  // namespace latentd::backends::cpu
