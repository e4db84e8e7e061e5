// The bytes of one request: as its transport has received them, and as they are read. Counts them
// for as long as its call holds them, which is until the engine has them or the request is refused.
//
// The counts are thread-safe; all else belongs to the thread that reads the request.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/generation/received_request.h"

namespace latentd::server::generation {

class HeldRequest {
 public:
  struct Bytes {
    int64_t received = 0;  // bytes not read yet
    int64_t read = 0;      // bytes that the engine has not got
  };

  // REQUIRES: `request` lives until LetGo.
  void Receive(ReceivedRequest& request);

  // Reading takes as much again.
  void BeginReading() { read_ = received_.load(); }

  // Frees what was received, if that has not been done.
  void DropReceived();

  // Nothing is held any more.
  void LetGo();

  Bytes bytes() const { return {.received = received_, .read = read_}; }

 private:
  ReceivedRequest* request_ = nullptr;  // null: freed
  std::atomic<int64_t> received_ = 0, read_ = 0;
};

}  // namespace latentd::server::generation
