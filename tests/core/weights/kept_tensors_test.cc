// Tensors of a base that stay on the device for sets over it.
#include "core/weights/kept_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
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

// Counts what it is asked for, and has as much memory as a test says.
class CountingDevice : public testing::SeparateDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(DType dtype, device::Shape shape,
                                          device::Place place) override {
    if (place == device::Place::kDevice && allocations() >= most) {
      return OutOfMemoryError("no memory of the device");
    }
    return SeparateDevice::Allocate(dtype, std::move(shape), place);
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(const Clock& clock) override {
    ++streams;
    return SeparateDevice::NewStream(clock);
  }

  size_t most = kPlenty;  // allocations at a time
  std::atomic<int> streams = 0;
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
    testing::WriteSafetensors(base_path_,
                              {FilledTensor("a", {2, 2}, 1), FilledTensor("b", {2, 2}, 2)});
    auto set = std::make_shared<WeightSet>(&store_, "base");
    set->Add("unet", *ReadSafetensors(base_path_));
    base_ = set;
    kept_.SetLimit(kPlenty);
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

  // Makes both weights of a set, and expects that they are right.
  void Make(float delta) {
    const SetPointer set = With(delta);
    for (const auto& [name, value] : {std::pair("a", 1.0f), std::pair("b", 2.0f)}) {
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
  EXPECT_EQ(kept_.bytes(), 2 * kTensor);
  EXPECT_EQ(maker_.host_bytes, 4 * kTensor);  // the base's, and the first set's delta twice
  EXPECT_EQ(maker_.device_bytes, 2 * kTensor);
  Make(20);
  EXPECT_EQ(kept_.bytes(), 2 * kTensor);
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
  EXPECT_EQ(kept_.bytes(), kTensor);                 // b
  EXPECT_EQ(maker_.host_bytes - read, 3 * kTensor);  // b, and the delta twice
  EXPECT_EQ(maker_.device_bytes, 2 * kTensor);
}

TEST_F(KeptTensorsTest, CountAsNoResult) {
  Make(10);
  EXPECT_EQ(kept_.bytes(), 2 * kTensor);
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
  kept_.SetLimit(2 * kTensor - 1);
  Make(10);
  EXPECT_EQ(kept_.bytes(), kTensor);
  const size_t read = maker_.host_bytes;
  Make(20);
  EXPECT_EQ(kept_.bytes(), kTensor);
  EXPECT_EQ(maker_.host_bytes - read, 3 * kTensor);
}

TEST_F(KeptTensorsTest, ThoseUsedLeastRecentlyAreDroppedFirst) {
  Make(10);
  const StoredTensor a = base_->Find("unet/a")->from[0], b = base_->Find("unet/b")->from[0];
  EXPECT_TRUE(kept_.Find(a).has_value());  // the last use
  EXPECT_EQ(kept_.Drop(1), kTensor);
  EXPECT_EQ(kept_.bytes(), kTensor);
  EXPECT_EQ(device_.allocations(), 1u);
  EXPECT_FALSE(kept_.Find(b).has_value());
  EXPECT_TRUE(kept_.Find(a).has_value());
  kept_.SetLimit(kTensor - 1);
  EXPECT_EQ(kept_.bytes(), 0u);
  EXPECT_EQ(device_.allocations(), 0u);
  EXPECT_EQ(kept_.Drop(kPlenty), 0u);
  Make(20);
}

TEST_F(KeptTensorsTest, AreDroppedForAResultThatHasNoMemory) {
  Make(10);
  device_.most = 2;
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *With(20)));
  EXPECT_THAT(Read(held), Each(21));
  EXPECT_EQ(kept_.bytes(), kTensor);  // kept anew: there is memory for one beside the result
  device_.most = 1;
  EXPECT_FALSE(store_.Get(ReadsUnet("b"), *With(20)).ok());
  EXPECT_EQ(kept_.bytes(), 0u);
}

// There is memory for the result alone.
TEST_F(KeptTensorsTest, AreNotWorthARefusal) {
  device_.most = 1;
  Make(10);
  EXPECT_EQ(kept_.bytes(), 0u);
}

TEST_F(KeptTensorsTest, AreThoseOfAnOverlayToo) {
  const SetPointer once = With(10);
  const SetPointer twice = WeightSet::Over(
      once, {{"unet/a", *Compose(Sum(), {*once->Find("unet/a"), *base_->Find("unet/b")})}}, "more");
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(ReadsUnet("a"), *twice));
  EXPECT_THAT(Read(held), Each(13));
  EXPECT_EQ(kept_.bytes(), 2 * kTensor);  // a, and what the first set adds; b is no part of it
}

// It is the file's content as it was opened that is kept, and refused with the file.
TEST_F(KeptTensorsTest, AreOfNoUseForAFileThatWasEdited) {
  Make(10);
  testing::EditInPlace(base_path_, testing::SafetensorsBytes({FilledTensor("a", {2, 2}, 5),
                                                              FilledTensor("b", {2, 2}, 6)}));
  EXPECT_EQ(GetReason(store_.Get(ReadsUnet("a"), *With(20)).status()), kCheckpointChanged);
}

TEST_F(KeptTensorsTest, EqualOnesOfTwoFilesAreKeptOnce) {
  Make(10);
  const std::string path = directory_.File("copy.safetensors");
  testing::WriteSafetensors(path, {FilledTensor("a", {2, 2}, 1), FilledTensor("b", {2, 2}, 2)});
  auto copy = std::make_shared<WeightSet>(&store_, "copy");
  copy->Add("unet", *ReadSafetensors(path));
  base_ = copy;
  const size_t read = maker_.host_bytes;
  Make(20);
  EXPECT_EQ(kept_.bytes(), 2 * kTensor);
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
