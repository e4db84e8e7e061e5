// Every op of the op table on the CUDA backend, in every float dtype and with TF32, against the
// reference backend.
#include <gtest/gtest.h>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using backends::cuda::CudaBackend;
using device::Buffer;

using BackendOr = absl::StatusOr<std::unique_ptr<CudaBackend>>;

// Null where there is no GPU.
CudaBackend* Cuda() {
  static const auto* backend = new BackendOr(CudaBackend::Create());
  return backend->ok() ? (*backend)->get() : nullptr;
}
CudaBackend* CudaInTf32() {
  static const auto* backend = new BackendOr(CudaBackend::Create({.tf32 = true}));
  return backend->ok() ? (*backend)->get() : nullptr;
}

template <typename Parameter>
class GpuTest : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (Cuda() == nullptr) GTEST_SKIP() << "no GPU";
  }
};

class CudaConformance : public GpuTest<OpCase> {};

TEST_P(CudaConformance, ComputesWhatTheReferenceDoes) {
  const PreparedCase p = Prepare(GetParam());
  ASSERT_NE(p.graph, nullptr);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, RunOn(reference, p));
  ExpectOutputs("cuda", RunOn(*Cuda(), p), expected);
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaConformance, ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

// The error of a product is like the sum of its operands' errors, each of which is one of several
// roundings of 2^-11. The case is left out that multiplies scores near 100 by such an error and
// then takes their exponent.
std::vector<OpCase> CasesInTf32() {
  std::vector<OpCase> cases = AllOpCases();
  std::erase_if(cases, [](const OpCase& c) { return c.name == "attention_sharp"; });
  return cases;
}

class CudaTf32Conformance : public GpuTest<OpCase> {};

TEST_P(CudaTf32Conformance, IsOffByWhatOperandsAreRoundedBy) {
  constexpr int kOfAnOp = 4;
  const PreparedCase p = Prepare(GetParam());
  ASSERT_NE(p.graph, nullptr);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, RunOn(reference, p));
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*CudaInTf32(), p));
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(outputs[i].dtype(), expected[i].dtype());
    EXPECT_EQ(RoundedDifference(outputs[i], expected[i], kOfAnOp * RoundingsOf(*p.graph)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaTf32Conformance, ::testing::ValuesIn(CasesInTf32()),
                         [](const auto& info) { return info.param.name; });

// Attention rounds its weights to its own dtype before it multiplies values with them, a low-rank
// path its sums before they are multiplied again, and cuBLASLt
// some products before it adds a bias: those whose lines do not begin at multiples of 16 bytes.
int RoundingsOnGpu(const graph::Graph& graph) {
  constexpr size_t kWithBias = 3;
  int roundings = RoundingsOf(graph);
  for (const graph::Node& node : graph.nodes()) {
    const bool product = node.op == graph::Op::kLinear || node.op == graph::Op::kConv2d;
    if (const auto* fused = std::get_if<graph::FusedAttributes>(&node.attributes)) {
      roundings += static_cast<int>(fused->body->Select(graph::Op::kLowRank).size());
    }
    roundings += node.op == graph::Op::kAttention || node.op == graph::Op::kLowRank;
    roundings += product && node.operands.size() == kWithBias;
  }
  return roundings;
}

class CudaLowPrecision : public GpuTest<LowCase> {};

TEST_P(CudaLowPrecision, RoundsWhatIsComputedInF32) {
  const LowRun run = PrepareLow(GetParam());
  ASSERT_NE(run.graph, nullptr);
  ExpectRounded(*Cuda(), run, RoundingsOnGpu(*run.graph));
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaLowPrecision, ::testing::ValuesIn(LowCases()), LowCaseName);

}  // namespace
}  // namespace latentd::testing
