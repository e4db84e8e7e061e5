// A GPU as a device. What needs one is skipped where there is none.
#include "core/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/device/cuda/cuda_event.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/device/device_fault.h"
#include "tests/support/status_matchers.h"

namespace latentd::device::cuda {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(CudaStatusTest, TellsWantOfMemoryFaultsAndTheRestApart) {
  EXPECT_OK(ToStatus(cudaSuccess, "nothing"));
  const absl::Status memory = ToStatus(cudaErrorMemoryAllocation, "GPU memory");
  EXPECT_THAT(memory, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("GPU memory: ")));
  EXPECT_EQ(GetReason(memory), "OUT_OF_MEMORY");
  const absl::Status fault = ToStatus(cudaErrorIllegalAddress, "the GPU's work");
  EXPECT_THAT(fault, StatusIs(absl::StatusCode::kInternal, HasSubstr("the GPU's work: ")));
  EXPECT_TRUE(IsFault(fault));
  EXPECT_FALSE(IsFault(ToStatus(cudaErrorInvalidValue, "copying")));
}

// There is no such GPU: those that there are stay as they are for other tests.
TEST(CudaStatusTest, AGpuThatIsGivenUpIsNotAsked) {
  constexpr int kOrdinal = 63;
  EXPECT_FALSE(IsGivenUp(kOrdinal));
  EXPECT_FALSE(IsFault(SelectGpu(kOrdinal)));  // CUDA says that there is none
  GiveUp(kOrdinal);
  EXPECT_TRUE(IsGivenUp(kOrdinal));
  EXPECT_FALSE(IsGivenUp(kOrdinal - 1));
  EXPECT_TRUE(IsFault(SelectGpu(kOrdinal)));
  EXPECT_FALSE(SelectToGiveBack(kOrdinal));
  const auto event = CudaEvent::Record(kOrdinal, nullptr, SystemClock(), nullptr);
  EXPECT_TRUE(IsFault(event.status()));
}

TEST(CudaDeviceTest, SaysWhatToDoWhereThereIsNoGpu) {
  if (HasGpu()) GTEST_SKIP() << "there is one";
  EXPECT_THAT(CudaDevice::Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("driver")));
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU";
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Open());
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream(SystemClock()));
  }
  Buffer Allocate(Place place, int64_t elements) {
    return device_->Allocate(DType::kF32, {elements}, place).value();
  }
  std::vector<float> Read(const Buffer& buffer) {
    const Buffer host = Allocate(Place::kPinned, buffer.elements());
    EXPECT_OK(device_->Copy(buffer, host, *stream_));
    EXPECT_OK(stream_->Synchronize());
    return {host.as<float>().begin(), host.as<float>().end()};
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(GpuTest, RefusesANumberThatNoGpuHas) {
  EXPECT_THAT(CudaDevice::Open(64).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no GPU 64")));
}

TEST_F(GpuTest, KnowsWhatItIs) {
  EXPECT_GE(device_->properties().compute_capability, 80);
  EXPECT_GT(device_->properties().multiprocessors, 0);
  const int64_t available = device_->Available()->bytes;
  EXPECT_LE(available, device_->properties().memory_bytes);
}

// Others may use the GPU meanwhile: of what is free, bounds only.
TEST_F(GpuTest, SaysWhatItKeepsOfItsMemoryAndOfTheHosts) {
  const DeviceMemory before = device_->Memory();
  EXPECT_GT(before.total, 0);
  EXPECT_LE(before.total, device_->properties().memory_bytes);
  EXPECT_LE(before.free, before.total);
  constexpr int64_t kElements = int64_t{1} << 20, kBytes = 4 * kElements;
  { const Buffer gone = Allocate(Place::kDevice, kElements); }
  EXPECT_EQ(device_->Memory().idle, before.idle + kBytes);
  const Buffer again = Allocate(Place::kDevice, kElements);
  EXPECT_EQ(device_->Memory().idle, before.idle);
  { const Buffer pinned = Allocate(Place::kPinned, kElements); }
  EXPECT_EQ(device_->Memory().pinned, before.pinned + kBytes);
}

TEST_F(GpuTest, GivesBackWhatNobodyTakesAgain) {
  { const Buffer gone = Allocate(Place::kDevice, int64_t{1} << 20); }
  const int64_t kept = device_->Memory().idle;
  EXPECT_GT(kept, 0);
  device_->GiveBack(Kept::kUnused);  // it has been taken since the last time
  EXPECT_EQ(device_->Memory().idle, kept);
  device_->GiveBack(Kept::kUnused);
  EXPECT_EQ(device_->Memory().idle, 0);
  { const Buffer gone = Allocate(Place::kDevice, int64_t{1} << 20); }
  device_->GiveBack(Kept::kAll);
  EXPECT_EQ(device_->Memory().idle, 0);
}

// As weights leave it that were made on a stream. Others may use the GPU meanwhile.
TEST_F(GpuTest, WhatCudaKeepsForStreamsIsIdle) {
  constexpr size_t kBytes = size_t{64} << 20;
  device_->GiveBack(Kept::kAll);
  const int64_t idle = device_->Memory().idle, available = device_->Available()->bytes;
  const auto leave = [&] {
    void* memory = nullptr;
    cudaStream_t stream = static_cast<CudaStream&>(*stream_).handle();
    ASSERT_EQ(cudaMallocAsync(&memory, kBytes, stream), cudaSuccess);
    ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
    ASSERT_OK(stream_->Synchronize());
    EXPECT_GE(device_->Memory().idle, idle + static_cast<int64_t>(kBytes));
  };
  leave();
  EXPECT_GE(device_->Available()->bytes, available - static_cast<int64_t>(kBytes / 2));
  device_->Trim();
  EXPECT_EQ(device_->Memory().idle, idle);
  leave();
  device_->GiveBack(Kept::kAll);
  EXPECT_EQ(device_->Memory().idle, idle);
}

// The unused part of a piece of 64 MiB is idle.
TEST_F(GpuTest, HolesBetweenWhatIsPackedAreIdle) {
  const int64_t before = device_->Memory().idle;
  ASSERT_OK_AND_ASSIGN(const Buffer packed,
                       device_->AllocatePacked(DType::kU8, {int64_t{1} << 20}));
  EXPECT_EQ(device_->Memory().idle, before + (int64_t{63} << 20));
}

TEST_F(GpuTest, CopiesBetweenAllPlaces) {
  const Buffer host = Allocate(Place::kHost, 1000), pinned = Allocate(Place::kPinned, 1000),
               gpu = Allocate(Place::kDevice, 1000), other = Allocate(Place::kDevice, 1000);
  for (int i = 0; i < 1000; ++i) host.as<float>()[i] = static_cast<float>(i);
  ASSERT_OK(device_->Copy(host, pinned, *stream_));
  ASSERT_OK(device_->Copy(pinned, gpu, *stream_));
  ASSERT_OK(device_->Copy(gpu.Rows(500, 1000), other.Rows(0, 500), *stream_));
  ASSERT_OK(device_->Copy(gpu.Rows(0, 500), other.Rows(500, 1000), *stream_));
  const std::vector<float> values = Read(other);
  EXPECT_EQ(values[0], 500);
  EXPECT_EQ(values[499], 999);
  EXPECT_EQ(values[500], 0);
  EXPECT_EQ(values[999], 499);
}

// More than the pinned memory on the way holds at once, and no whole number of its pieces.
TEST_F(GpuTest, UploadsBesideEachOther) {
  constexpr int kThreads = 4;
  constexpr int64_t kElements = 3'000'001;
  std::vector<Buffer> on_gpu;
  for (int i = 0; i < kThreads; ++i) on_gpu.push_back(Allocate(Place::kDevice, kElements));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_OK_AND_ASSIGN(const auto stream, device_->NewStream(SystemClock()));
      for (int round = 0; round < 3; ++round) {
        const Buffer host = Buffer::Allocate(DType::kF32, {kElements});
        std::iota(host.as<float>().begin(), host.as<float>().end(),
                  static_cast<float>(1000 * i + round));
        ASSERT_OK(device_->Copy(host, on_gpu[i], *stream));
        // It has been read.
        std::fill(host.as<float>().begin(), host.as<float>().end(), -1.0f);
      }
      ASSERT_OK(stream->Synchronize());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    const std::vector<float> values = Read(on_gpu[i]);
    std::vector<float> expected(kElements);
    std::iota(expected.begin(), expected.end(), static_cast<float>(1000 * i + 2));
    EXPECT_TRUE(values == expected) << i;
  }
}

// Memory that was written before comes back as zeros.
TEST_F(GpuTest, GivesZeros) {
  for (Place place : {Place::kPinned, Place::kDevice}) {
    Buffer first = Allocate(place, 5000);
    const void* address = first.data();
    const Buffer ones = Allocate(Place::kHost, 5000);
    std::fill(ones.as<float>().begin(), ones.as<float>().end(), 1.0f);
    ASSERT_OK(device_->Copy(ones, first, *stream_));
    EXPECT_THAT(Read(first), Each(1.0f));
    ASSERT_OK(stream_->Record().value()->Wait());
    ASSERT_OK(stream_->Record());  // lets go of the copies
    first = {};
    const Buffer second = Allocate(place, 4097);
    EXPECT_EQ(second.data(), address);  // the same memory
    EXPECT_THAT(Read(second), Each(0.0f));
  }
}

TEST_F(GpuTest, MemoryThatACopyUsesIsNotGivenToSomebodyElse) {
  const Buffer a = Allocate(Place::kDevice, int64_t{64} << 20),
               b = Allocate(Place::kDevice, int64_t{64} << 20);
  for (int i = 0; i < 100; ++i) ASSERT_OK(device_->Copy(a, b, *stream_));  // takes a while
  Buffer from = Allocate(Place::kPinned, 64);
  const void* address = from.data();
  const Buffer to = Allocate(Place::kDevice, 64);
  ASSERT_OK(device_->Copy(from, to, *stream_));
  ASSERT_OK_AND_ASSIGN(const auto copied, stream_->Record());
  from = {};
  EXPECT_NE(Allocate(Place::kPinned, 64).data(), address);
  ASSERT_OK(copied->Wait());
  ASSERT_OK(stream_->Record());
  EXPECT_EQ(Allocate(Place::kPinned, 64).data(), address);
}

TEST_F(GpuTest, EventsAreReachedInOrderAtRisingTimes) {
  const Buffer a = Allocate(Place::kDevice, int64_t{64} << 20),
               b = Allocate(Place::kDevice, int64_t{64} << 20);
  const auto first = stream_->Record().value();
  for (int i = 0; i < 100; ++i) ASSERT_OK(device_->Copy(a, b, *stream_));
  const auto second = stream_->Record().value();
  EXPECT_FALSE(second->Reached());
  ASSERT_OK(second->Wait());
  EXPECT_TRUE(first->Reached());
  EXPECT_TRUE(second->Reached());
  EXPECT_LT(first->time(), second->time());
}

TEST_F(GpuTest, WantOfMemoryIsAnErrorOfOneRequest) {
  const int64_t all = device_->properties().memory_bytes;
  const auto more = device_->Allocate(DType::kU8, {all + 1}, Place::kDevice);
  EXPECT_THAT(more.status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("GPU memory")));
  EXPECT_THAT(Read(Allocate(Place::kDevice, 10)), Each(0.0f));
}

// Two thirds of the memory twice: the second time it is there only if the first is given back.
TEST_F(GpuTest, GivesIdleMemoryBackBeforeItRefuses) {
  const int64_t available = device_->Available()->bytes;
  ASSERT_OK(device_->Allocate(DType::kU8, {available / 3 * 2}, Place::kDevice));
  EXPECT_OK(device_->Allocate(DType::kU8, {available / 5 * 3}, Place::kDevice));
}

TEST_F(GpuTest, PacksWhereSomethingElseWas) {
  const auto allocate = [&] { return device_->AllocatePacked(DType::kF32, {5000}).value(); };
  Buffer first = allocate();
  const Buffer other = allocate();
  const void* address = first.data();
  const Buffer ones = Allocate(Place::kHost, 5000);
  std::fill(ones.as<float>().begin(), ones.as<float>().end(), 1.0f);
  for (const Buffer& to : {first, other}) ASSERT_OK(device_->Copy(ones, to, *stream_));
  EXPECT_THAT(Read(first), Each(1.0f));
  ASSERT_OK(stream_->Record().value()->Wait());
  ASSERT_OK(stream_->Record());  // lets go of the copies
  first = {};
  const Buffer second = allocate();
  EXPECT_EQ(second.data(), address);
  ASSERT_OK(device_->Copy(Allocate(Place::kDevice, 5000), second, *stream_));
  EXPECT_THAT(Read(second), Each(0.0f));
  EXPECT_THAT(Read(other), Each(1.0f));
}

// From one to the other and back; each waits for the one before.
TEST_F(GpuTest, CopiesToAnotherGpuAndWaitsForIt) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "no second GPU";
  ASSERT_OK_AND_ASSIGN(const auto other, CudaDevice::Open(1));
  ASSERT_OK(device_->Meet(*other));
  ASSERT_OK(other->Meet(*device_));
  ASSERT_OK_AND_ASSIGN(const auto theirs, other->NewStream(SystemClock()));
  constexpr int64_t kElements = 1 << 20;
  const Buffer from = Allocate(Place::kPinned, kElements),
               here = Allocate(Place::kDevice, kElements),
               back = Allocate(Place::kDevice, kElements);
  const Buffer there = other->Allocate(DType::kF32, {kElements}, Place::kDevice).value();
  std::iota(from.as<float>().begin(), from.as<float>().end(), 0.0F);
  ASSERT_OK(device_->Copy(from, here, *stream_));
  ASSERT_OK(theirs->WaitFor(stream_->Record().value()));
  ASSERT_OK(other->Copy(here, there, *theirs));
  ASSERT_OK(other->Copy(there, back, *theirs));
  ASSERT_OK(stream_->WaitFor(theirs->Record().value()));
  const std::vector<float> read = Read(back);
  EXPECT_EQ(read.front(), 0);
  EXPECT_EQ(read.back(), kElements - 1);
  EXPECT_TRUE(std::is_sorted(read.begin(), read.end()));
}

// In pieces of 64 MiB of the GPU's memory: a thousand of 1.1 MiB, each of which would take 2 by
// itself. The driver may keep something for itself.
TEST_F(GpuTest, WhatIsPackedTakesLittleMoreThanItsBytes) {
  constexpr int64_t kBytes = 1153434, kCount = 1000, kPiece = 64 << 20;
  std::vector<Buffer> packed;
  packed.push_back(device_->AllocatePacked(DType::kU8, {kBytes}).value());
  const int64_t before = device_->Available()->bytes;
  for (int i = 1; i < kCount; ++i) {
    packed.push_back(device_->AllocatePacked(DType::kU8, {kBytes}).value());
  }
  const int64_t taken = before - device_->Available()->bytes;
  EXPECT_GE(taken, kCount * kBytes - kPiece);
  EXPECT_LE(taken, kCount * (kBytes + 512) + 2 * kPiece);
  packed.resize(1);
  EXPECT_GE(device_->Available()->bytes, before - kPiece);
}

TEST_F(GpuTest, WantOfMemoryForWhatIsPackedIsAnErrorOfOneRequest) {
  const int64_t available = device_->Available()->bytes;
  const auto more = device_->AllocatePacked(DType::kU8, {available + (64 << 20)});
  EXPECT_THAT(more.status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("GPU memory")));
  EXPECT_EQ(GetReason(more.status()), "OUT_OF_MEMORY");
  EXPECT_GE(device_->Available()->bytes, available - (64 << 20));
  EXPECT_OK(device_->AllocatePacked(DType::kU8, {1000}));
}

// As GivesIdleMemoryBackBeforeItRefuses.
TEST_F(GpuTest, WhatIsPackedHasWhatWasIdle) {
  const int64_t available = device_->Available()->bytes;
  ASSERT_OK(device_->Allocate(DType::kU8, {available / 3 * 2}, Place::kDevice));
  EXPECT_OK(device_->AllocatePacked(DType::kU8, {available / 5 * 3}));
}

}  // namespace
}  // namespace latentd::device::cuda
