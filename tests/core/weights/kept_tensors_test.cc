// Tensors of a base that stay on the device for sets over it.
#include "core/weights/kept_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/graph/graph_builder.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/core/weights/function_maker.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/separate_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Value;
using ::testing::Each;
using testing::FilledTensor;
using SetPointer = std::shared_ptr<const WeightSet>;

constexpr size_t kPlenty = 1 << 20;
constexpr size_t kTensor = 16;  // bytes of each of the base's tensors
constexpr size_t kKept = 512;   // bytes that a GPU's pool takes for it

// Counts what it is asked for, and has as much memory as a test says.
class CountingDevice : public testing::SeparateDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(DType dtype, device::Shape shape,
                                          device::Place place) override {
    if (lacks_host_memory) throw std::bad_alloc();
    if (place == device::Place::kDevice && allocations() >= most) {
      ++refusals;
      if (refused) std::exchange(refused, nullptr)();
      return OutOfMemoryError("no memory of the device");
    }
    return SeparateDevice::Allocate(dtype, std::move(shape), place);
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(const Clock& clock) override {
    ++streams;
    return SeparateDevice::NewStream(clock);
  }

  size_t most = kPlenty;  // allocations at a time
  bool lacks_host_memory = false;
  std::function<void()> refused;  // run once, when an allocation is refused; may be empty
  std::atomic<int> refusals = 0, streams = 0;
};

Graph ReadsUnet(const std::string& name) {
  GraphBuilder b;
  b.Output("result", b.Weight("unet/" + name, {2, 2}));
  return *std::move(b).Build();
}

// A set's change of a weight.
Graph Sum() {
  GraphBuilder b;
  const Value w = b.Weight("w", {2, 2}), delta = b.Weight("delta", {2, 2});
  b.Output("merged", b.Add(w, delta));
  return *std::move(b).Build();
}

absl::StatusOr<device::ConstBuffer> AddAll(const Graph&,
                                           absl::Span<const device::ConstBuffer> sources) {
  const device::Buffer sum = device::Buffer::Allocate(DType::kF32, sources[0].shape());
  for (const device::ConstBuffer& source : sources) {
    std::transform(sum.as<float>().begin(), sum.as<float>().end(), source.as<float>().begin(),
                   sum.as<float>().begin(), std::plus<>());
  }
  return sum;
}

class KeptTensorsTest : public ::testing::Test {
 protected:
  KeptTensorsTest() {
    Write(base_path_, 1);
    base_ = Open(base_path_);
    kept_.SetLimit(kPlenty);
  }

  // A model whose two weights are filled with `value` and one more.
  static void Write(const std::string& path, float value) {
    testing::WriteSafetensors(
        path, {FilledTensor("a", {2, 2}, value), FilledTensor("b", {2, 2}, value + 1)});
  }
  SetPointer Open(const std::string& path) {
    auto set = std::make_shared<WeightSet>(&store_, "base");
    set->Add("unet", *ReadSafetensors(path));
    return set;
  }

  // A set that adds so much to both weights.
  SetPointer With(float delta) const {
    const std::string path = directory_.File(absl::StrCat("lora", delta, ".safetensors"));
    testing::WriteSafetensors(path, {FilledTensor("delta", {2, 2}, delta)});
    const TensorMap lora = *ReadSafetensors(path);
    SourceMap overlay;
    for (const char* name : {"unet/a", "unet/b"}) {
      overlay.emplace(name, *Compose(Sum(), {*base_->Find(name), Source::Of(lora.at("delta"))}));
    }
    return WeightSet::Over(base_, std::move(overlay), "styled");
  }

  std::vector<float> Read(const WeightRef& held) {
    const device::ConstBuffer readable = device_.Readable(*held);
    return {readable.as<float>().begin(), readable.as<float>().end()};
  }

  // Makes both weights of a set over the base of that value, and expects that they are right.
  void Make(float delta, float of_base = 1) {
    const SetPointer set = With(delta);
    for (const auto& [name, value] : {std::pair("a", of_base), std::pair("b", of_base + 1)}) {
      ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet(name), *set));
      EXPECT_THAT(Read(held), Each(value + delta));
    }
  }

  testing::TemporaryDirectory directory_;
  const std::string base_path_ = directory_.File("base.safetensors");
  CountingDevice device_;
  FunctionMaker maker_{AddAll, device_};
  WeightStore store_{maker_};
  KeptTensors& kept_ = store_.kept_tensors();
  SetPointer base_;
};

TEST_F(KeptTensorsTest, FurtherSetsAreMadeOfThem) {
  Make(10);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
  EXPECT_EQ(maker_.host_bytes, 4 * kTensor);  // the base's, and the first set's delta twice
  EXPECT_EQ(maker_.device_bytes, 2 * kTensor);
  Make(20);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
  EXPECT_EQ(maker_.host_bytes, 6 * kTensor);
  EXPECT_EQ(maker_.device_bytes, 4 * kTensor);
}

// Neither is it hashed: to touch its pages would end the process.
TEST_F(KeptTensorsTest, FurtherSetsReadNothingOfTheFile) {
  Make(10);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address =
      reinterpret_cast<uintptr_t>(base_->Find("unet/a")->from[0].data.data()) / page * page;
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(address), page, PROT_NONE), 0);  // NOLINT
  Make(20);
  Make(30);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(address), page, PROT_READ), 0);  // NOLINT
}

// A base's tensor that no other set has changed yet is not worth it, nor is a set's own.
TEST_F(KeptTensorsTest, NothingElseIsKept) {
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *base_));
  EXPECT_EQ(kept_.bytes(), 0u);
  EXPECT_EQ(store_.bytes_held(), kTensor);
}

TEST_F(KeptTensorsTest, OneThatIsHeldAsAWeightIsReadThereAndNotKeptAgain) {
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *base_));
  const size_t read = maker_.host_bytes;
  Make(10);
  EXPECT_EQ(kept_.bytes(), kKept);                   // b
  EXPECT_EQ(maker_.host_bytes - read, 3 * kTensor);  // b, and the delta twice
  EXPECT_EQ(maker_.device_bytes, 2 * kTensor);
}

TEST_F(KeptTensorsTest, CountAsNoResult) {
  Make(10);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
  EXPECT_EQ(store_.bytes_held(), 0u);
  EXPECT_EQ(store_.entries(), 0u);
  EXPECT_EQ(device_.allocations(), 2u);
}

TEST_F(KeptTensorsTest, NoneIsKeptWithoutALimit) {
  kept_.SetLimit(0);
  Make(10);
  Make(20);
  EXPECT_EQ(kept_.bytes(), 0u);
  EXPECT_EQ(maker_.device_bytes, 0u);
  EXPECT_EQ(device_.allocations(), 0u);
}

TEST_F(KeptTensorsTest, OneThatDoesNotFitDropsNoOther) {
  kept_.SetLimit(2 * kKept - 1);
  Make(10);
  EXPECT_EQ(kept_.bytes(), kKept);
  for (const float delta : {20.0f, 30.0f, 40.0f, 50.0f, 60.0f, 70.0f}) {
    const size_t read = maker_.host_bytes;
    Make(delta);
    EXPECT_EQ(kept_.bytes(), kKept);
    EXPECT_EQ(maker_.host_bytes - read, 3 * kTensor);
  }
}

TEST_F(KeptTensorsTest, ThoseOfAModelThatLeftGiveWay) {
  kept_.SetLimit(2 * kKept);
  Make(10);
  const SetPointer first = base_;
  const std::string path = directory_.File("other.safetensors");
  Write(path, 3);
  const SetPointer other = Open(path);
  // Bytes of the base that are read, of the host, for a set of a model.
  const auto read = [&](const SetPointer& base, float delta, float value) {
    const size_t before = maker_.host_bytes;
    base_ = base;
    Make(delta, value);
    return maker_.host_bytes - before - 2 * kTensor;
  };
  EXPECT_EQ(read(other, 20, 3), 2 * kTensor);
  EXPECT_EQ(read(first, 20, 1), 0u);  // in turns the first keeps them
  EXPECT_EQ(read(other, 30, 3), 2 * kTensor);
  for (const float delta : {40.0f, 50.0f}) read(other, delta, 3);
  EXPECT_EQ(read(other, 60, 3), 0u);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
  EXPECT_EQ(device_.allocations(), 2u);
  EXPECT_EQ(read(first, 30, 1), 2 * kTensor);
}

TEST_F(KeptTensorsTest, ThoseUsedLeastRecentlyAreDroppedFirst) {
  Make(10);
  const StoredTensor a = base_->Find("unet/a")->from[0], b = base_->Find("unet/b")->from[0];
  EXPECT_TRUE(kept_.Find(a).has_value());  // the last use
  EXPECT_EQ(kept_.Drop(1), kKept);
  EXPECT_EQ(kept_.bytes(), kKept);
  EXPECT_EQ(device_.allocations(), 1u);
  EXPECT_FALSE(kept_.Find(b).has_value());
  EXPECT_TRUE(kept_.Find(a).has_value());
  kept_.SetLimit(kKept - 1);
  EXPECT_EQ(kept_.bytes(), 0u);
  EXPECT_EQ(device_.allocations(), 0u);
  EXPECT_EQ(kept_.Drop(kPlenty), 0u);
  Make(20);
}

// A load that they were dropped for goes on, and would bring them back.
TEST_F(KeptTensorsTest, DroppedOnesComeBackOnceALimitIsSet) {
  Make(10);
  EXPECT_EQ(kept_.Drop(1), kKept);
  Make(20);
  EXPECT_EQ(kept_.bytes(), kKept);
  kept_.Drop(kPlenty);
  Make(30);
  EXPECT_EQ(kept_.bytes(), 0u);
  kept_.SetLimit(kPlenty);
  Make(40);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
}

TEST_F(KeptTensorsTest, AreDroppedForAResultThatHasNoMemory) {
  Make(10);
  device_.most = 2;
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *With(20)));
  EXPECT_THAT(Read(held), Each(21));
  EXPECT_EQ(kept_.bytes(), 0u);  // nor does what is made next keep any
  EXPECT_EQ(device_.allocations(), 1u);
  EXPECT_EQ(device_.refusals, 1);
  device_.most = 1;
  EXPECT_FALSE(store_.Get(ReadsUnet("b"), *With(20)).ok());
}

TEST_F(KeptTensorsTest, ThatAnotherThreadDropsMeanwhileAreMemoryToo) {
  Make(10);
  device_.most = 2;
  device_.refused = [&] { kept_.Drop(kPlenty); };
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *With(20)));
  EXPECT_THAT(Read(held), Each(21));
}

// There is memory for the result alone, and the next weight does not ask for more again.
TEST_F(KeptTensorsTest, AreNotWorthARefusal) {
  device_.most = 1;
  Make(10);
  EXPECT_EQ(kept_.bytes(), 0u);
  EXPECT_EQ(device_.refusals, 1);
  device_.most = kPlenty;
  kept_.SetLimit(kPlenty);
  Make(20);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
}

TEST_F(KeptTensorsTest, AreThoseOfAnOverlayToo) {
  const SetPointer once = With(10);
  const SetPointer twice = WeightSet::Over(
      once, {{"unet/a", *Compose(Sum(), {*once->Find("unet/a"), *base_->Find("unet/b")})}}, "more");
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *twice));
  EXPECT_THAT(Read(held), Each(13));
  EXPECT_EQ(kept_.bytes(), 2 * kKept);  // a, and what the first set adds; b is no part of it
}

// It is the file's content as it was opened that is kept, and refused with the file.
TEST_F(KeptTensorsTest, AreOfNoUseForAFileThatWasEdited) {
  Make(10);
  testing::EditInPlace(base_path_, testing::SafetensorsBytes({FilledTensor("a", {2, 2}, 5),
                                                              FilledTensor("b", {2, 2}, 6)}));
  EXPECT_EQ(GetReason(store_.Get(ReadsUnet("a"), *With(20)).status()), kCheckpointChanged);
}

// Bytes that came while a tensor was uploaded are not what its digest names.
TEST_F(KeptTensorsTest, NoneIsKeptOfAFileThatIsEditedMeanwhile) {
  const std::string path = directory_.File("copy.safetensors");
  Write(path, 1);
  maker_.once = [&] {
    testing::EditInPlace(base_path_, testing::SafetensorsBytes({FilledTensor("a", {2, 2}, 5),
                                                                FilledTensor("b", {2, 2}, 6)}));
  };
  EXPECT_EQ(GetReason(store_.Get(ReadsUnet("a"), *With(10)).status()), kCheckpointChanged);
  EXPECT_EQ(kept_.bytes(), 0u);
  base_ = Open(path);
  Make(20);
  Make(30);
}

TEST_F(KeptTensorsTest, EqualOnesOfTwoFilesAreKeptOnce) {
  Make(10);
  const std::string path = directory_.File("copy.safetensors");
  Write(path, 1);
  base_ = Open(path);
  const size_t read = maker_.host_bytes;
  Make(20);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
  EXPECT_EQ(maker_.host_bytes - read, 2 * kTensor);
}

TEST_F(KeptTensorsTest, WeightsAreMadeOnOneStreamAfterTheOther) {
  for (const float delta : {10.0f, 20.0f, 30.0f}) Make(delta);
  EXPECT_EQ(device_.streams, 1);
}

TEST_F(KeptTensorsTest, WhatMakingTakesIsAskedOnceForRecipesOfOneText) {
  const SetPointer first = With(10), second = With(20);
  for (const SetPointer& set : {first, second}) {
    for (const char* name : {"a", "b"}) {
      ASSERT_OK(store_.NeedsOf(ReadsUnet(name), *set));
      EXPECT_EQ(store_.NeedsOf(ReadsUnet(name), *set, {"packed", 8, 100})->making_bytes, 100u);
    }
  }
  EXPECT_EQ(maker_.predictions, 2);  // plain and packed
  ASSERT_OK(store_.NeedsOf(ReadsUnet("a"), *base_));
  EXPECT_EQ(maker_.predictions, 3);
}

// Changes of both weights that lie in one unit of that many bytes of the host, the second one at
// its end.
class UnitOfChanges {
 public:
  UnitOfChanges(int64_t bytes, float a, float b)
      : bytes_(device::Buffer::Allocate(DType::kU8, {bytes})) {
    auto unit = std::make_shared<StoredTensor>(StoredTensor{.data = bytes_, .file = "lora"});
    unit->digest = std::make_shared<const ContentDigest>(bytes_);
    unit_ = std::move(unit);
    Fill(0, a);
    Fill(OffsetOfSecond(), b);
  }

  StoredTensor a() const { return At(0); }
  StoredTensor b() const { return At(OffsetOfSecond()); }

 private:
  int64_t OffsetOfSecond() const {
    return bytes_.elements() - static_cast<int64_t>(kPartAlignment);
  }
  void Fill(int64_t offset, float value) {
    const std::vector<float> values(4, value);
    std::memcpy(static_cast<char*>(bytes_.data()) + offset, values.data(), kTensor);
  }
  StoredTensor At(int64_t offset) const {
    StoredTensor tensor{.data = device::ConstBuffer::Wrap(
                            static_cast<const char*>(bytes_.data()) + offset, DType::kF32, {2, 2},
                            std::make_shared<const device::Buffer>(bytes_)),
                        .file = "lora"};
    tensor.digest = std::make_shared<const ContentDigest>(tensor.data);
    tensor.part_of = unit_;
    return tensor;
  }

  const device::Buffer bytes_;
  std::shared_ptr<const StoredTensor> unit_;
};

class KeptUnitsTest : public KeptTensorsTest {
 protected:
  // A set with these changes, each added so many times.
  SetPointer With(const UnitOfChanges& changes, int times) const {
    SourceMap overlay;
    for (const auto& [name, change] : {std::pair("unet/a", changes.a()), {"unet/b", changes.b()}}) {
      Source sum = *base_->Find(name);
      for (int i = 0; i < times; ++i) sum = *Compose(Sum(), {sum, Source::Of(change)});
      overlay.emplace(name, std::move(sum));
    }
    return WeightSet::Over(base_, std::move(overlay), "styled");
  }
  std::vector<float> Made(const SetPointer& set, const char* name) {
    const absl::StatusOr<WeightRef> held = store_.Get(ReadsUnet(name), *set);
    EXPECT_OK(held);
    return held.ok() ? Read(*held) : std::vector<float>();
  }
};

// AddAll adds each tensor once.
TEST_F(KeptUnitsTest, AreUploadedWholeAndOnceForAllSets) {
  const UnitOfChanges changes(1024, 10, 20);
  const SetPointer first = With(changes, 1), second = With(changes, 2);
  EXPECT_THAT(Made(first, "a"), Each(11));
  EXPECT_EQ(maker_.host_bytes, kTensor + 1024);  // the base's a, and the unit
  EXPECT_THAT(Made(first, "b"), Each(22));
  EXPECT_EQ(maker_.host_bytes, 2 * kTensor + 1024);
  EXPECT_EQ(kept_.bytes(), 2 * kKept + 1024);
  EXPECT_THAT(Made(second, "a"), Each(11));
  EXPECT_THAT(Made(second, "b"), Each(22));
  EXPECT_EQ(maker_.host_bytes, 2 * kTensor + 1024);
  EXPECT_EQ(maker_.device_bytes, 8 * kTensor);
}

TEST_F(KeptUnitsTest, OneThatDoesNotFitIsReadFromTheHostByEachOfItsTensors) {
  kept_.SetLimit(3 * kKept - 1);  // both of the base, or one and the unit
  const UnitOfChanges changes(1024, 10, 20);
  const SetPointer set = With(changes, 1);
  EXPECT_THAT(Made(set, "a"), Each(11));
  EXPECT_THAT(Made(set, "b"), Each(22));
  EXPECT_EQ(maker_.host_bytes, 4 * kTensor);
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
}

// The base's are read by each set, and stay, however often a unit is asked for.
TEST_F(KeptUnitsTest, OneThatDoesNotFitDrivesNoneOut) {
  kept_.SetLimit(3 * kKept - 1);  // both of the base, or one and the unit
  for (int set = 1; set < 40; ++set) {
    const UnitOfChanges changes(1024, static_cast<float>(set), 0);
    const SetPointer changed = With(changes, 1);
    EXPECT_THAT(Made(changed, "a"), Each(1 + set));
    Made(changed, "b");
    EXPECT_EQ(kept_.bytes(), 2 * kKept);
  }
  EXPECT_EQ(maker_.host_bytes, (2 + 2 * 39) * kTensor);
}

TEST_F(KeptUnitsTest, LargeOnesAreUploadedInPartsByThreadsThatShareThem) {
  constexpr int64_t kLarge = (int64_t{20} << 20) + 512;  // three parts, the last one smaller
  kept_.SetLimit(size_t{1} << 30);
  const UnitOfChanges changes(kLarge, 10, 20);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const SetPointer set = With(changes, 1 + i / 2);
      const std::vector<float> made = Made(set, i % 2 == 0 ? "a" : "b");
      if (made.empty() || made[0] != (i % 2 == 0 ? 11 : 22)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(maker_.host_bytes, 4 * kTensor + kLarge);  // two threads may each upload a base's
  EXPECT_GE(maker_.host_bytes, 2 * kTensor + kLarge);
}

TEST_F(KeptUnitsTest, WithoutMemoryOnTheDeviceTheyAreReadFromTheHost) {
  const UnitOfChanges changes(1024, 10, 20);
  const SetPointer set = With(changes, 1);
  device_.most = 2;  // the result, and the base's
  EXPECT_THAT(Made(set, "a"), Each(11));
  EXPECT_EQ(kept_.bytes(), kKept);
  EXPECT_EQ(device_.refusals, 1);
}

TEST_F(KeptTensorsTest, AHostWithoutMemoryDropsNone) {
  Make(10);
  ASSERT_EQ(kept_.bytes(), 2 * kKept);
  device_.lacks_host_memory = true;
  const SetPointer set = With(20);
  EXPECT_EQ(GetReason(store_.Get(ReadsUnet("a"), *set).status()), "OUT_OF_MEMORY");
  EXPECT_EQ(kept_.bytes(), 2 * kKept);
}

TEST_F(KeptTensorsTest, ThreadsThatMakeAndDropGetWhatTheyAsk) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const SetPointer set = With(static_cast<float>(10 * (i + 1)));
        const absl::StatusOr<WeightRef> held = store_.Get(ReadsUnet("a"), *set);
        if (!held.ok() || Read(*held)[0] != 1 + 10 * (i + 1)) ++wrong;
        if (round % 5 == i) kept_.Drop(kPlenty);
        if (round % 5 == 4) kept_.SetLimit(kPlenty);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store_.entries(), 0u);
  kept_.SetLimit(0);
  EXPECT_EQ(device_.allocations(), 0u);
}

}  // namespace
}  // namespace latentd::weights
