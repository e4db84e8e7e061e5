// Bytes of bodies that are being received or read, of all connections together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace latentd::server::http {

// Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t most) : most_(most) {}

  // Holds so many bytes until the last copy of what it returns is gone. Null: there are too many.
  std::shared_ptr<const void> Hold(int64_t bytes) {
    if (held_.fetch_add(bytes) + bytes > most_) {
      held_.fetch_sub(bytes);
      return nullptr;
    }
    return {this, [bytes](BodyBudget* budget) { budget->held_.fetch_sub(bytes); }};
  }

 private:
  const int64_t most_;
  std::atomic<int64_t> held_ = 0;
};

}  // namespace latentd::server::http
