// Weights that are made of several stored tensors, on the backends of a CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/backends/heap_requests.h"
#include "tests/support/on_host.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::backends {
namespace {

using device::Buffer;
using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Value;
using ::testing::ElementsAre;
using testing::RunGraph;
using testing::StoredWeight;
using weights::Compose;
using weights::Source;
using weights::WeightRef;
using weights::WeightSet;
using weights::WeightStore;

constexpr DType kStoredFloats[] = {DType::kF32, DType::kF16, DType::kBF16};

Graph GraphOf(GraphBuilder& b, Value result) {
  b.Output("result", result);
  return std::move(b).Build().value();
}

Source OfFloats(graph::Shape shape, const std::vector<float>& values) {
  Buffer buffer = Buffer::Allocate(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), buffer.as<float>().begin());
  return Source::Of({buffer, "memory"});
}

Source RandomSource(const std::string& name, DType dtype, graph::Shape shape) {
  std::mt19937 random(3);
  return Source::Of({testing::RandomBuffer(name, dtype, shape, random), "memory"});
}

std::string Bytes(const WeightRef& held) {
  const Buffer copy = testing::OnHost(*held);
  return {static_cast<const char*>(copy.data()), copy.bytes()};
}

class SourceWeightsTest : public ::testing::TestWithParam<const char*> {
 protected:
  SourceWeightsTest() {
    if (GetParam() == std::string("cpu")) {
      backend_ = cpu::CpuBackend::Create({.threads = 2}).value();
    } else {
      backend_ = std::make_unique<reference::ReferenceBackend>();
    }
    store_ = std::make_unique<WeightStore>(*backend_);
  }

  std::shared_ptr<const WeightSet> SetOf(const std::string& name, Source source) const {
    return WeightSet::Over(std::make_shared<const WeightSet>(store_.get()),
                           {{name, std::move(source)}});
  }

  WeightRef Plain(const Source& source) const {
    GraphBuilder b;
    const Graph recipe = GraphOf(b, b.Weight("net/w", source.shape()));
    const auto held = store_->Get(recipe, *SetOf("net/w", source));
    EXPECT_OK(held);
    return held.ok() ? *held : nullptr;
  }

  std::vector<double> Values(const Source& source) const {
    return testing::ToDoubles(testing::OnHost(*Plain(source)));
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<WeightStore> store_;
};

TEST_P(SourceWeightsTest, AreASliceOfATensor) {
  GraphBuilder b;
  const Graph slice = GraphOf(b, b.Slice(b.Weight("all", {3, 2}), 0, 1, 3));
  EXPECT_THAT(Values(*Compose(slice, {OfFloats({3, 2}, {1, 2, 3, 4, 5, 6})})),
              ElementsAre(3, 4, 5, 6));
}

TEST_P(SourceWeightsTest, AreATransposedTensor) {
  GraphBuilder b;
  const Graph transposed = GraphOf(b, b.Permute(b.Weight("w", {2, 3}), {1, 0}));
  EXPECT_THAT(Values(*Compose(transposed, {OfFloats({2, 3}, {1, 2, 3, 4, 5, 6})})),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

// u8 with a scale a row.
TEST_P(SourceWeightsTest, AreScaledNumbersOfAnotherDType) {
  Buffer bytes = Buffer::Allocate(DType::kU8, {2, 2});
  for (uint8_t& byte : bytes.as<uint8_t>()) byte = 8;
  GraphBuilder b;
  const Value w = b.Weight("w", {2, 2}), scale = b.Weight("scale", {2, 1});
  const Graph dequantised = GraphOf(b, b.Mul(w, scale));
  EXPECT_THAT(Values(*Compose(dequantised,
                              {Source::Of({bytes, "memory"}), OfFloats({2, 1}, {0.5f, 0.25f})})),
              ElementsAre(4, 4, 2, 2));
}

double ValueOfCode(DType dtype, int code) {
  const int mantissa = dtype == DType::kF8E4M3 ? 3 : 2;
  const int bias = dtype == DType::kF8E4M3 ? 7 : 15;
  const int exponent = (code & 0x7F) >> mantissa, rest = code & ((1 << mantissa) - 1);
  const double sign = code < 0x80 ? 1 : -1;
  if (dtype == DType::kF8E4M3 && (code & 0x7F) == 0x7F) return NAN;
  if (dtype == DType::kF8E5M2 && exponent == 31) return rest != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(rest, 1 - bias - mantissa);
  return sign * std::ldexp(rest + (1 << mantissa), exponent - bias - mantissa);
}

// Zeros have signs.
bool IsTheSame(double a, double b) {
  return std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b);
}

// Values of all codes, in f32 and in what they are cast to without it.
TEST_P(SourceWeightsTest, AreEightBitFloatsWithoutALoss) {
  for (const DType stored : {DType::kF8E4M3, DType::kF8E5M2}) {
    const Source source = RandomSource("codes", stored, {16, 16});
    for (const DType wanted : kStoredFloats) {
      GraphBuilder b;
      const Value weight = b.Weight("net/w", {16, 16});
      const Graph recipe = GraphOf(b, wanted == DType::kF32 ? weight : b.Cast(weight, wanted));
      ASSERT_OK_AND_ASSIGN(const WeightRef held, store_->Get(recipe, *SetOf("net/w", source)));
      EXPECT_EQ(held->dtype(), wanted);
      const std::vector<double> values = testing::ToDoubles(testing::OnHost(*held));
      for (int code = 0; code < 256; ++code) {
        const double expected = ValueOfCode(stored, code);
        EXPECT_TRUE(IsTheSame(values[code], expected))
            << device::Name(stored) << " " << code << " is " << values[code] << ", not "
            << expected;
      }
    }
  }
}

TEST_P(SourceWeightsTest, AreTransposedEightBitFloats) {
  Buffer codes = Buffer::Allocate(DType::kF8E5M2, {1, 2});
  codes.as<uint8_t>()[0] = 0x3C;  // 1
  codes.as<uint8_t>()[1] = 0xC2;  // -3
  GraphBuilder b;
  const Graph transposed = GraphOf(b, b.Permute(b.Weight("w", {1, 2}), {1, 0}));
  EXPECT_THAT(Values(*Compose(transposed, {Source::Of({codes, "memory"})})), ElementsAre(1, -3));
}

TEST_P(SourceWeightsTest, AreEightBitFloatsTimesTheirScale) {
  Buffer codes = Buffer::Allocate(DType::kF8E4M3, {1, 2});
  codes.as<uint8_t>()[0] = 0x38;  // 1
  codes.as<uint8_t>()[1] = 0xFE;  // -448
  WeightSet set(store_.get());
  set.Add("net",
          {{"w.weight", {codes, "memory"}}, {"w.scale_weight", OfFloats({}, {0.1f}).from[0]}});
  ASSERT_OK_AND_ASSIGN(const Source scaled, set.Find("net/w.weight"));
  EXPECT_THAT(Values(scaled), ElementsAre(0.1f, -448 * 0.1f));
}

Graph Merge(int64_t side, int64_t rank, float scale) {
  GraphBuilder b;
  const Value w = b.Weight("w", {side, side}), up = b.Weight("up", {side, rank}),
              down = b.Weight("down", {rank, side});
  return GraphOf(b, b.Add(w, b.Mul(b.Matmul(up, down), b.Scalar(scale))));
}

TEST_P(SourceWeightsTest, AreASumWithAScaledProduct) {
  const auto merged = Compose(
      Merge(2, 1, 0.5f),
      {OfFloats({2, 2}, {1, 2, 3, 4}), OfFloats({2, 1}, {2, 4}), OfFloats({1, 2}, {10, 20})});
  EXPECT_THAT(Values(*merged), ElementsAre(11, 22, 23, 44));
}

// Packs into a form of its kernels, where the backend has one.
TEST_P(SourceWeightsTest, ArePackedAsATensorWithTheSameNumbersIs) {
  constexpr int64_t kSide = 64, kRank = 4;
  const Source w = RandomSource("w", DType::kF16, {kSide, kSide}),
               up = RandomSource("up", DType::kF32, {kSide, kRank}),
               down = RandomSource("down", DType::kBF16, {kRank, kSide});
  ASSERT_OK_AND_ASSIGN(const Source merged, Compose(Merge(kSide, kRank, 0.5f), {w, up, down}));
  const Source same = Source::Of({testing::OnHost(*Plain(merged)), "memory"});
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {32, kSide}, graph::Rate::kStep);
  const auto graph =
      std::make_shared<const Graph>(GraphOf(b, b.Linear(x, b.Weight("net/w", {kSide, kSide}))));
  std::mt19937 random(5);
  const Buffer input = testing::RandomBuffer("x", DType::kF32, {32, kSide}, random);
  ASSERT_OK_AND_ASSIGN(const auto of_sum,
                       RunGraph(*backend_, graph, *SetOf("net/w", merged), {input}));
  ASSERT_OK_AND_ASSIGN(const auto of_tensor,
                       RunGraph(*backend_, graph, *SetOf("net/w", same), {input}));
  EXPECT_EQ(testing::ToDoubles(of_sum[0]), testing::ToDoubles(of_tensor[0]));
}

// A recipe over f32 leaves is the very result of one that casts what is stored, without a detour:
// one entry of the store, of the same needs.
TEST_P(SourceWeightsTest, OfEveryDTypeAreMadeAsFromWhatIsStored) {
  for (const DType stored : kStoredFloats) {
    const Source source = RandomSource("w", stored, {8, 4});
    const auto set = SetOf("net/w", source);
    for (const DType computed : kStoredFloats) {
      GraphBuilder direct, by_f32;
      const Value leaf = StoredWeight(direct, "net/w", stored, {8, 4});
      const Graph before = GraphOf(direct, stored == computed ? leaf : direct.Cast(leaf, computed));
      const Value wide = by_f32.Weight("net/w", {8, 4});
      const Graph now =
          GraphOf(by_f32, computed == DType::kF32 ? wide : by_f32.Cast(wide, computed));
      ASSERT_OK_AND_ASSIGN(const auto needs_before, store_->NeedsOf(before, *set));
      ASSERT_OK_AND_ASSIGN(const auto needs, store_->NeedsOf(now, *set));
      EXPECT_EQ(needs.key, needs_before.key);
      EXPECT_EQ(needs.bytes, 32u * device::SizeOf(computed));
      EXPECT_EQ(needs.making_bytes, needs_before.making_bytes);
      ASSERT_OK_AND_ASSIGN(const WeightRef held, store_->Get(now, *set));
      ASSERT_OK_AND_ASSIGN(const WeightRef held_before, store_->Get(before, *set));
      EXPECT_EQ(held->data(), held_before->data());
      EXPECT_EQ(held->dtype(), computed);
      if (stored != computed) continue;
      const Buffer as_stored = testing::OnHost(source.from[0].data);
      EXPECT_EQ(Bytes(held),
                std::string(static_cast<const char*>(as_stored.data()), as_stored.bytes()));
    }
  }
}

TEST_P(SourceWeightsTest, TakeTheMemoryThatIsPredicted) {
  constexpr int64_t kSide = 512, kRank = 16;
  const auto set = SetOf("net/w", *Compose(Merge(kSide, kRank, 0.5f),
                                           {RandomSource("w", DType::kF16, {kSide, kSide}),
                                            RandomSource("up", DType::kF32, {kSide, kRank}),
                                            RandomSource("down", DType::kF32, {kRank, kSide})}));
  GraphBuilder b;
  const Graph recipe = GraphOf(b, b.Cast(b.Weight("net/w", {kSide, kSide}), DType::kBF16));
  ASSERT_OK_AND_ASSIGN(const auto needs, store_->NeedsOf(recipe, *set));
  EXPECT_EQ(needs.bytes, kSide * kSide * 2u);
  EXPECT_GE(needs.making_bytes, kSide * kSide * sizeof(float));
  EXPECT_EQ(store_->entries(), 0u) << "predicting has made a weight";
  ASSERT_OK(store_->Get(recipe, *set));  // libraries keep what they generate
  if (!testing::HeapRequests::Counted()) return;
  const testing::HeapRequests requests(1);
  ASSERT_OK(store_->Get(recipe, *set));
  EXPECT_LE(requests.peak(), needs.bytes + needs.making_bytes + (64 << 10));
}

INSTANTIATE_TEST_SUITE_P(Backends, SourceWeightsTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace latentd::backends
