#include "tests/support/separate_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/errors/fatal.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Place;
using device::Shape;

// State that a stream and its events share; positions count enqueued work.
class Work {
 public:
  Work(const Clock& clock, bool at_once) : clock_(clock), at_once_(at_once) {}

  void Push(std::function<void()> work) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(work));
    ++pushed_;
    if (at_once_) wanted_ = pushed_;
  }

  int64_t pushed() const {
    absl::MutexLock lock(&mutex_);
    return pushed_;
  }

  void WaitFor(int64_t position) {
    absl::MutexLock lock(&mutex_);
    wanted_ = std::max(wanted_, position);
    const auto done = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return done_ >= position; };
    mutex_.Await(absl::Condition(&done));
  }

  bool IsDone(int64_t position) const {
    absl::MutexLock lock(&mutex_);
    return done_ >= position;
  }

  // On the stream's thread, until everything is done and Stop was called.
  void Run() {
    absl::MutexLock lock(&mutex_);
    const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stop_ || done_ < wanted_;
    };
    while (true) {
      mutex_.Await(absl::Condition(&has_work));
      if (done_ >= wanted_) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      mutex_.Unlock();
      work();
      mutex_.Lock();
      ++done_;
    }
  }

  void Stop() {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }

  const Clock& clock() const { return clock_; }

 private:
  const Clock& clock_;
  const bool at_once_;
  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t pushed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// Result of the work before an event, written by the event's own piece of work.
struct Outcome {
  absl::Mutex mutex;
  absl::Status status ABSL_GUARDED_BY(mutex);
  absl::Time time ABSL_GUARDED_BY(mutex);
};

class LaterEvent : public device::Event {
 public:
  LaterEvent(std::shared_ptr<Work> work, int64_t position, std::shared_ptr<Outcome> outcome)
      : work_(std::move(work)), position_(position), outcome_(std::move(outcome)) {}

  bool Reached() const override { return work_->IsDone(position_); }
  absl::Status Wait() const override {
    work_->WaitFor(position_);
    absl::MutexLock lock(&outcome_->mutex);
    return outcome_->status;
  }
  absl::Time time() const override {
    assert(Reached());
    absl::MutexLock lock(&outcome_->mutex);
    return outcome_->time;
  }

 private:
  const std::shared_ptr<Work> work_;
  const int64_t position_;
  const std::shared_ptr<Outcome> outcome_;
};

class LaterStream : public device::HostStream {
 public:
  LaterStream(const Clock& clock, bool at_once) : work_(std::make_shared<Work>(clock, at_once)) {
    thread_ = std::thread([work = work_] { work->Run(); });
  }
  ~LaterStream() override {
    work_->WaitFor(work_->pushed());
    work_->Stop();
    thread_.join();
  }

  void Push(std::function<absl::Status()> work) override {
    work_->Push([failure = failure_, work = std::move(work)] { failure->Update(work()); });
  }

  absl::StatusOr<std::shared_ptr<const device::Event>> Record() override {
    auto outcome = std::make_shared<Outcome>();
    work_->Push([failure = failure_, outcome, work = work_.get()] {
      absl::MutexLock lock(&outcome->mutex);
      outcome->status = std::exchange(*failure, absl::OkStatus());
      outcome->time = work->clock().Monotonic();
    });
    return std::make_shared<const LaterEvent>(work_, work_->pushed(), std::move(outcome));
  }

  absl::Status WaitFor(std::shared_ptr<const device::Event> event) override {
    work_->Push([event = std::move(event)] { event->Wait().IgnoreError(); });
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    work_->WaitFor(work_->pushed());
    return std::exchange(*failure_, absl::OkStatus());  // the thread has nothing to do
  }

 private:
  const std::shared_ptr<Work> work_;
  // The first since the last event; of the stream's thread alone.
  const std::shared_ptr<absl::Status> failure_ = std::make_shared<absl::Status>();
  std::thread thread_;
};

}  // namespace

// One memory at two addresses.
struct SeparateDevice::Mapping {
  Mapping(SeparateDevice& device, size_t bytes) : device(device), bytes(bytes) {}
  ~Mapping() {
    if (visible != MAP_FAILED) {
      absl::MutexLock lock(&device.mutex_);
      device.mappings_.erase(static_cast<const char*>(visible));
    }
    if (visible != MAP_FAILED) munmap(visible, bytes);
    if (real != MAP_FAILED) munmap(real, bytes);
  }
  Mapping(const Mapping&) = delete;

  bool Map() {
    const int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0) return false;
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
      visible = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
      real = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (visible == MAP_FAILED || real == MAP_FAILED) return false;
    absl::MutexLock lock(&device.mutex_);
    device.mappings_[static_cast<const char*>(visible)] = this;
    return true;
  }

  SeparateDevice& device;
  const size_t bytes;
  void* visible = MAP_FAILED;
  void* real = MAP_FAILED;
};

absl::StatusOr<Buffer> SeparateDevice::Allocate(DType dtype, Shape shape, Place place) {
  if (place != Place::kDevice) return HostDevice::Allocate(dtype, std::move(shape), place);
  const auto bytes = static_cast<size_t>(shape.elements() * device::SizeOf(dtype));
  auto mapping = std::make_shared<Mapping>(*this, std::max<size_t>(bytes, 1));
  if (!mapping->Map()) return absl::ResourceExhaustedError("no memory for the device");
  void* visible = mapping->visible;
  return Buffer::Wrap(visible, dtype, std::move(shape), std::move(mapping), place);
}

absl::StatusOr<std::unique_ptr<device::Stream>> SeparateDevice::NewStream(const Clock& clock) {
  return std::make_unique<LaterStream>(clock, begins_ == Begins::kAtOnce);
}

absl::Status SeparateDevice::Meet(const device::Device& other) {
  absl::MutexLock lock(&mutex_);
  if (peers_ == Peers::kReached) reached_.push_back(static_cast<const SeparateDevice*>(&other));
  return absl::OkStatus();
}

bool SeparateDevice::Reaches(const device::Device& other) const {
  absl::MutexLock lock(&mutex_);
  return std::find(reached_.begin(), reached_.end(), &other) != reached_.end();
}

absl::Status SeparateDevice::Copy(ConstBuffer from, Buffer to, device::Stream& stream) {
  assert(from.bytes() == to.bytes());
  static_cast<device::HostStream&>(stream).Push([this, from = std::move(from), to = std::move(to)] {
    std::memcpy(FindAnywhere(to), FindAnywhere(from), to.bytes());
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

void* SeparateDevice::AddressOf(const Buffer& buffer) const {
  return buffer.place() == Place::kDevice ? MustFind(buffer.data()) : buffer.data();
}

const void* SeparateDevice::AddressOf(const ConstBuffer& buffer) const {
  return buffer.place() == Place::kDevice ? MustFind(buffer.data()) : buffer.data();
}

char* SeparateDevice::MustFind(const void* data) const {
  char* const found = Find(data);
  if (found == nullptr) Fatal("memory that is not the device's, or was freed");
  return found;
}

char* SeparateDevice::FindAnywhere(const ConstBuffer& buffer) const {
  if (buffer.place() != Place::kDevice) {
    return static_cast<char*>(const_cast<void*>(buffer.data()));
  }
  char* found = Find(buffer.data());
  std::vector<const SeparateDevice*> others;
  {
    absl::MutexLock lock(&mutex_);
    others = reached_;
  }
  for (const SeparateDevice* other : others) {
    if (found == nullptr) found = other->Find(buffer.data());
  }
  if (found == nullptr) Fatal("memory of no device that this one reaches");
  return found;
}

char* SeparateDevice::Find(const void* data) const {
  const auto* address = static_cast<const char*>(data);
  absl::MutexLock lock(&mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return nullptr;
  const Mapping& mapping = *std::prev(after)->second;
  const auto offset = static_cast<size_t>(address - static_cast<const char*>(mapping.visible));
  return offset < mapping.bytes ? static_cast<char*>(mapping.real) + offset : nullptr;
}

size_t SeparateDevice::allocations() const {
  absl::MutexLock lock(&mutex_);
  return mappings_.size();
}

}  // namespace latentd::testing
