// How many OpenMP threads the work of one call runs on.
#pragma once

#include <omp.h>

namespace latentd::backends::cpu {

// Sets the calling thread's number and restores it. oneDNN sizes a primitive's scratch by the
// number at its making and trusts it to be the same at its run, which may be on another thread or
// after a library in between has set its own.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : previous_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
    omp_set_dynamic(0);  // OMP_DYNAMIC would let OpenMP take fewer
  }
  ~ThreadCount() { omp_set_num_threads(previous_); }
  ThreadCount(const ThreadCount&) = delete;

 private:
  const int previous_;
};

}  // namespace latentd::backends::cpu
