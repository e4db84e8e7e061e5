#include "core/backends/cuda/libraries/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace latentd::backends::cuda {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle != nullptr) return SharedLibrary(name, handle);
  return absl::FailedPreconditionError(
      absl::StrCat("the CUDA backend needs ", name, ": ", dlerror(),
                   "; install it, or add its folder to LD_LIBRARY_PATH"));
}

void* SharedLibrary::Symbol(const char* name) const { return dlsym(handle_, name); }

absl::Status SharedLibrary::Missing(const char* name) const {
  return absl::FailedPreconditionError(
      absl::StrCat(name_, " has no ", name, ": it is of another version than this build's"));
}

}  // namespace latentd::backends::cuda
