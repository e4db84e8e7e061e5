#include "core/base/threads/worker.h"

#include <new>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/threads.h"

namespace latentd {

Worker::Worker(std::string name, size_t most)
    : most_(most), thread_(StartThread(std::move(name), [this] { Loop(); })) {}

Worker::~Worker() { Stop(); }

void Worker::Add(std::function<void()> task, size_t size) {
  absl::MutexLock lock(&mutex_);
  const auto has_room = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return HasRoom(size); };
  mutex_.Await(absl::Condition(&has_room));
  Push(std::move(task), size);
}

bool Worker::TryAdd(std::function<void()> task, size_t size) {
  absl::MutexLock lock(&mutex_);
  if (!HasRoom(size)) return false;
  Push(std::move(task), size);
  return true;
}

void Worker::Continue(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  Push(std::move(task), 0);
}

void Worker::Run(const std::function<void()>& task) {
  absl::Status ran;
  absl::Notification done;
  Continue([&] {
    ran = CatchOutOfMemory(task);
    done.Notify();
  });
  done.WaitForNotification();
  if (!ran.ok()) throw std::bad_alloc();
}

void Worker::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::Push(std::function<void()> task, size_t size) {
  tasks_.push_back({std::move(task), size});
  taken_ += size;
}

void Worker::Loop() {
  Task task;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Worker::HasWork));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    CatchOutOfMemory(task.run).IgnoreError();
    task.run = nullptr;  // with what it kept, before there is room for more
    absl::MutexLock lock(&mutex_);
    taken_ -= task.size;
  }
}

}  // namespace latentd
