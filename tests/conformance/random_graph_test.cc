// Random graphs through the text form, the split by rate, the passes and the CPU backend: they stay
// what the reference backend computes.
#include "tests/conformance/random_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/op_table.h"
#include "core/graph/split.h"
#include "core/graph/target.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using graph::Graph;
using graph::Op;
using graph::ValueId;

constexpr unsigned kFirstSeed = 1;
constexpr int kGraphs = 400;
// The first so many of them are run. With a sanitizer, which is there for what kernels and passes
// do to memory, fewer: all numbers are compared in release.
#ifdef LATENTD_SANITIZED
constexpr int kCompared = 150;
#else
constexpr int kCompared = kGraphs;
#endif

// A change of the leaves by `nudge` and what it changes say how much of a result is rounding: two
// ways to compute it may differ by `roundings` times that, and by the backend's tolerance.
struct Rounding {
  device::DType dtype;  // dtype in which the graph computes
  float nudge;
  double roundings;
  double too_sensitive;  // beyond this (of the largest value) nothing can be said
};
constexpr Rounding kRoundings[] = {{device::DType::kF32, 1e-6f, 20, 1e-3},
                                   {device::DType::kBF16, 4e-3f, 4, 0.1},
                                   {device::DType::kF16, 5e-4f, 4, 0.02}};

const Rounding& RoundingOf(device::DType dtype) {
  return *std::find_if(std::begin(kRoundings), std::end(kRoundings),
                       [&](const Rounding& row) { return row.dtype == dtype; });
}

// One graph with its leaves, and what the reference backend makes of them, in `dtype`.
class RandomCase {
 public:
  RandomCase(unsigned seed, device::DType dtype)
      : rounding_(RoundingOf(dtype)),
        graph_(passes::ChoosePrecision(RandomGraph(seed), {dtype}).value()),
        leaves_(RandomLeaves(graph_, seed)),
        nudged_(Nudged(leaves_, seed)) {
    expected_ = Run(reference_, graph_);
    MeasureSensitivity(Run(reference_, graph_, nudged_.inputs, nudged_.weights));
  }

  const Graph& graph() const { return graph_; }  // in `dtype`
  const Leaves& leaves() const { return leaves_; }
  bool comparable() const { return comparable_; }

  std::vector<Buffer> Run(backends::Backend& backend, const Graph& graph) {
    return Run(backend, graph, leaves_.inputs);
  }
  std::vector<Buffer> Run(backends::Backend& backend, const Graph& graph,
                          const std::vector<device::ConstBuffer>& inputs) {
    return Run(backend, graph, inputs, leaves_.weights);
  }

  // "", or the first element that is too far from what is expected.
  std::string Difference(const std::vector<Buffer>& actual) const {
    if (actual.size() != expected_.size()) return "another number of outputs";
    for (size_t i = 0; i < actual.size(); ++i) {
      if (actual[i].shape() != expected_[i].shape()) return absl::StrCat("the shape of output ", i);
      const std::vector<double> a = ToDoubles(actual[i]), b = ToDoubles(expected_[i]);
      for (size_t j = 0; j < a.size(); ++j) {
        if (std::abs(a[j] - b[j]) <= allowed_[i]) continue;
        return absl::StrCat("element ", j, " of output ", i, " is ", a[j], ", not ", b[j],
                            " within ", allowed_[i]);
      }
    }
    return "";
  }

 private:
  static std::vector<Buffer> Run(backends::Backend& backend, const Graph& graph,
                                 const std::vector<device::ConstBuffer>& inputs,
                                 const weights::TensorMap& weights) {
    weights::WeightStore store(backend);
    weights::WeightSet set(&store);
    set.Add("net", weights);
    auto outputs = RunGraph(backend, std::make_shared<const Graph>(graph), set, inputs);
    EXPECT_OK(outputs) << graph::ToText(graph);
    return outputs.ok() ? *std::move(outputs) : std::vector<Buffer>();
  }

  void Nudge(device::ConstBuffer& buffer, std::mt19937& random) const {
    if (buffer.dtype() != device::DType::kF32) return;
    std::uniform_real_distribution<float> by(-rounding_.nudge, rounding_.nudge);
    const Buffer nudged = Buffer::Allocate(buffer.dtype(), buffer.shape());
    for (size_t i = 0; i < nudged.as<float>().size(); ++i) {
      nudged.as<float>()[i] = buffer.as<float>()[i] * (1 + by(random));
    }
    buffer = nudged;
  }

  Leaves Nudged(Leaves leaves, unsigned seed) const {
    std::mt19937 random(seed);
    for (device::ConstBuffer& input : leaves.inputs) Nudge(input, random);
    for (auto& [name, weight] : leaves.weights) Nudge(weight.data, random);
    return leaves;
  }

  void MeasureSensitivity(const std::vector<Buffer>& nudged) {
    for (size_t i = 0; i < nudged.size(); ++i) {
      const std::vector<double> a = ToDoubles(expected_[i]), b = ToDoubles(nudged[i]);
      double largest = 1, change = 0;
      for (size_t j = 0; j < a.size(); ++j) {
        largest = std::max(largest, std::abs(a[j]));
        if (!(std::abs(a[j] - b[j]) <= change)) change = std::abs(a[j] - b[j]);
      }
      const bool is_f32 = expected_[i].dtype() == device::DType::kF32;
      const Tolerance tolerance =
          ToleranceOf("cpu", is_f32 ? rounding_.dtype : expected_[i].dtype());
      allowed_.push_back((tolerance.abs + tolerance.rel) * largest + rounding_.roundings * change);
      comparable_ = comparable_ && std::isfinite(largest) && std::isfinite(change) &&
                    (!is_f32 || change <= rounding_.too_sensitive * largest);
    }
  }

  backends::reference::ReferenceBackend reference_;
  const Rounding& rounding_;
  const Graph graph_;
  const Leaves leaves_, nudged_;
  std::vector<Buffer> expected_;
  std::vector<double> allowed_;  // for each output
  bool comparable_ = true;
};

// Tests ask for the same cases, and the reference backend takes longer over them than most tests
// do: each is made once in the process.
RandomCase& CaseOf(unsigned seed, device::DType dtype) {
  static auto& cases =
      *new std::map<std::pair<unsigned, device::DType>, std::unique_ptr<RandomCase>>;
  std::unique_ptr<RandomCase>& made = cases[{seed, dtype}];
  if (made == nullptr) made = std::make_unique<RandomCase>(seed, dtype);
  return *made;
}

graph::Target InLayout(graph::Target target, graph::Layout layout) {
  target.image_layout = layout;
  return target;
}

// A pass that does not pay there has to be right all the same.
graph::Target ForEveryPass(graph::Target target) {
  target.moves_upsample_bias = true;
  return target;
}

class RandomGraphs : public ::testing::Test {
 protected:
  // Calls `check` with every case that can be compared; nearly all can.
  template <typename Check>
  void ForEach(Check check, device::DType dtype = device::DType::kF32) {
    int compared = 0;
    for (unsigned seed = kFirstSeed; seed < kFirstSeed + kCompared && !HasFailure(); ++seed) {
      SCOPED_TRACE(absl::StrCat("RandomGraph(", seed, ")"));
      RandomCase& c = CaseOf(seed, dtype);
      compared += c.comparable();
      if (c.comparable()) check(c, seed);
    }
    EXPECT_TRUE(HasFailure() || compared >= kCompared * 9 / 10) << compared;
  }

  const passes::PassOptions folding_{.evaluate = backends::reference::EvaluateRecipe};
  backends::reference::ReferenceBackend reference_;
  std::unique_ptr<backends::cpu::CpuBackend> cpu_ = backends::cpu::CpuBackend::Create().value();
  const graph::Target target_ = ForEveryPass(cpu_->target());
};

TEST_F(RandomGraphs, HaveATextThatReadsBack) {
  for (unsigned seed = kFirstSeed; seed < kFirstSeed + kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomGraph(seed);
    ASSERT_OK(Verify(graph));
    const std::string text = ToText(graph);
    ASSERT_OK_AND_ASSIGN(const Graph read, graph::ParseText(text));
    ASSERT_EQ(ToText(read), text);
    ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(graph, target_, folding_));
    ASSERT_OK_AND_ASSIGN(const Graph read_again, graph::ParseText(ToText(optimised)));
    ASSERT_EQ(ToText(read_again), ToText(optimised));
  }
}

TEST_F(RandomGraphs, KeepTheirNumbersThroughThePasses) {
  ForEach([&](RandomCase& c, unsigned) {
    for (graph::Layout layout : {graph::Layout::kNchw, graph::Layout::kNhwc}) {
      const graph::Target target = InLayout(target_, layout);
      ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(c.graph(), target, folding_));
      ASSERT_EQ(c.Difference(c.Run(reference_, optimised)), "") << ToText(optimised);
    }
  });
}

TEST_F(RandomGraphs, KeepTheirNumbersThroughThePassesInLesserPrecision) {
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF16}) {
    const auto check = [&](RandomCase& c, unsigned) {
      ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(c.graph(), target_, folding_));
      ASSERT_EQ(c.Difference(c.Run(reference_, optimised)), "") << ToText(optimised);
    };
    ForEach(check, dtype);
  }
}

TEST_F(RandomGraphs, KeepTheirNumbersWithoutAnyOnePass) {
  ForEach([&](RandomCase& c, unsigned seed) {
    passes::PassOptions options = folding_;
    options.skip = {std::string(passes::Passes()[seed % passes::Passes().size()].name)};
    ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(c.graph(), target_, options));
    ASSERT_EQ(c.Difference(c.Run(reference_, optimised)), "")
        << "without " << *options.skip.begin() << ToText(optimised);
  });
}

TEST_F(RandomGraphs, RunOnTheCpuAsTheReferenceSays) {
  ForEach([&](RandomCase& c, unsigned) {
    ASSERT_EQ(c.Difference(c.Run(*cpu_, c.graph())), "") << ToText(c.graph());
    ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(c.graph(), target_, folding_));
    ASSERT_EQ(c.Difference(c.Run(*cpu_, optimised)), "") << ToText(optimised);
  });
}

TEST_F(RandomGraphs, RunOnTheCpuInLesserPrecisionAsTheReferenceSays) {
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF16}) {
    const auto check = [&](RandomCase& c, unsigned) {
      ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(c.graph(), target_, folding_));
      ASSERT_EQ(c.Difference(c.Run(*cpu_, optimised)), "") << ToText(optimised);
    };
    ForEach(check, dtype);
  }
}

// Results of the request part for all rows, one after the other, by name.
using NamedBuffers = std::map<std::string, device::ConstBuffer>;
NamedBuffers RunRequest(RandomCase& c, backends::Backend& backend, const Graph& request) {
  NamedBuffers given;
  const std::vector<ValueId> all = c.graph().Select(Op::kInput);
  for (size_t i = 0; i < all.size(); ++i) {
    given[c.graph().node(all[i]).name] = c.leaves().inputs[i];
  }
  const std::vector<ValueId> inputs = request.Select(Op::kInput);
  const int64_t rows = given.at(request.node(inputs[0]).name).shape()[0];
  std::map<std::string, Buffer> packed;
  for (const graph::Output& output : request.outputs()) {
    const graph::Node& result = request.node(output.value);
    packed[output.name] = Buffer::Allocate(result.dtype, {rows, result.shape[1]});
  }
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<device::ConstBuffer> of_row;
    for (ValueId id : inputs) of_row.push_back(given.at(request.node(id).name).Rows(row, row + 1));
    const std::vector<Buffer> made = c.Run(backend, request, of_row);
    for (size_t i = 0; i < made.size(); ++i) {
      const Buffer& rows_of = packed.at(request.outputs()[i].name);
      std::memcpy(rows_of.Rows(row, row + 1).data(), made[i].data(), made[i].bytes());
    }
  }
  return {packed.begin(), packed.end()};
}

TEST_F(RandomGraphs, SplitByRateIntoPartsThatGiveTheSame) {
  int split_in_two = 0;
  const auto check = [&](RandomCase& c, unsigned) {
    const absl::StatusOr<graph::SplitGraphs> split = graph::SplitByRate(c.graph());
    if (!split.ok()) {
      ASSERT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument) << split.status();
      return;
    }
    ASSERT_OK(Verify(split->step));
    if (!split->request) return;
    ++split_in_two;
    ASSERT_OK(Verify(*split->request));
    NamedBuffers given = RunRequest(c, reference_, *split->request);
    const std::vector<ValueId> all = c.graph().Select(Op::kInput);
    for (size_t i = 0; i < all.size(); ++i) {
      given[c.graph().node(all[i]).name] = c.leaves().inputs[i];
    }
    std::vector<device::ConstBuffer> inputs;
    for (ValueId id : split->step.Select(Op::kInput)) {
      inputs.push_back(given.at(split->step.node(id).name));
    }
    ASSERT_EQ(c.Difference(c.Run(reference_, split->step, inputs)), "") << ToText(c.graph());
    ASSERT_EQ(c.Difference(c.Run(*cpu_, split->step, inputs)), "") << ToText(c.graph());
  };
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    ForEach(check, dtype);
  }
  EXPECT_GE(split_in_two, kCompared / 10);
}

// Ops, patterns and passes of 8-bit products: no random graph has these, which the CPU backend
// refuses (f8_cases.cc).
constexpr Op kF8Ops[] = {Op::kRowNorm, Op::kF8Scale, Op::kQuantize, Op::kF8Linear, Op::kF8Conv2d};
constexpr absl::string_view kF8Names[] = {
    graph::kF8LinearEpilogue, graph::kF8Conv2dEpilogue, graph::kLayerNormF8,     graph::kGegluF8,
    graph::kF8LinearGeglu,    graph::kAttentionF8,      graph::kGroupNormSiluF8, "f8_results"};

template <typename T, size_t kSize>
bool IsAmong(const T (&all)[kSize], const T& one) {
  return std::find(std::begin(all), std::end(all), one) != std::end(all);
}

// The cases above are worth as much as the ops and patterns that come up in them.
TEST_F(RandomGraphs, HaveEveryOpAndEveryPattern) {
  std::map<Op, int> ops, compared_ops;
  std::map<std::string, int> patterns, compared_patterns;
  for (unsigned seed = kFirstSeed; seed < kFirstSeed + kGraphs; ++seed) {
    const Graph graph = RandomGraph(seed);
    for (const graph::Node& node : graph.nodes()) ++ops[node.op];
    ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(graph, target_, folding_));
    for (ValueId id : optimised.Select(Op::kFused)) {
      ++ops[Op::kFused];
      ++patterns[std::get<graph::FusedAttributes>(optimised.node(id).attributes).kind];
    }
    if (seed + 1 != kFirstSeed + kCompared) continue;
    compared_ops = ops;
    compared_patterns = patterns;
  }
  for (const graph::OpRow& row : graph::OpTable()) {
    const bool is_f8 = IsAmong(kF8Ops, row.op);
    EXPECT_GE(ops[row.op], is_f8 ? 0 : 20) << row.name;
    EXPECT_GE(compared_ops[row.op], is_f8 ? 0 : 1) << row.name;
  }
  for (const std::string& kind : target_.fused) {
    const bool is_f8 = IsAmong(kF8Names, absl::string_view(kind));
    EXPECT_GE(patterns[kind], is_f8 ? 0 : 10) << kind;
    EXPECT_GE(compared_patterns[kind], is_f8 ? 0 : 1) << kind;
  }
}

// Graphs that are another one without a pass: so many say that it has something to do. With a
// sanitizer no more of them are looked for, which takes minutes there.
constexpr int kEnough = 10;
#ifdef LATENTD_SANITIZED
constexpr int kLookedFor = kEnough;
#else
constexpr int kLookedFor = kGraphs;
#endif

TEST_F(RandomGraphs, GiveEveryPassSomethingToDo) {
  std::map<absl::string_view, int> changed;
  for (unsigned seed = kFirstSeed; seed < kFirstSeed + kGraphs; ++seed) {
    ASSERT_OK_AND_ASSIGN(const Graph graph,
                         passes::ChoosePrecision(RandomGraph(seed), {device::DType::kBF16}));
    ASSERT_OK_AND_ASSIGN(const Graph all, RunPasses(graph, target_, folding_));
    for (const passes::Pass& pass : passes::Passes()) {
      if (changed[pass.name] >= kLookedFor) continue;
      passes::PassOptions options = folding_;
      options.skip = {std::string(pass.name)};
      ASSERT_OK_AND_ASSIGN(const Graph without, RunPasses(graph, target_, options));
      changed[pass.name] += ToText(without) != ToText(all);
    }
  }
  for (const passes::Pass& pass : passes::Passes()) {
    EXPECT_GE(changed[pass.name], IsAmong(kF8Names, pass.name) ? 0 : kEnough) << pass.name;
  }
}

}  // namespace
}  // namespace latentd::testing
