// Every op of the op table on the CUDA backend, in every float dtype, against the reference
// backend.
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
using device::DType;

// Null where there is no GPU.
CudaBackend* Cuda() {
  static const auto* backend =
      new absl::StatusOr<std::unique_ptr<CudaBackend>>(CudaBackend::Create());
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
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*Cuda(), p));
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].shape(), expected[i].shape());
    EXPECT_EQ(Difference("cuda", outputs[i], ToDoubles(expected[i])), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaConformance, ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

// Attention rounds its weights to its own dtype before it multiplies values with them, and cuBLASLt
// some products before it adds a bias: those whose lines do not begin at multiples of 16 bytes.
int RoundingsOnGpu(const graph::Graph& graph) {
  constexpr size_t kWithBias = 3;
  int roundings = RoundingsOf(graph);
  for (const graph::Node& node : graph.nodes()) {
    const bool product = node.op == graph::Op::kLinear || node.op == graph::Op::kConv2d;
    roundings += node.op == graph::Op::kAttention;
    roundings += product && node.operands.size() == kWithBias;
  }
  return roundings;
}

class CudaLowPrecision : public GpuTest<std::tuple<OpCase, DType>> {};

TEST_P(CudaLowPrecision, RoundsWhatIsComputedInF32) {
  const auto& [c, dtype] = GetParam();
  graph::GraphBuilder b;
  c.build(b);
  ASSERT_OK_AND_ASSIGN(const graph::Graph wide, std::move(b).Build());
  const graph::Graph low = InDType(wide, dtype);
  const Leaves leaves = RandomLeaves(low, /*seed=*/17);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected,
                       RunOn(reference, Share(wide), Widened(leaves)));
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*Cuda(), Share(low), leaves));
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].shape(), expected[i].shape());
    EXPECT_EQ(RoundedDifference(outputs[i], expected[i], RoundingsOnGpu(low)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaLowPrecision,
                         ::testing::Combine(::testing::ValuesIn(CasesOfEveryDType()),
                                            ::testing::Values(DType::kBF16, DType::kF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::string(device::Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace latentd::testing
