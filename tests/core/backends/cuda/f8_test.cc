// 8-bit products on a GPU: every bf16 quantised as the reference does, and a UNet as far from f32's
// as the reference's 8-bit one. Kernels themselves are compared with the reference's in
// tests/conformance.
#include "core/backends/cuda/binders/f8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/device/cuda/cuda_device.h"
#include "core/passes/f8_sites.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "tests/conformance/checks.h"
#include "tests/core/passes/golden_networks.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using device::Buffer;
using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;

class F8Test : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = CudaBackend::Create();
    if (!backend.ok()) GTEST_SKIP() << "no GPU";
    if (absl::StrContains((*backend)->Fingerprint(), "sm-80")) GTEST_SKIP() << "no 8-bit products";
    backend_ = *std::move(backend);
  }

  std::unique_ptr<CudaBackend> backend_;
  reference::ReferenceBackend reference_;
};

// GPUs before Ada are not asked for a product that they have not. Needs no GPU.
TEST(HasF8Test, IsRefusedBeforeAdaWithWhatWouldDo) {
  const auto check = [](int capability) {
    return CheckHasF8({.name = "NVIDIA A100-SXM4-80GB", .compute_capability = capability});
  };
  EXPECT_THAT(check(80),
              testing::StatusIs(absl::StatusCode::kUnimplemented,
                                "NVIDIA A100-SXM4-80GB (compute capability 8.0) has no 8-bit "
                                "products, which came with 8.9: run it with --precision=bf16"));
  EXPECT_THAT(check(86), testing::StatusIs(absl::StatusCode::kUnimplemented, ::testing::_));
  for (const int capability : {89, 90, 100}) EXPECT_OK(check(capability));
}

TEST_F(F8Test, QuantisesEveryBf16AsTheReferenceDoes) {
  constexpr int64_t kAll = 1 << 16;
  const Buffer x = Buffer::Allocate(DType::kBF16, {kAll});
  auto* const codes = static_cast<uint16_t*>(x.data());
  for (int64_t i = 0; i < kAll; ++i) codes[i] = static_cast<uint16_t>(i);
  for (const float scale : {1.f, 0x1p-9f, 0x1p20f}) {
    GraphBuilder b;
    b.Output("y",
             b.Cast(b.Quantize(b.Input("x", DType::kBF16, {kAll}, Rate::kStep), b.Scalar(scale)),
                    DType::kF32));
    const auto graph = testing::Share(std::move(b).Build().value());
    const testing::Leaves leaves = {{x}, {}};
    ASSERT_OK_AND_ASSIGN(const auto expected, testing::RunOn(reference_, graph, leaves));
    ASSERT_OK_AND_ASSIGN(const auto actual, testing::RunOn(*backend_, graph, leaves));
    const std::vector<double> wanted = testing::ToDoubles(expected[0]);
    const std::vector<double> given = testing::ToDoubles(actual[0]);
    for (int64_t i = 0; i < kAll; ++i) {
      ASSERT_TRUE(given[i] == wanted[i] || (std::isnan(given[i]) && std::isnan(wanted[i])))
          << i << ": " << given[i] << ", not " << wanted[i];
    }
  }
}

double RelativeDistance(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = testing::ToDoubles(a[i]), y = testing::ToDoubles(b[i]);
    for (size_t k = 0; k < x.size(); ++k) {
      difference += (x[k] - y[k]) * (x[k] - y[k]);
      size += y[k] * y[k];
    }
  }
  return std::sqrt(difference / size);
}

// Not the same as the reference's: where a value is near the middle of two codes, another order of
// sums before it makes the other one of it, some 6 % away, and after a few layers the errors of
// both have little in common.
TEST_F(F8Test, AUnetIsAsFarFromF32AsTheReferences) {
  ASSERT_OK_AND_ASSIGN(const passes::Network network,
                       passes::LoadGoldenNetwork("unet_sdxl_base_small"));
  const graph::Precision bf16{DType::kBF16};
  const graph::Precision f8{DType::kBF16, {}, {"*"}, {"*.conv1.weight", "*.conv2.weight"}};
  for (const passes::NetworkPart& part : network.parts) {
    if (!absl::EndsWith(part.name, "step")) continue;
    ASSERT_OK_AND_ASSIGN(const Graph low, passes::ChoosePrecision(part.graph, bf16));
    ASSERT_OK_AND_ASSIGN(const Graph eight, passes::QuantizeProducts(low, f8));
    EXPECT_GT(eight.Select(Op::kF8Linear).size(), 10u);
    EXPECT_GT(eight.Select(Op::kF8Conv2d).size(), 10u);
    const auto run = [&](Backend& backend, const Graph& graph) {
      weights::WeightStore store(backend);
      weights::WeightSet set(&store);
      set.Add(golden::kComponent, network.weights);
      const Graph optimised = passes::RunPasses(graph, backend.target()).value();
      const auto outputs = testing::RunGraph(backend, testing::Share(optimised), set, part.inputs);
      EXPECT_OK(outputs);
      return outputs.value();
    };
    const auto exact = run(reference_, part.graph), wanted = run(reference_, eight);
    const auto given = run(*backend_, eight);
    const double of_reference = RelativeDistance(wanted, exact);
    const double of_gpu = RelativeDistance(given, exact);
    std::printf("8 bits to f32: the reference's %.3f, the GPU's %.3f; apart %.3f\n", of_reference,
                of_gpu, RelativeDistance(given, wanted));
    EXPECT_GT(of_reference, 0.02);
    EXPECT_LT(of_reference, 0.2);
    EXPECT_NEAR(of_gpu, of_reference, of_reference / 4);
    EXPECT_LT(RelativeDistance(given, wanted), 1.5 * of_reference);
  }
}

}  // namespace
}  // namespace latentd::backends::cuda
