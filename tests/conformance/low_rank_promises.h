// Promises of low-rank paths beside their numbers, which the conformance suite compares: a row
// without one keeps its bytes, and a row's bytes are its own.
#pragma once

#include "core/backends/backend.h"

namespace latentd::testing {

// Each fails the test where the backend breaks it, in that dtype.

// A row of a slot that there is not, or without scales, is its base, NaN and all.
void ExpectRowsOfNoSlotAsTheyAre(backends::Backend& backend, device::DType dtype);
// A row has the bytes that it has alone, whatever rows and slots are beside it.
void ExpectRowsAsAlone(backends::Backend& backend, device::DType dtype);
// Zeros behind a path's ranks change no byte.
void ExpectZerosChangeNothing(backends::Backend& backend, device::DType dtype);

}  // namespace latentd::testing
