// A bound on how many of something there are at once.
#pragma once

#include <atomic>
#include <memory>

namespace latentd::server::admin {

// Thread-safe.
class Tickets {
 public:
  explicit Tickets(int count) : left_(std::make_shared<std::atomic<int>>(count)) {}

  // A ticket, which is given back when its last owner lets go of it; null: there is none left.
  std::shared_ptr<void> Take() {
    if (left_->fetch_sub(1) <= 0) {
      left_->fetch_add(1);
      return nullptr;
    }
    return std::shared_ptr<void>(left_.get(), [left = left_](void*) { left->fetch_add(1); });
  }

 private:
  const std::shared_ptr<std::atomic<int>> left_;
};

}  // namespace latentd::server::admin
