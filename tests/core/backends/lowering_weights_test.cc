// How a bound program comes by its weights: several at a time, and in the end all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/lowering/addresses.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/host_device.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::lowering {
namespace {

using device::ConstBuffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using ::testing::_;
using ::testing::NotNull;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr int kWeights = 6;

graph::Graph ManyWeights() {
  GraphBuilder b;
  const graph::Value x = b.Input("x", DType::kF32, {1, 8}, Rate::kStep);
  for (int i = 0; i < kWeights; ++i) {
    const std::string number = absl::StrCat(i);
    b.Output("y" + number, b.Linear(x, b.Weight("net/" + number, {4, 8})));
  }
  return std::move(b).Build().value();
}

// Takes tensors as they are, once `admit` lets it.
class Copier : public weights::WeightMaker {
 public:
  explicit Copier(std::function<absl::Status()> admit) : admit_(std::move(admit)) {}
  device::Device& device() const override { return device::Host(); }
  std::string WeightFingerprint() const override { return "copier"; }
  absl::StatusOr<size_t> MakingBytes(const graph::Graph&, absl::Span<const ConstBuffer>,
                                     const weights::WeightFormat&) const override {
    return 0;
  }
  absl::Status MakeWeight(const graph::Graph&, absl::Span<const ConstBuffer> sources,
                          absl::string_view, const device::Buffer& to, device::Stream&) override {
    absl::Status admitted = admit_();
    if (admitted.ok()) std::memcpy(to.data(), sources[0].data(), to.bytes());
    return admitted;
  }

 private:
  const std::function<absl::Status()> admit_;
};

class HoldWeightsTest : public ::testing::Test {
 protected:
  HoldWeightsTest() : graph_(ManyWeights()) {
    bound_.recipes = graph::ExtractRecipes(graph_);
    bound_.program =
        Lower(graph_, bound_.recipes, cpu::CpuKernelRules({&cpu::KernelsOfThisMachine(), 1}));
    bound_.needs.resize(bound_.program.instructions.size());
    addresses_.storages.resize(bound_.program.storages.size());
    addresses_.packed.resize(bound_.needs.size());
  }

  absl::StatusOr<std::vector<weights::WeightRef>> Hold(Copier& copier, int threads) {
    store_ = std::make_unique<weights::WeightStore>(copier);
    weights::WeightSet set(store_.get());
    set.Add("net", testing::RandomLeaves(graph_, /*seed=*/1).weights);
    return HoldWeights(
        bound_, set, threads, [](const ConstBuffer& held) { return held.data(); }, addresses_);
  }

  void ExpectAddresses() const {
    std::set<const char*> different;
    for (size_t i = 0; i < bound_.program.storages.size(); ++i) {
      if (bound_.program.storages[i].place != Place::kHeld) continue;
      EXPECT_THAT(addresses_.storages[i], NotNull());
      different.insert(addresses_.storages[i]);
    }
    EXPECT_THAT(different, SizeIs(kWeights));
  }

  const graph::Graph graph_;
  BoundProgram bound_;
  Addresses addresses_;
  std::unique_ptr<weights::WeightStore> store_;
};

TEST_F(HoldWeightsTest, MakesSeveralAtATime) {
  // Three are being made at once, or this does not end.
  std::atomic<int> begun = 0;
  auto* const three = new absl::Barrier(3);
  Copier copier([&] {
    if (begun++ < 3 && three->Block()) delete three;
    return absl::OkStatus();
  });
  ASSERT_OK_AND_ASSIGN(const auto held, Hold(copier, /*threads=*/3));
  EXPECT_THAT(held, SizeIs(kWeights));
  ExpectAddresses();
}

TEST_F(HoldWeightsTest, MakesAloneWhatHasNoMemoryBesideOthers) {
  absl::Mutex memory;  // for one at a time
  absl::Notification refused;
  std::atomic<int> refusals = 0;
  Copier copier([&] {
    if (!memory.TryLock()) {
      ++refusals;
      if (!refused.HasBeenNotified()) refused.Notify();
      return OutOfMemoryError("for one at a time");
    }
    refused.WaitForNotification();
    memory.Unlock();
    return absl::OkStatus();
  });
  ASSERT_OK_AND_ASSIGN(const auto held, Hold(copier, /*threads=*/2));
  EXPECT_GE(refusals, 1);
  EXPECT_THAT(held, SizeIs(kWeights));
  ExpectAddresses();
}

TEST_F(HoldWeightsTest, FailsWhereOneHasNoMemoryAlone) {
  Copier copier([] { return OutOfMemoryError("none"); });
  for (int threads : {1, 4}) {
    EXPECT_THAT(Hold(copier, threads).status(), StatusIs(absl::StatusCode::kResourceExhausted, _));
  }
}

}  // namespace
}  // namespace latentd::backends::lowering
