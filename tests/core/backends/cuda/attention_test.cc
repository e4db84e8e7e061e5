#include "core/backends/cuda/binders/attention.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/backends/cuda/kernels/attention/long_attention.h"
#include "core/backends/cuda/kernels/attention/short_attention.h"

namespace latentd::backends::cuda {
namespace {

using device::cuda::CudaProperties;
using kernels::AttentionArgs;
using kernels::LongAttention;
using kernels::ShortAttention;

const CudaProperties kH100 = {.compute_capability = 90, .multiprocessors = 132};
const CudaProperties kA100 = {.compute_capability = 80, .multiprocessors = 108};

AttentionArgs Of(int64_t heads, int64_t queries, int64_t keys) {
  AttentionArgs args;
  const int64_t token = heads * kernels::kAttentionSize;
  args.query = {nullptr, queries * token, token};
  args.key = args.value = {nullptr, keys * token, token};
  args.rows = 2;
  args.heads = heads;
  args.queries = queries;
  args.keys = keys;
  return args;
}

TEST(OwnAttentionTest, OverManyKeysIsHoppers) {
  EXPECT_EQ(OwnAttentionFor(Of(20, 1024, 1024), kH100), LongAttention);
  EXPECT_EQ(OwnAttentionFor(Of(10, 4096, 4096), kH100), LongAttention);
  EXPECT_EQ(OwnAttentionFor(Of(20, 1024, 1024), kA100), nullptr);
}

TEST(OwnAttentionTest, OverFewKeysIsTheOneForManyWhereAllOfItIsOnTheGpuAtOnce) {
  EXPECT_EQ(OwnAttentionFor(Of(20, 1024, 77), kH100), LongAttention);  // 640 tiles of 660
  EXPECT_EQ(OwnAttentionFor(Of(10, 4096, 77), kH100), ShortAttention);
  EXPECT_EQ(OwnAttentionFor(Of(20, 1024, 77), kA100), ShortAttention);
  EXPECT_EQ(OwnAttentionFor(Of(10, 4096, 160), kH100), ShortAttention);
  EXPECT_EQ(OwnAttentionFor(Of(10, 4096, 161), kH100), LongAttention);
}

TEST(OwnAttentionTest, IsOfHeadsFrom40To64) {
  for (const int64_t keys : {77, 1024}) {
    AttentionArgs args = Of(20, 1024, keys);
    for (const auto& [size, is_own] : {std::pair{32, false}, {40, true}, {56, true}}) {
      args.size = size;
      EXPECT_EQ(OwnAttentionFor(args, kH100) != nullptr, is_own) << size;
    }
  }
}

TEST(OwnAttentionTest, OverManyKeysIsNeitherCausalNorOfANegativeScale) {
  for (const int64_t keys : {77, 1024}) {
    const OwnAttention expected = keys == 77 ? ShortAttention : nullptr;
    AttentionArgs causal = Of(20, 1024, keys), negative = causal;
    causal.causal = true;
    negative.scale = -1;
    EXPECT_EQ(OwnAttentionFor(causal, kH100), expected);
    EXPECT_EQ(OwnAttentionFor(negative, kH100), expected);
  }
}

}  // namespace
}  // namespace latentd::backends::cuda
