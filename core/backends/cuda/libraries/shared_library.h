// A vendor's library that is loaded when it is needed, and stays.
//
// Values. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace latentd::backends::cuda {

class SharedLibrary {
 public:
  // FAILED_PRECONDITION, with what the loader says: it is not where LD_LIBRARY_PATH and the
  // system's loader look.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  void* handle() const { return handle_; }

  template <typename Function>
  absl::Status Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(Symbol(name));
    return function != nullptr ? absl::OkStatus() : Missing(name);
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  void* Symbol(const char* name) const;
  absl::Status Missing(const char* name) const;

  std::string name_;
  void* handle_;
};

}  // namespace latentd::backends::cuda
