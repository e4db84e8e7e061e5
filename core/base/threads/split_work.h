// Runs one task's parts on several threads: its own, and idle workers, or threads that are made for
// it if the process gets some.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/base/threads/worker.h"

namespace latentd {

// Calls part(0) to part(count - 1), each once, on this thread and on those of `helpers` that come
// to it before all have begun; returns when all have returned. Throws std::bad_alloc then if one
// has. The helpers are without a bound, and outlive what is added to them: a task that does nothing
// may still wait in one when this has returned.
void SplitWork(absl::Span<Worker* const> helpers, int count, absl::FunctionRef<void(int)> part);

// The same on this thread and others that are made for it, `threads` in all, or fewer where there
// are fewer parts, or no more threads to be had.
void SplitWorkOn(int threads, int count, absl::FunctionRef<void(int)> part);

}  // namespace latentd
