// Tells ThreadSanitizer what libgomp does, as abseil.cc does for Abseil: libgomp is not built with
// the sanitizer, so without this a parallel region's threads look unordered with what comes before
// and after it. Only what our own code compiles to is here.

#include <dlfcn.h>

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace {

// One run of a parallel region: what each of its threads calls.
struct Region {
  void (*body)(void*);
  void* data;
};

thread_local Region* current = nullptr;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void RunBody(void* argument) {
  auto* const region = static_cast<Region*>(argument);
  Region* const outer = current;
  current = region;
  __tsan_acquire(region);
  region->body(region->data);
  __tsan_release(region);
  current = outer;
}

// Runs a function of libgomp at which the threads of a region wait for one another.
void Meet(void (*barrier)()) {
  if (current != nullptr) __tsan_release(current);
  barrier();
  if (current != nullptr) __tsan_acquire(current);
}

}  // namespace

extern "C" {

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  static auto* const next = Next<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  Region region = {body, data};
  __tsan_release(&region);
  next(RunBody, &region, threads, flags);
  __tsan_acquire(&region);
}

void GOMP_barrier() {
  static auto* const next = Next<void()>("GOMP_barrier");
  Meet(next);
}

void GOMP_loop_end() {
  static auto* const next = Next<void()>("GOMP_loop_end");
  Meet(next);
}

void GOMP_critical_name_start(void** name) {
  static auto* const next = Next<void(void**)>("GOMP_critical_name_start");
  next(name);
  __tsan_acquire(name);
}

void GOMP_critical_name_end(void** name) {
  static auto* const next = Next<void(void**)>("GOMP_critical_name_end");
  __tsan_release(name);
  next(name);
}

}  // extern "C"
