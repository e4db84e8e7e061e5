// Every op of the op table in bf16 and f16 on the CPU backend: the same operands, as they are
// rounded, in f32 on the reference backend, give the same result but for its own rounding.
#include "tests/conformance/low_precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/op_table.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;

absl::StatusOr<std::vector<Buffer>> RunOn(backends::Backend& backend, const graph::Graph& graph,
                                          const Leaves& leaves) {
  weights::WeightStore store(backend);
  weights::WeightSet set(&store);
  set.Add("net", leaves.weights);
  return RunGraph(backend, std::make_shared<const graph::Graph>(graph), set, leaves.inputs);
}

// Half the distance of two neighbours, relative to what lies between them.
double UnitRoundoff(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11; }

// Half of that distance where numbers are too small for it to be relative; what becomes infinite.
constexpr double kLeastF16 = 0x1p-25, kInfiniteF16 = 65520;

// How often a graph rounds, at most.
int RoundingsOf(const graph::Graph& graph) {
  int roundings = 0;
  for (const graph::Node& node : graph.nodes()) {
    const auto* fused = std::get_if<graph::FusedAttributes>(&node.attributes);
    roundings += fused != nullptr ? RoundingsOf(*fused->body) : !graph::IsLeaf(node.op);
  }
  return roundings;
}

// The first element that is too far off, or "". One rounding is known to the bit but for the noise
// of f32 itself; later ones see the earlier ones' errors, which are relative to other values.
std::string Difference(const Buffer& actual, const Buffer& expected, int roundings) {
  const std::vector<double> values = ToDoubles(actual), wanted = ToDoubles(expected);
  if (values.size() != wanted.size()) return "another number of elements";
  const Tolerance f32 = ToleranceOf("cpu", DType::kF32);
  double largest = 1;
  for (double value : wanted)
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool nan = std::isnan(values[i]) && std::isnan(wanted[i]);
    if (nan || values[i] == wanted[i]) continue;
    const double size = std::abs(wanted[i]);
    const double scale = roundings > 1 ? (roundings + 1) * largest : size;
    const double allowed = actual.dtype() == DType::kU8 ? 0
                                                        : f32.abs + f32.rel * size + kLeastF16 +
                                                              UnitRoundoff(actual.dtype()) * scale;
    const bool infinite = actual.dtype() == DType::kF16 && size >= kInfiniteF16;
    if (infinite ? std::isinf(values[i]) : std::abs(values[i] - wanted[i]) <= allowed) continue;
    return absl::StrCat("element ", i, " is ", values[i], ", not ", wanted[i], " within ", allowed);
  }
  return "";
}

class LowPrecision : public ::testing::TestWithParam<std::tuple<OpCase, DType>> {};

TEST_P(LowPrecision, CpuRoundsWhatIsComputedInF32InEveryInstructionSet) {
  const auto& [c, dtype] = GetParam();
  graph::GraphBuilder b;
  c.build(b);
  ASSERT_OK_AND_ASSIGN(const graph::Graph wide, std::move(b).Build());
  const graph::Graph low = InDType(wide, dtype);
  const Leaves leaves = RandomLeaves(low, /*seed=*/17);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, RunOn(reference, wide, Widened(leaves)));
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*cpu, low, leaves));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_float = expected[i].dtype() == DType::kF32;
      EXPECT_EQ(outputs[i].dtype(), is_float ? dtype : expected[i].dtype());
      EXPECT_EQ(outputs[i].shape(), expected[i].shape());
      EXPECT_EQ(Difference(outputs[i], expected[i], RoundingsOf(low)), "") << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, LowPrecision,
                         ::testing::Combine(::testing::ValuesIn(CasesOfEveryDType()),
                                            ::testing::Values(DType::kBF16, DType::kF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::string(device::Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace latentd::testing
