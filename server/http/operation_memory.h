// Memory for one operation of Asio's at a time, so that none is asked for while connections run: an
// exception in the middle of Asio's own functions would leave nothing that could be gone on with.
//
// Asio frees an operation's memory before it calls the operation's handler, which may begin the
// next in it, as an operation that consists of several does.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace latentd::server::http {

// Outlives the operation. Not thread-safe: the end of an operation happens before the next begins.
class OperationMemory {
 public:
  // Gives allocations to Asio; only what does not fit in, as a second operation, is the heap's.
  template <typename T>
  class Allocator {
   public:
    using value_type = T;

    explicit Allocator(OperationMemory& memory) : memory_(&memory) {}
    template <typename Other>
    Allocator(const Allocator<Other>& other) : memory_(other.memory_) {}  // NOLINT: a conversion

    T* allocate(size_t count) {
      static_assert(sizeof(T) <= kBytes && alignof(T) <= alignof(std::max_align_t));
      return static_cast<T*>(memory_->Take(count * sizeof(T)));
    }
    void deallocate(T* taken, size_t) { memory_->Return(taken); }

    template <typename Other>
    bool operator==(const Allocator<Other>& other) const {
      return memory_ == other.memory_;
    }

   private:
    template <typename Other>
    friend class Allocator;

    OperationMemory* memory_;
  };

  // A handler of an operation that lies in the memory.
  template <typename Function>
  class Handler {
   public:
    using allocator_type = Allocator<void>;

    Handler(OperationMemory& memory, Function function)
        : memory_(memory), function_(std::move(function)) {}

    allocator_type get_allocator() const noexcept { return memory_; }

    template <typename... Said>
    void operator()(Said&&... said) {
      function_(std::forward<Said>(said)...);
    }

   private:
    allocator_type memory_;
    Function function_;
  };

  OperationMemory() = default;
  OperationMemory(const OperationMemory&) = delete;

  template <typename Function>
  Handler<std::decay_t<Function>> Holds(Function&& handler) {
    return {*this, std::forward<Function>(handler)};
  }

 private:
  static constexpr size_t kBytes = 768;

  void* Take(size_t bytes) {
    if (taken_ || bytes > kBytes) return ::operator new(bytes);
    taken_ = true;
    return bytes_;
  }
  void Return(void* taken) {
    if (taken != bytes_) return ::operator delete(taken);
    taken_ = false;
  }

  bool taken_ = false;
  alignas(std::max_align_t) std::byte bytes_[kBytes];
};

}  // namespace latentd::server::http
