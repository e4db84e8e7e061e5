// A library to preload into a latentd (LD_PRELOAD): makes a GPU fault under it, once the file
// exists that GPU_FAULT_FILE names. A kernel of its own writes to an unmapped address, in the
// context that latentd uses, which then fails whatever it is asked for. fault.py needs it.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr char kKernel[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry fault() {
  .reg .b64 %address;
  mov.u64 %address, 16;
  st.global.u64 [%address], %address;
  ret;
}
)";

// The driver's own, by the names that its library exports; all give 0 if nothing is wrong.
using Driver = void*;
template <typename... Arguments>
bool Call(Driver driver, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
  const int error = function == nullptr ? -1 : function(arguments...);
  if (error != 0) std::fprintf(stderr, "gpu_fault: %s: %d\n", name, error);
  return error == 0;
}

// True if the kernel was launched.
bool Fault() {
  const Driver driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  void *context = nullptr, *module = nullptr, *kernel = nullptr, *const none = nullptr;
  constexpr int kDevice = 0;
  const auto one = 1U, zero = 0U;
  return Call(driver, "cuInit", zero) &&
         Call(driver, "cuDevicePrimaryCtxRetain", &context, kDevice) &&
         Call(driver, "cuCtxSetCurrent", context) &&
         Call(driver, "cuModuleLoadData", &module, static_cast<const void*>(kKernel)) &&
         Call(driver, "cuModuleGetFunction", &kernel, module, "fault") &&
         Call(driver, "cuLaunchKernel", kernel, one, one, one, one, one, one, zero, none, none,
              none);
}

void Wait(const char* file) {
  while (access(file, F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Fault();
}

// Before latentd's main blocks signals for all threads, so that this one must do so itself.
[[gnu::constructor]] void Start() {
  const char* file = std::getenv("GPU_FAULT_FILE");
  if (file == nullptr) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(Wait, file).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
