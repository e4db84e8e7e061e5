// Attention of about as many tokens as the images of Stable Video Diffusion have, 9216 and one
// more, which fills no block of any kernel: of its UNet's heads, of 64, and of the one of its
// decoder, of 512. Some queries' results are computed again by loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;

constexpr int64_t kTokens = 9217;

struct TokensCase {
  int64_t queries, head_size;
  float scale;  // with which a query has a few keys that count
};

#if defined(LATENTD_SANITIZED)
constexpr TokensCase kTokensCases[] = {{130, 64, 2.0f}, {33, 512, 0.7f}};
#else
constexpr TokensCase kTokensCases[] = {{kTokens, 64, 2.0f}, {1153, 512, 0.7f}};
#endif

graph::Graph AttentionOf(const TokensCase& c) {
  GraphBuilder b;
  const auto tokens = [&](const char* name, int64_t count) {
    return b.Input(name, DType::kF32, {1, count, c.head_size}, Rate::kStep);
  };
  const Value q = tokens("q", c.queries), k = tokens("k", kTokens), v = tokens("v", kTokens);
  b.Output("y", b.Attention(q, k, v, {1, c.scale, false}));
  return std::move(b).Build().value();
}

// Values as a query mixes them.
std::vector<double> MixedOf(const std::vector<std::vector<double>>& qkv, const TokensCase& c,
                            int64_t query) {
  const auto at = [&](int which, int64_t token) { return qkv[which].data() + token * c.head_size; };
  std::vector<double> weights(kTokens), mixed(static_cast<size_t>(c.head_size));
  for (int64_t key = 0; key < kTokens; ++key) {
    for (int64_t i = 0; i < c.head_size; ++i) weights[key] += at(0, query)[i] * at(1, key)[i];
    weights[key] *= double{c.scale};
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (int64_t key = 0; key < kTokens; ++key) {
    for (int64_t i = 0; i < c.head_size; ++i) mixed[i] += weights[key] / sum * at(2, key)[i];
  }
  return mixed;
}

// The first queries, the last ones, and some between.
std::vector<int64_t> SampledQueries(const TokensCase& c) {
  std::vector<int64_t> sampled = {0, 1, c.queries - 2, c.queries - 1};
  for (int64_t i = 1; i < 12; ++i) sampled.push_back(i * c.queries / 12);
  return sampled;
}

// Weights and results are rounded to bf16, and both are 1 at most.
void ExpectAttention(backends::Backend& backend, const TokensCase& c) {
  SCOPED_TRACE(absl::StrCat("a head of ", c.head_size));
  const auto graph = Share(InDType(AttentionOf(c), DType::kBF16));
  const Leaves leaves = RandomLeaves(*graph, /*seed=*/5);
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(backend, graph, leaves));
  const std::vector<double> actual = ToDoubles(outputs.at(0));
  std::vector<std::vector<double>> qkv;
  for (const device::ConstBuffer& input : leaves.inputs) qkv.push_back(ToDoubles(input));
  double largest = 0, difference = 0;
  for (const int64_t query : SampledQueries(c)) {
    const std::vector<double> expected = MixedOf(qkv, c, query);
    for (int64_t i = 0; i < c.head_size; ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      // NaN too is a difference.
      const double own = std::abs(actual[query * c.head_size + i] - expected[i]);
      difference = own <= difference ? difference : own;
    }
  }
  EXPECT_GT(largest, 0.5);
  EXPECT_LE(difference, 0.008);
}

TEST(ManyTokens, OnTheReferenceBackend) {
  backends::reference::ReferenceBackend backend;
  for (const TokensCase& c : kTokensCases) ExpectAttention(backend, c);
}

TEST(ManyTokens, OnTheCpuInEveryInstructionSet) {
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    SCOPED_TRACE(name);
    for (const TokensCase& c : kTokensCases) ExpectAttention(*cpu, c);
  }
}

}  // namespace
}  // namespace latentd::testing
