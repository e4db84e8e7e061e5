#include "core/engine/task_thread.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "core/base/threads.h"

namespace latentd::engine {

TaskThread::TaskThread(std::string name)
    : thread_(StartThread(std::move(name), [this] { RunLoop(); })) {}

void TaskThread::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

TaskThread::~TaskThread() {
  Stop();
  thread_.join();
}

void TaskThread::Add(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void TaskThread::Run(const std::function<void()>& task) {
  absl::Notification done;
  Add([&] {
    task();
    done.Notify();
  });
  done.WaitForNotification();
}

void TaskThread::RunLoop() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TaskThread::HasWork));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace latentd::engine
