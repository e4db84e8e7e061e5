#include "core/weights/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/graph/graph_builder.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "tests/core/weights/function_maker.h"
#include "tests/support/on_host.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;
using ::testing::ElementsAre;
using testing::FilledTensor;
using ::testing::HasSubstr;
using testing::StatusIs;

// Joins the operands' rows, which is all that the recipes of these tests ask for.
absl::StatusOr<device::ConstBuffer> JoinRows(const graph::Graph& recipe,
                                             absl::Span<const device::ConstBuffer> sources) {
  const graph::Node& concat = recipe.node(recipe.outputs()[0].value);
  const std::vector<graph::ValueId> weights = recipe.Select(graph::Op::kWeight);
  Buffer joined = Buffer::Allocate(DType::kF32, concat.shape);
  char* to = static_cast<char*>(joined.data());
  for (const graph::ValueId operand : concat.operands) {
    const device::ConstBuffer& source =
        sources[std::find(weights.begin(), weights.end(), operand) - weights.begin()];
    std::memcpy(to, source.data(), source.bytes());
    to += source.bytes();
  }
  return joined;
}

graph::Graph Concat(const std::vector<std::string>& names, const Shape& shape) {
  graph::GraphBuilder builder;
  std::vector<graph::Value> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) parts.push_back(builder.Weight(name, shape));
  builder.Output("result", builder.Concat(parts, 0));
  return *std::move(builder).Build();
}

graph::Graph Bare(const std::string& name, const Shape& shape) {
  graph::GraphBuilder builder;
  builder.Output("result", builder.Weight(name, shape));
  return *std::move(builder).Build();
}

std::vector<float> Floats(const WeightRef& held) {
  const Buffer copy = testing::OnHost(*held);
  return {copy.as<float>().begin(), copy.as<float>().end()};
}

// Half the elements, so that packing shows in bytes and values.
absl::StatusOr<device::ConstBuffer> PackHalf(const device::ConstBuffer& plain) {
  return plain.Rows(0, plain.shape()[0] / 2);
}

class WeightStoreTest : public ::testing::Test {
 protected:
  // A set with the tensors of a file of its own.
  WeightSet SetFromFile(const std::string& component,
                        const std::vector<testing::TensorToWrite>& tensors) {
    const std::string path = directory_.File(absl::StrCat(files_++, ".safetensors"));
    testing::WriteSafetensors(path, tensors);
    WeightSet set(&store_);
    set.Add(component, *ReadSafetensors(path));
    return set;
  }

  testing::TemporaryDirectory directory_;
  int files_ = 0;
  FunctionMaker maker_{JoinRows};
  WeightStore store_{maker_};
};

TEST_F(WeightStoreTest, MakesAResultOfTheSetsTensors) {
  const WeightSet set = SetFromFile(
      "unet", {testing::F32Tensor("q", {2}, {1, 2}), testing::F32Tensor("k", {2}, {3, 4})});
  ASSERT_OK_AND_ASSIGN(const WeightRef held, store_.Get(Concat({"unet/q", "unet/k"}, {2}), set));
  EXPECT_THAT(Floats(held), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(store_.bytes_held(), 16u);
  EXPECT_EQ(store_.entries(), 1u);
}

TEST_F(WeightStoreTest, HoldsEqualTensorsOfTwoFilesOnce) {
  const WeightSet base =
      SetFromFile("vae", {FilledTensor("q", {64}, 1), FilledTensor("k", {64}, 2)});
  const WeightSet refiner =
      SetFromFile("vae_2", {FilledTensor("second", {64}, 2), FilledTensor("first", {64}, 1)});
  ASSERT_OK_AND_ASSIGN(const WeightRef a, store_.Get(Concat({"vae/q", "vae/k"}, {64}), base));
  ASSERT_OK_AND_ASSIGN(const WeightRef b,
                       store_.Get(Concat({"vae_2/first", "vae_2/second"}, {64}), refiner));
  EXPECT_EQ(a->data(), b->data());
  EXPECT_EQ(store_.bytes_held(), 512u);
  EXPECT_EQ(store_.entries(), 1u);
  EXPECT_EQ(maker_.evaluations, 1);
}

TEST_F(WeightStoreTest, KeepsApartWhatDiffersInContentOrderOrForm) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 1), FilledTensor("b", {4}, 2)});
  ASSERT_OK_AND_ASSIGN(const WeightRef ab, store_.Get(Concat({"c/a", "c/b"}, {4}), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef ba, store_.Get(Concat({"c/b", "c/a"}, {4}), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef aa, store_.Get(Concat({"c/a", "c/a"}, {4}), set));
  maker_.packers["half"] = PackHalf;
  ASSERT_OK_AND_ASSIGN(const WeightRef packed,
                       store_.Get(Concat({"c/a", "c/b"}, {4}), set, {"half", 16}));
  EXPECT_EQ(store_.entries(), 4u);
  EXPECT_THAT(Floats(ba), ElementsAre(2, 2, 2, 2, 1, 1, 1, 1));
  EXPECT_EQ(packed->dtype(), DType::kU8);
  EXPECT_EQ(packed->shape(), Shape({16}));
  const Buffer copy = testing::OnHost(*packed);
  EXPECT_EQ(std::memcmp(copy.data(), testing::OnHost(*ab).data(), 16), 0);
}

TEST_F(WeightStoreTest, KeepsEqualBytesOfOtherShapesApart) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 1), FilledTensor("b", {2, 2}, 1)});
  ASSERT_OK_AND_ASSIGN(const WeightRef a, store_.Get(Bare("c/a", {4}), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef b, store_.Get(Bare("c/b", {2, 2}), set));
  EXPECT_EQ(b->shape(), Shape({2, 2}));
  EXPECT_EQ(store_.entries(), 2u);
}

TEST_F(WeightStoreTest, OneUserGoingKeepsTheOther) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  const graph::Graph recipe = Concat({"c/a", "c/a"}, {4});
  ASSERT_OK_AND_ASSIGN(WeightRef first, store_.Get(recipe, set));
  ASSERT_OK_AND_ASSIGN(const WeightRef second, store_.Get(recipe, set));
  first.reset();
  EXPECT_EQ(store_.bytes_held(), 32u);
  EXPECT_THAT(Floats(second), ::testing::Each(7));
}

TEST_F(WeightStoreTest, TheLastUserFreesAndTheNextMakesAgain) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  const graph::Graph recipe = Concat({"c/a", "c/a"}, {4});
  {
    ASSERT_OK_AND_ASSIGN(WeightRef first, store_.Get(recipe, set));
    const WeightRef second = std::move(first);
    EXPECT_EQ(store_.bytes_held(), 32u);
  }
  EXPECT_EQ(store_.bytes_held(), 0u);
  EXPECT_EQ(store_.entries(), 0u);
  ASSERT_OK_AND_ASSIGN(const WeightRef again, store_.Get(recipe, set));
  EXPECT_EQ(store_.bytes_held(), 32u);
  EXPECT_EQ(maker_.evaluations, 2);
}

TEST_F(WeightStoreTest, ABareWeightIsACopyOfTheMappedTensorAndCountsOnce) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  const WeightSet other = SetFromFile("d", {FilledTensor("z", {4}, 7)});
  ASSERT_OK_AND_ASSIGN(const WeightRef a, store_.Get(Bare("c/a", {4}), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef z, store_.Get(Bare("d/z", {4}), other));
  EXPECT_NE(a->data(), set.Find("c/a")->from[0].data.data());
  EXPECT_THAT(Floats(a), ::testing::Each(7));
  EXPECT_EQ(z->data(), a->data());
  EXPECT_EQ(store_.bytes_held(), 16u);
  EXPECT_EQ(maker_.evaluations, 0);
}

TEST_F(WeightStoreTest, HoldsItsResultsInMemoryOfTheDevice) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  maker_.packers["half"] = PackHalf;
  ASSERT_OK_AND_ASSIGN(const WeightRef bare, store_.Get(Bare("c/a", {4}), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef packed, store_.Get(Bare("c/a", {4}), set, {"half", 8}));
  EXPECT_EQ(bare->place(), device::Place::kDevice);
  EXPECT_EQ(packed->place(), device::Place::kDevice);
}

// All tensors of one component of the demo checkpoints, held as they are.
void HoldAll(WeightStore& store, const std::string& model, const std::string& component,
             std::vector<WeightRef>* held) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({absl::StrCat(
                           ::latentd::testing::SourcePath("deploy/demo-model/"), model)}));
  ASSERT_OK_AND_ASSIGN(const SourceMap sources, checkpoint.LoadWeights(component));
  WeightSet set(&store);
  set.Add(component, sources);
  for (const auto& [name, source] : sources) {
    graph::GraphBuilder builder;
    builder.Output("result", testing::StoredWeight(builder, absl::StrCat(component, "/", name),
                                                   source.dtype(), source.shape()));
    ASSERT_OK_AND_ASSIGN(const graph::Graph recipe, std::move(builder).Build());
    ASSERT_OK_AND_ASSIGN(held->emplace_back(), store.Get(recipe, set));
  }
}

TEST_F(WeightStoreTest, TheDemosRefinerAddsNothingForWhatItSharesWithTheBase) {
  std::vector<WeightRef> base, refiner;
  HoldAll(store_, "base", "vae", &base);
  HoldAll(store_, "base", "text_encoder_2", &base);
  const size_t bytes = store_.bytes_held();
  EXPECT_GT(bytes, 2'000'000u);
  HoldAll(store_, "refiner", "vae", &refiner);
  HoldAll(store_, "refiner", "text_encoder_2", &refiner);
  EXPECT_EQ(refiner.size(), base.size());
  EXPECT_EQ(store_.bytes_held(), bytes);
  base.clear();
  EXPECT_EQ(store_.bytes_held(), bytes);
  refiner.clear();
  EXPECT_EQ(store_.bytes_held(), 0u);
}

TEST_F(WeightStoreTest, NamesAMissingTensor) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  EXPECT_THAT(store_.Get(Bare("c/b", {4}), set),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("c/b")));
  EXPECT_THAT(store_.Get(Bare("c/a", {5}), set),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("f32[5]")));
}

TEST_F(WeightStoreTest, AFailureHoldsNothingAndIsTriedAgain) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  maker_.packers["half"] = [](const auto&) { return absl::InternalError("broken"); };
  EXPECT_THAT(store_.Get(Bare("c/a", {4}), set, {"half", 8}),
              StatusIs(absl::StatusCode::kInternal, "broken"));
  EXPECT_EQ(store_.bytes_held(), 0u);
  maker_.packers["half"] = PackHalf;
  EXPECT_OK(store_.Get(Bare("c/a", {4}), set, {"half", 8}));
}

// Memory that no machine has: the device refuses it, and nothing stays.
TEST_F(WeightStoreTest, NoMemoryOfTheDeviceHoldsNothingEither) {
#if defined(LATENTD_SANITIZED)
  GTEST_SKIP() << "the sanitizer's heap ends the process instead";
#endif
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  maker_.packers["huge"] = PackHalf;
  EXPECT_THAT(store_.Get(Bare("c/a", {4}), set, {"huge", size_t{1} << 60}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("out of memory")));
  EXPECT_EQ(store_.entries(), 0u);
  EXPECT_OK(store_.Get(Bare("c/a", {4}), set));
}

TEST_F(WeightStoreTest, SaysWhoHoldsWhatForWhichComponent) {
  const std::string path = directory_.File("both.safetensors");
  testing::WriteSafetensors(path, {FilledTensor("a", {4}, 7), FilledTensor("b", {8}, 8)});
  WeightSet base(&store_, "base"), refiner(&store_, "refiner");
  base.Add("vae", *ReadSafetensors(path));
  refiner.Add("vae_2", *ReadSafetensors(path));
  ASSERT_OK_AND_ASSIGN(const WeightRef one, store_.Get(Bare("vae/a", {4}), base));
  ASSERT_OK_AND_ASSIGN(const WeightRef same, store_.Get(Bare("vae/a", {4}), base));
  ASSERT_OK_AND_ASSIGN(WeightRef other, store_.Get(Bare("vae_2/a", {4}), refiner));
  ASSERT_OK_AND_ASSIGN(const WeightRef made, store_.Get(Concat({"vae/b", "vae/b"}, {8}), base));
  const auto find = [&](const WeightRef& held, const graph::Graph& recipe) {
    const std::vector<WeightInfo> results = store_.List();
    const auto found = std::find_if(results.begin(), results.end(), [&](const WeightInfo& result) {
      return result.key == store_.NeedsOf(recipe, base)->key;
    });
    EXPECT_EQ(found->bytes, held->bytes());
    return *found;
  };
  const WeightInfo shared = find(one, Bare("vae/a", {4}));
  EXPECT_FALSE(shared.mapped);
  EXPECT_EQ(shared.users, 3);
  EXPECT_THAT(shared.components, ElementsAre("vae", "vae_2"));
  EXPECT_THAT(shared.sets, ElementsAre("base", "refiner"));
  const WeightInfo joined = find(made, Concat({"vae/b", "vae/b"}, {8}));
  EXPECT_FALSE(joined.mapped);
  EXPECT_THAT(joined.sets, ElementsAre("base"));
  EXPECT_EQ(store_.mapped_bytes(), 0u);
  EXPECT_EQ(store_.bytes_held(), 80u);
  other.reset();
  EXPECT_THAT(find(one, Bare("vae/a", {4})).components, ElementsAre("vae"));
}

TEST_F(WeightStoreTest, AnExceptionBecomesAStatus) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  maker_.packers["half"] = [](const auto&) -> absl::StatusOr<device::ConstBuffer> {
    throw std::bad_alloc();
  };
  EXPECT_THAT(store_.Get(Bare("c/a", {4}), set, {"half", 8}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("safetensors")));
  maker_.packers["half"] = [](const auto&) -> absl::StatusOr<device::ConstBuffer> {
    throw std::runtime_error("reason");
  };
  EXPECT_THAT(store_.Get(Bare("c/a", {4}), set, {"half", 8}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("reason")));
}

TEST_F(WeightStoreTest, ThreadsThatAskAtOnceMakeOnce) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7)});
  const graph::Graph recipe = Bare("c/a", {4});
  absl::Notification making, go_on;
  std::atomic<int> packed = 0;
  maker_.packers["slow"] = [&](const device::ConstBuffer& plain) {
    if (++packed == 1) making.Notify();
    go_on.WaitForNotification();
    return plain;
  };
  std::vector<WeightRef> held(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (WeightRef& result : held) {
    threads.emplace_back([&] { result = *store_.Get(recipe, set, {"slow", 16}); });
  }
  making.WaitForNotification();
  EXPECT_EQ(store_.bytes_held(), 0u);
  go_on.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packed, 1);
  EXPECT_EQ(store_.bytes_held(), 16u);
  for (const WeightRef& result : held) EXPECT_EQ(result, held[0]);
}

TEST_F(WeightStoreTest, UsersThatComeAndGoOnManyThreadsLeaveNothing) {
  const WeightSet set = SetFromFile("c", {FilledTensor("a", {4}, 7), FilledTensor("b", {4}, 8)});
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string name = i % 2 == 0 ? "c/a" : "c/b";
      const graph::Graph recipe = Concat({name, name}, {4});
      for (int round = 0; round < 500; ++round) {
        const absl::StatusOr<WeightRef> held = store_.Get(recipe, set);
        if (!held.ok() || Floats(*held)[0] != 7 + i % 2) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store_.bytes_held(), 0u);
  EXPECT_EQ(store_.entries(), 0u);
}

}  // namespace
}  // namespace latentd::weights
