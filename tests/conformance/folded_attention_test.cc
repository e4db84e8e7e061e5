// Attention to one token as networks of videos have it, without queries, keys and a norm, against
// attention as other networks have it, on the reference backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/backends/reference/reference_backend.h"
#include "core/networks/layers/transformer_2d.h"
#include "core/networks/layers/transformer_spatio_temporal.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using networks::Scope;

constexpr int64_t kClips = 2, kFrames = 3, kChannels = 64, kFeatures = 16, kHeads = 2;

PreparedCase TransformerOf(
    int64_t tokens, const std::function<Value(const Scope& scope, Value x, Value token)>& of) {
  return Prepare(
      {"transformer", graph::Op::kAttention, [&](GraphBuilder& b) {
         const Value x =
             b.Input("x", DType::kF32, {kClips * kFrames, kChannels, 3, 5}, Rate::kStep);
         const Value token = b.Input("token", DType::kF32, {tokens, 1, kFeatures}, Rate::kRequest);
         b.Output("y", of(Scope(b, "net"), x, token));
       }});
}

// Each clip's row as often as it has frames.
Buffer Repeated(const device::ConstBuffer& of_clips) {
  Buffer of_frames = Buffer::Allocate(DType::kF32, {kClips * kFrames, 1, kFeatures});
  const auto from = of_clips.as<float>();
  auto to = of_frames.as<float>().begin();
  for (int64_t frame = 0; frame < kClips * kFrames; ++frame) {
    to = std::copy_n(from.begin() + frame / kFrames * kFeatures, kFeatures, to);
  }
  return of_frames;
}

// A mix_factor whose sigmoid is 1 leaves nothing of what layers over time make.
weights::StoredTensor WithoutTime(const weights::StoredTensor& mix_factor) {
  Buffer data = Buffer::Allocate(DType::kF32, {1});
  data.as<float>()[0] = 40;
  return {data, mix_factor.file};
}

TEST(FoldedAttention, IsAttentionToOneToken) {
  PreparedCase folded = TransformerOf(kClips, [](const Scope& scope, Value x, Value token) {
    return networks::TransformerSpatioTemporal(scope, x, token,
                                               {.heads = kHeads, .layers = 1, .frames = kFrames});
  });
  PreparedCase whole =
      TransformerOf(kClips * kFrames, [](const Scope& scope, Value x, Value token) {
        return networks::Transformer2d(
            scope, x, token,
            {.heads = kHeads, .layers = 1, .projection = networks::Projection::kLinear});
      });
  ASSERT_NE(folded.graph, nullptr);
  ASSERT_NE(whole.graph, nullptr);
  weights::StoredTensor& mix_factor = folded.leaves.weights.at("time_mixer.mix_factor");
  mix_factor = WithoutTime(mix_factor);
  size_t unread = 0;
  for (auto& [name, tensor] : whole.leaves.weights) {
    const auto same = folded.leaves.weights.find(name);
    if (same == folded.leaves.weights.end()) ++unread;
    if (same != folded.leaves.weights.end()) tensor = same->second;
  }
  EXPECT_EQ(unread, 4u);  // to_q, to_k, and the norm's weight and bias
  whole.leaves.inputs = {folded.leaves.inputs[0], Repeated(folded.leaves.inputs[1])};
  backends::reference::ReferenceBackend backend;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> one, RunOn(backend, folded));
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> other, RunOn(backend, whole));
  const std::vector<double> got = ToDoubles(one.at(0)), wanted = ToDoubles(other.at(0));
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    difference = std::max(difference, std::abs(wanted[i] - got[i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(difference, 1e-6 * largest);
}

}  // namespace
}  // namespace latentd::testing
