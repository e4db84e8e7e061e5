// Looks for what hangs, every second, on a thread that does nothing else.
#pragma once

#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/threads.h"
#include "server/grpc_server.h"

namespace latentd::server {

class Watchdog {
 public:
  // `server` must outlive this.
  explicit Watchdog(GrpcServer& server)
      : server_(server), thread_(StartThread("watchdog", [this] { Watch(); })) {}
  ~Watchdog() {
    stop_.Notify();
    thread_.join();
  }

 private:
  void Watch() {
    while (!stop_.WaitForNotificationWithTimeout(absl::Seconds(1))) {
      CatchOutOfMemory([this] { server_.CheckHangs(); }).IgnoreError();
    }
  }

  GrpcServer& server_;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace latentd::server
