// Calls that another thread can end.
#pragma once

#include <grpcpp/client_context.h>

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::client {

// Thread-safe.
class Cancellation {
 public:
  // Makes a call one that Cancel reaches, as long as it lives.
  class Scope {
   public:
    Scope(Cancellation& cancellation, grpc::ClientContext& context)
        : cancellation_(cancellation), context_(context) {
      cancellation_.Add(context_);
    }
    ~Scope() { cancellation_.Remove(context_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cancellation& cancellation_;
    grpc::ClientContext& context_;
  };

  // Ends the running calls with CANCELLED, and those that are started later.
  void Cancel();

  // True if Cancel was called before `timeout` passed.
  bool WaitFor(absl::Duration timeout);

 private:
  // By themselves: the analysis of locks does not look into constructors and destructors.
  void Add(grpc::ClientContext& context) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(grpc::ClientContext& context) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace latentd::client
