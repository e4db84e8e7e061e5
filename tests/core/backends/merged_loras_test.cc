// LoRAs merged into weights on the backends of a CPU, against loops over single elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/adapters/lora/merge_loras.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/errors/status_macros.h"
#include "core/device/memory_pool.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/on_host.h"
#include "tests/support/separate_device.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using adapters::Difference;
using adapters::Hadamard;
using adapters::Kronecker;
using adapters::Lora;
using adapters::LowRank;
using adapters::Magnitude;
using adapters::MergeLoras;
using adapters::WeightChange;
using adapters::WeightedLora;
using device::Buffer;
using device::DType;
using device::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;
using weights::Source;
using weights::StoredTensor;
using weights::WeightSet;

const std::string kLinear = "unet/to_q.weight", kConvolution = "unet/conv.weight";

// Numbers of a tensor, by index.
class Numbers {
 public:
  Numbers(Shape shape, unsigned seed) : shape_(std::move(shape)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-1, 1);
    for (int64_t i = 0; i < shape_.elements(); ++i) values_.push_back(values(random));
  }

  double At(std::vector<int64_t> index) const {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at = at * shape_[static_cast<int>(i)] + index[i];
    return values_[static_cast<size_t>(at)];
  }

  StoredTensor Stored() const {
    Buffer buffer = Buffer::Allocate(DType::kF32, shape_);
    std::copy(values_.begin(), values_.end(), buffer.as<float>().begin());
    return {buffer, "lora.safetensors"};
  }

 private:
  Shape shape_;
  std::vector<float> values_;
};

// Element of a convolution's weight; of a linear's where y and x are 0.
using Element = std::function<double(int64_t o, int64_t i, int64_t y, int64_t x)>;

struct Weight {
  std::string name;
  int64_t out, in, side;

  Shape shape() const { return side == 1 ? Shape{out, in} : Shape{out, in, side, side}; }
  Numbers numbers() const { return {shape(), 11}; }

  Element element() const {
    const auto w = std::make_shared<Numbers>(numbers());
    if (side == 1) return [w](int64_t o, int64_t i, int64_t, int64_t) { return w->At({o, i}); };
    return [w](int64_t o, int64_t i, int64_t y, int64_t x) { return w->At({o, i, y, x}); };
  }

  void ForEach(const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) const {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t y = 0; y < side; ++y) {
          for (int64_t x = 0; x < side; ++x) visit(o, i, y, x);
        }
      }
    }
  }
};

const Weight kToQ = {kLinear, 6, 10, 1}, kConv = {kConvolution, 6, 4, 3};

WeightedLora Of(const WeightChange& change, double weight = 1) {
  return {std::make_shared<const Lora>(Lora{.name = "film", .changes = {change}}), weight, weight,
          weight};
}

class MergedLorasTest : public ::testing::TestWithParam<const char*> {
 protected:
  MergedLorasTest() {
    if (GetParam() == std::string("cpu")) {
      backend_ = cpu::CpuBackend::Create({.threads = 2}).value();
    } else {
      backend_ = std::make_unique<reference::ReferenceBackend>();
    }
    store_ = std::make_unique<weights::WeightStore>(*backend_);
    auto set = std::make_shared<WeightSet>(store_.get(), "base");
    set->Add("unet", weights::TensorMap{{"to_q.weight", kToQ.numbers().Stored()},
                                        {"to_k.weight", kToQ.numbers().Stored()},
                                        {"conv.weight", kConv.numbers().Stored()},
                                        {"to_q.bias", Numbers({6}, 5).Stored()}});
    set->Add("text_encoder", weights::TensorMap{{"to_q.weight", kToQ.numbers().Stored()}});
    set->Add("text_encoder_2", weights::TensorMap{{"to_q.weight", kToQ.numbers().Stored()}});
    base_ = set;
  }

  static graph::Graph Reads(const std::string& name, const Shape& shape) {
    graph::GraphBuilder b;
    b.Output("result", b.Weight(name, shape));
    return std::move(b).Build().value();
  }

  std::shared_ptr<const WeightSet> Merge(const std::vector<WeightedLora>& loras) const {
    const auto merged = MergeLoras(base_, loras);
    EXPECT_OK(merged);
    return merged.ok() ? *merged : base_;
  }

  std::vector<double> Read(const WeightSet& set, const std::string& name) const {
    const Shape shape = set.Find(name)->shape();
    const auto held = store_->Get(Reads(name, shape), set);
    EXPECT_OK(held);
    return held.ok() ? testing::ToDoubles(testing::OnHost(**held)) : std::vector<double>();
  }

  // Expects that the weight is these elements.
  void ExpectWeight(const Weight& weight, const std::vector<double>& actual,
                    const Element& expected) const {
    ASSERT_EQ(static_cast<int64_t>(actual.size()), weight.shape().elements());
    size_t at = 0;
    weight.ForEach([&](int64_t o, int64_t i, int64_t y, int64_t x) {
      EXPECT_NEAR(actual[at++], expected(o, i, y, x), 1e-5)
          << o << " " << i << " " << y << " " << x;
    });
  }

  // Expects that a LoRA of that delta, scale and user's weight adds all of them.
  void ExpectAdds(const Weight& weight, adapters::Delta delta, const Element& element) const {
    const WeightChange change = {
        .weight = weight.name, .shape = weight.shape(), .delta = std::move(delta), .scale = 0.5};
    for (const double by : {1.0, -0.6, 1.5}) {
      const Element w = weight.element();
      ExpectWeight(weight, Read(*Merge({Of(change, by)}), weight.name),
                   [&](int64_t o, int64_t i, int64_t y, int64_t x) {
                     return w(o, i, y, x) + by * 0.5 * element(o, i, y, x);
                   });
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<weights::WeightStore> store_;
  std::shared_ptr<const WeightSet> base_;
};

TEST_P(MergedLorasTest, AddTheProductOfTheirMatrices) {
  const Numbers up({6, 3}, 1), down({3, 10}, 2);
  ExpectAdds(kToQ, LowRank{.down = down.Stored(), .up = up.Stored()},
             [&](int64_t o, int64_t i, int64_t, int64_t) {
               double sum = 0;
               for (int64_t r = 0; r < 3; ++r) sum += up.At({o, r}) * down.At({r, i});
               return sum;
             });
}

TEST_P(MergedLorasTest, AddToConvolutions) {
  const Numbers up({6, 2}, 1), down({2, 36}, 2);
  ExpectAdds(kConv, LowRank{.down = down.Stored(), .up = up.Stored()},
             [&](int64_t o, int64_t i, int64_t y, int64_t x) {
               double sum = 0;
               for (int64_t r = 0; r < 2; ++r)
                 sum += up.At({o, r}) * down.At({r, i * 9 + y * 3 + x});
               return sum;
             });
}

TEST_P(MergedLorasTest, AddToConvolutionsByAMiddle) {
  const Numbers up({6, 2}, 1), mid({2, 2, 3, 3}, 3), down({2, 4}, 2);
  ExpectAdds(kConv, LowRank{.down = down.Stored(), .up = up.Stored(), .mid = mid.Stored()},
             [&](int64_t o, int64_t i, int64_t y, int64_t x) {
               double sum = 0;
               for (int64_t m = 0; m < 2; ++m) {
                 for (int64_t n = 0; n < 2; ++n) {
                   sum += up.At({o, m}) * mid.At({m, n, y, x}) * down.At({n, i});
                 }
               }
               return sum;
             });
}

TEST_P(MergedLorasTest, AddTheElementwiseProductOfTwoProducts) {
  const Numbers a1({6, 2}, 1), b1({2, 36}, 2), a2({6, 3}, 3), b2({3, 36}, 4);
  ExpectAdds(kConv, Hadamard{a1.Stored(), b1.Stored(), a2.Stored(), b2.Stored(), {}, {}},
             [&](int64_t o, int64_t i, int64_t y, int64_t x) {
               double first = 0, second = 0;
               const int64_t column = i * 9 + y * 3 + x;
               for (int64_t r = 0; r < 2; ++r) first += a1.At({o, r}) * b1.At({r, column});
               for (int64_t r = 0; r < 3; ++r) second += a2.At({o, r}) * b2.At({r, column});
               return first * second;
             });
}

// As LyCORIS' make_weight has it: "i j k l, j r, i p -> p r k l".
double TuckerElement(const Numbers& t, const Numbers& a, const Numbers& b, int64_t rank, int64_t p,
                     int64_t r, int64_t y, int64_t x) {
  double sum = 0;
  for (int64_t i = 0; i < rank; ++i) {
    for (int64_t j = 0; j < rank; ++j) sum += t.At({i, j, y, x}) * b.At({j, r}) * a.At({i, p});
  }
  return sum;
}

TEST_P(MergedLorasTest, AddTheElementwiseProductOfTwoTuckerProducts) {
  const Numbers a1({2, 6}, 1), b1({2, 4}, 2), t1({2, 2, 3, 3}, 3);
  const Numbers a2({3, 6}, 4), b2({3, 4}, 5), t2({3, 3, 3, 3}, 6);
  ExpectAdds(
      kConv, Hadamard{a1.Stored(), b1.Stored(), a2.Stored(), b2.Stored(), t1.Stored(), t2.Stored()},
      [&](int64_t o, int64_t i, int64_t y, int64_t x) {
        return TuckerElement(t1, a1, b1, 2, o, i, y, x) * TuckerElement(t2, a2, b2, 3, o, i, y, x);
      });
}

TEST_P(MergedLorasTest, AddTheKroneckerProductOfMatrices) {
  const Numbers w1({2, 5}, 1), w2({3, 2}, 2);
  ExpectAdds(kToQ, Kronecker{.w1 = w1.Stored(), .w2 = w2.Stored()},
             [&](int64_t o, int64_t i, int64_t, int64_t) {
               return w1.At({o / 3, i / 2}) * w2.At({o % 3, i % 2});
             });
}

TEST_P(MergedLorasTest, AddTheKroneckerProductOfFactoredConvolutions) {
  const Numbers a1({2, 2}, 1), b1({2, 2}, 2), a2({3, 2}, 3), b2({2, 18}, 4);
  ExpectAdds(
      kConv,
      Kronecker{.w1_a = a1.Stored(), .w1_b = b1.Stored(), .w2_a = a2.Stored(), .w2_b = b2.Stored()},
      [&](int64_t o, int64_t i, int64_t y, int64_t x) {
        double outer = 0, inner = 0;
        for (int64_t r = 0; r < 2; ++r) {
          outer += a1.At({o / 3, r}) * b1.At({r, i / 2});
          inner += a2.At({o % 3, r}) * b2.At({r, i % 2 * 9 + y * 3 + x});
        }
        return outer * inner;
      });
}

TEST_P(MergedLorasTest, AddTheKroneckerProductOfATuckerProduct) {
  const Numbers w1({3, 2}, 1), a({2, 2}, 2), b({2, 2}, 3), t({2, 2, 3, 3}, 4);
  ExpectAdds(kConv,
             Kronecker{.w1 = w1.Stored(), .w2_a = a.Stored(), .w2_b = b.Stored(), .t2 = t.Stored()},
             [&](int64_t o, int64_t i, int64_t y, int64_t x) {
               return w1.At({o / 2, i / 2}) * TuckerElement(t, a, b, 2, o % 2, i % 2, y, x);
             });
}

TEST_P(MergedLorasTest, AddDifferences) {
  const Numbers diff({6, 10}, 1), bias({6}, 2);
  ExpectAdds(kToQ, Difference{diff.Stored()}, [&](int64_t o, int64_t i, int64_t, int64_t) {
    return diff.At({o, i});
  });
  const WeightChange change = {
      .weight = "unet/to_q.bias", .shape = {6}, .delta = Difference{bias.Stored()}};
  const std::vector<double> changed = Read(*Merge({Of(change, 2)}), "unet/to_q.bias");
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(changed[i], Numbers({6}, 5).At({i}) + 2 * bias.At({i}), 1e-6);
  }
}

// An inpainting UNet has more input channels than the model that the LoRA was made for.
TEST_P(MergedLorasTest, LeaveChannelsThatTheyLack) {
  const Numbers up({6, 1}, 1), down({1, 18}, 2);
  const WeightChange change = {.weight = kConvolution,
                               .shape = {6, 2, 3, 3},
                               .delta = LowRank{.down = down.Stored(), .up = up.Stored()}};
  const Element w = kConv.element();
  ExpectWeight(kConv, Read(*Merge({Of(change)}), kConvolution),
               [&](int64_t o, int64_t i, int64_t y, int64_t x) {
                 const double delta = i < 2 ? up.At({o, 0}) * down.At({0, i * 9 + y * 3 + x}) : 0;
                 return w(o, i, y, x) + delta;
               });
}

// A LoRA of one product, with a magnitude.
class Dora {
 public:
  Dora(const Weight& weight, Magnitude::Rule rule, Magnitude::Axis axis)
      : weight_(weight),
        up_({weight.out, 2}, 1),
        down_({2, weight.in * weight.side * weight.side}, 2),
        values_({axis == Magnitude::Axis::kRows ? weight.out : weight.in}, 3) {
    change_ = {.weight = weight.name,
               .shape = weight.shape(),
               .delta = LowRank{.down = down_.Stored(), .up = up_.Stored()},
               .scale = 0.5,
               .magnitude = Magnitude{values_.Stored(), rule, axis}};
  }

  const WeightChange& change() const { return change_; }

  // W plus `by` times the delta.
  double Sum(double by, int64_t o, int64_t i, int64_t y, int64_t x) const {
    const int64_t column = (i * weight_.side + y) * weight_.side + x;
    double product = 0;
    for (int64_t r = 0; r < 2; ++r) product += up_.At({o, r}) * down_.At({r, column});
    return weight_.element()(o, i, y, x) + by * 0.5 * product;
  }

  // The magnitude over the length of the element's row or column.
  double Factor(double by, int64_t row, int64_t column) const {
    const bool by_rows = change_.magnitude->axis == Magnitude::Axis::kRows;
    double squares = 0;
    weight_.ForEach([&](int64_t o, int64_t i, int64_t y, int64_t x) {
      if (by_rows ? o == row : i == column) squares += std::pow(Sum(by, o, i, y, x), 2);
    });
    return values_.At({by_rows ? row : column}) / std::sqrt(squares);
  }

 private:
  Weight weight_;
  Numbers up_, down_, values_;
  WeightChange change_;
};

TEST_P(MergedLorasTest, GiveRowsTheirMagnitudeAsPeft) {
  for (const Weight& weight : {kToQ, kConv}) {
    const Dora dora(weight, Magnitude::Rule::kPeft, Magnitude::Axis::kRows);
    for (const double by : {1.0, 0.4, 0.0, -1.0}) {
      ExpectWeight(weight, Read(*Merge({Of(dora.change(), by)}), weight.name),
                   [&](int64_t o, int64_t i, int64_t y, int64_t x) {
                     return dora.Sum(by, o, i, y, x) * dora.Factor(by, o, i);
                   });
    }
  }
}

TEST_P(MergedLorasTest, GiveRowsOrColumnsTheirMagnitudeAsLycoris) {
  for (const Weight& weight : {kToQ, kConv}) {
    for (const auto axis : {Magnitude::Axis::kRows, Magnitude::Axis::kColumns}) {
      const Dora dora(weight, Magnitude::Rule::kLycoris, axis);
      for (const double by : {1.0, 0.4, -1.0}) {
        const Element w = weight.element();
        ExpectWeight(weight, Read(*Merge({Of(dora.change(), by)}), weight.name),
                     [&](int64_t o, int64_t i, int64_t y, int64_t x) {
                       const double full = dora.Sum(1, o, i, y, x) * dora.Factor(1, o, i);
                       return w(o, i, y, x) + by * (full - w(o, i, y, x));
                     });
      }
      EXPECT_EQ(Merge({Of(dora.change(), 0)}), base_);
    }
  }
}

TEST_P(MergedLorasTest, HaveAMagnitudeAfterWhatIsAdded) {
  const Dora dora(kToQ, Magnitude::Rule::kLycoris, Magnitude::Axis::kRows);
  const WeightChange nothing = {.weight = kLinear,
                                .shape = kToQ.shape(),
                                .delta = Difference{Numbers({6, 10}, 11).Stored()},
                                .scale = 1};
  // The difference is W itself, so that it is doubled before.
  const auto first = Merge({Of(nothing), Of(dora.change())});
  const auto last = Merge({Of(dora.change()), Of(nothing)});
  EXPECT_EQ(Read(*first, kLinear), Read(*last, kLinear));
  double squares = 0;
  for (const double value : Read(*first, kLinear)) squares += value * value;
  double magnitudes = 0;
  const Numbers values({6}, 3);
  for (int64_t o = 0; o < 6; ++o) magnitudes += std::pow(values.At({o}), 2);
  EXPECT_NEAR(squares, magnitudes, 1e-4);
}

WeightChange RandomChange(unsigned seed) {
  return {.weight = kLinear,
          .shape = kToQ.shape(),
          .delta = LowRank{.down = Numbers({3, 10}, seed).Stored(),
                           .up = Numbers({6, 3}, seed + 100).Stored()}};
}

TEST_P(MergedLorasTest, AreTheSameBytesInAnyOrder) {
  const WeightedLora a = Of(RandomChange(1), 0.8), b = Of(RandomChange(2), -0.5),
                     c = Of(RandomChange(3), 0.3);
  const graph::Graph reads = Reads(kLinear, kToQ.shape());
  const auto key = [&](const std::vector<WeightedLora>& loras) {
    return store_->NeedsOf(reads, *Merge(loras))->key;
  };
  for (const auto& loras : {std::vector{a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}}) {
    EXPECT_EQ(key(loras), key({a, b, c}));
    EXPECT_EQ(Read(*Merge(loras), kLinear), Read(*Merge({a, b, c}), kLinear));
  }
  EXPECT_NE(key({a, b}), key({a, b, c}));
  EXPECT_NE(key({Of(RandomChange(1), 0.7), b, c}), key({a, b, c}));
}

// Two sets, one after the other: the second is made of tensors that are kept for the first.
TEST_P(MergedLorasTest, AreTheSameBytesOfTensorsThatTheDeviceKeeps) {
  const auto first = Merge({Of(RandomChange(1), 0.8)}), second = Merge({Of(RandomChange(2), -0.5)});
  const std::vector<double> wanted = Read(*second, kLinear);
  store_->kept_tensors().SetLimit(1 << 20);
  Read(*first, kLinear);
  EXPECT_EQ(store_->kept_tensors().bytes(), device::MemoryPool::RoundedUp(6 * 10 * sizeof(float)));
  EXPECT_EQ(Read(*second, kLinear), wanted);
}

// Memory of the device is at another address than its buffers say.
TEST(MergedLorasApartTest, AreTheSameBytesOfTensorsThatTheDeviceKeeps) {
  testing::SeparateDevice device;
  const auto backend = cpu::CpuBackend::Create({.threads = 2, .device = &device}).value();
  weights::WeightStore store(*backend);
  auto base = std::make_shared<WeightSet>(&store, "base");
  base->Add("unet", weights::TensorMap{{"to_q.weight", kToQ.numbers().Stored()}});
  graph::GraphBuilder b;
  b.Output("result", b.Weight(kLinear, kToQ.shape()));
  const graph::Graph reads = std::move(b).Build().value();
  const auto read = [&](unsigned seed) -> absl::StatusOr<std::vector<double>> {
    ASSIGN_OR_RETURN(const auto merged, MergeLoras(base, {Of(RandomChange(seed))}));
    ASSIGN_OR_RETURN(const weights::WeightRef held, store.Get(reads, *merged));
    ASSIGN_OR_RETURN(const Buffer copy, testing::CopyToHost(device, *held));
    return testing::ToDoubles(copy);
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<double> wanted, read(1));
  store.kept_tensors().SetLimit(1 << 20);
  ASSERT_OK(read(2));
  ASSERT_GT(store.kept_tensors().bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const std::vector<double> of_kept, read(1));
  EXPECT_EQ(of_kept, wanted);
}

// Both are recipes of the merged weight: with the base's scale, larger numbers would saturate.
TEST(MergedLorasInF8Test, HaveTheScaleOfWhatIsMerged) {
  reference::ReferenceBackend backend;
  weights::WeightStore store(backend);
  auto base = std::make_shared<WeightSet>(&store, "base");
  base->Add("unet", weights::TensorMap{{"to_q.weight", kToQ.numbers().Stored()}});
  graph::GraphBuilder of_scale, of_weight;
  const auto scale = [](graph::GraphBuilder& b) {
    const graph::Value row = b.Reshape(b.Weight(kLinear, kToQ.shape()), {1, 60});
    return b.F8Scale(b.Reshape(b.RowNorm(row, {.euclidean = false}), {}));
  };
  of_scale.Output("result", scale(of_scale));
  const graph::Value quantised =
      of_weight.Quantize(of_weight.Weight(kLinear, kToQ.shape()), scale(of_weight));
  of_weight.Output("result", of_weight.Cast(quantised, DType::kF32));
  const graph::Graph scales = std::move(of_scale).Build().value(),
                     weights = std::move(of_weight).Build().value();
  const auto read = [&](const graph::Graph& recipe, const WeightSet& set) {
    return testing::ToDoubles(testing::OnHost(*store.Get(recipe, set).value()));
  };
  const Numbers more(kToQ.shape(), 3);
  ASSERT_OK_AND_ASSIGN(const auto merged,
                       MergeLoras(base, {Of({.weight = kLinear,
                                             .shape = kToQ.shape(),
                                             .delta = Difference{.diff = more.Stored()}},
                                            100)}));
  const double of_base = read(scales, *base).at(0), own = read(scales, *merged).at(0);
  EXPECT_GE(own, 64 * of_base);  // both are powers of two
  const std::vector<double> codes = read(weights, *merged);
  const Element w = kToQ.element();
  size_t at = 0;
  kToQ.ForEach([&](int64_t o, int64_t i, int64_t y, int64_t x) {
    const double wanted = w(o, i, y, x) + 100 * more.At({o, i});
    EXPECT_NEAR(codes[at++] * own, wanted, std::abs(wanted) / 16 + own / 512) << o << " " << i;
  });
  EXPECT_EQ(read(scales, *base).at(0), of_base);
}

TEST_P(MergedLorasTest, AddUp) {
  const std::vector<double> w = Read(*base_, kLinear);
  const WeightedLora a = Of(RandomChange(1), 0.8), b = Of(RandomChange(2), -0.5);
  const std::vector<double> with_a = Read(*Merge({a}), kLinear),
                            with_b = Read(*Merge({b}), kLinear),
                            both = Read(*Merge({a, b}), kLinear);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_NEAR(both[i], with_a[i] + with_b[i] - w[i], 1e-5);
    EXPECT_NE(with_a[i], w[i]);
  }
}

TEST_P(MergedLorasTest, LeaveWhatTheyDoNotChange) {
  const auto merged = Merge({Of(RandomChange(1))});
  EXPECT_EQ(merged->name(), "base");
  EXPECT_EQ(merged->Find("unet/to_k.weight")->make, nullptr);
  const graph::Graph reads = Reads("unet/to_k.weight", kToQ.shape());
  EXPECT_EQ(store_->NeedsOf(reads, *merged)->key, store_->NeedsOf(reads, *base_)->key);
}

TEST_P(MergedLorasTest, AreNotThereWithTheWeightZero) {
  EXPECT_EQ(Merge({Of(RandomChange(1), 0)}), base_);
  EXPECT_EQ(Merge({}), base_);
  EXPECT_EQ(Read(*Merge({Of(RandomChange(1)), Of(RandomChange(2), 0)}), kLinear),
            Read(*Merge({Of(RandomChange(1))}), kLinear));
}

TEST_P(MergedLorasTest, HaveAWeightForEachComponent) {
  Lora lora = {.name = "film", .changes = {}};
  for (const char* component : {"text_encoder", "text_encoder_2", "unet"}) {
    lora.changes.push_back(RandomChange(1));
    lora.changes.back().weight = absl::StrCat(component, "/to_q.weight");
  }
  const auto merged = Merge({{std::make_shared<const Lora>(lora), 0.25, 0.5, 2}});
  const auto expected = [&](double by) { return Read(*Merge({Of(RandomChange(1), by)}), kLinear); };
  EXPECT_EQ(Read(*merged, "unet/to_q.weight"), expected(0.25));
  EXPECT_EQ(Read(*merged, "text_encoder/to_q.weight"), expected(0.5));
  EXPECT_EQ(Read(*merged, "text_encoder_2/to_q.weight"), expected(2));
}

TEST_P(MergedLorasTest, NameWhatDoesNotFit) {
  WeightChange change = RandomChange(1);
  change.weight = "unet/no_such.weight";
  EXPECT_THAT(MergeLoras(base_, {Of(change)}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("LoRA film"), HasSubstr("unet/no_such.weight"))));
  change.weight = kConvolution;
  EXPECT_THAT(MergeLoras(base_, {Of(change)}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("LoRA film"), HasSubstr(kConvolution))));
  change = RandomChange(1);
  change.magnitude =
      Magnitude{Numbers({5}, 1).Stored(), Magnitude::Rule::kPeft, Magnitude::Axis::kRows};
  EXPECT_THAT(MergeLoras(base_, {Of(change)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a magnitude of 5 numbers")));
}

TEST_P(MergedLorasTest, PadNothingButConvolutions) {
  WeightChange change = RandomChange(1);
  change.shape = {6, 4};
  change.delta = Difference{Numbers({6, 4}, 1).Stored()};
  EXPECT_THAT(MergeLoras(base_, {Of(change)}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("LoRA film"), HasSubstr("a change of [6,4]"))));
  change.weight = kConvolution;
  change.shape = {3, 2, 3, 3};
  change.delta = Difference{Numbers({3, 2, 3, 3}, 1).Stored()};
  EXPECT_THAT(MergeLoras(base_, {Of(change)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a change of [3,2,3,3]")));
}

TEST_P(MergedLorasTest, RefuseFactorsThatFloat32HasNot) {
  WeightChange change = RandomChange(1);
  change.scale = 1e30;
  EXPECT_OK(MergeLoras(base_, {Of(change, 1e8)}));
  for (const double weight : {1e30, -1e30, std::nan("")}) {
    EXPECT_THAT(
        MergeLoras(base_, {Of(change, weight)}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("LoRA film"), HasSubstr(kLinear), HasSubstr("beyond float32"))));
  }
  // A factor of its own, outside of the norm.
  const Dora dora(kToQ, Magnitude::Rule::kLycoris, Magnitude::Axis::kRows);
  EXPECT_THAT(MergeLoras(base_, {Of(dora.change(), 1e39)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beyond float32")));
}

INSTANTIATE_TEST_SUITE_P(Backends, MergedLorasTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace latentd::backends
