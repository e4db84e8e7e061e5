#include "core/engine/image_encoder.h"

#include <utility>

namespace latentd::engine {

ImageEncoder::ImageEncoder() : thread_([this] { RunLoop(); }) {}

ImageEncoder::~ImageEncoder() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void ImageEncoder::Add(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void ImageEncoder::RunLoop() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ImageEncoder::HasWork));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace latentd::engine
