#include "tests/conformance/low_rank_promises.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using backends::Backend;
using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;

constexpr int64_t kLines = 37, kSlots = 3, kRank = 5;

struct Layer {
  int64_t in, out;
};

// Of lines that are no whole words, and of such for which a GPU can have other kernels.
constexpr Layer kLayers[] = {{45, 51}, {352, 96}};

// Inputs of a path's graph, in the order of its ports.
struct PathInputs {
  Buffer base, x, down, up, slot, scale;
};

Buffer RandomOperand(const std::string& name, DType dtype, const Shape& shape) {
  std::mt19937 random(static_cast<unsigned>(name.size() + 7 * name[0]));
  return RandomBuffer(name, dtype, shape, random);
}

Buffer SlotsOf(const std::vector<int64_t>& slots) {
  const Buffer buffer = Buffer::Allocate(DType::kI64, {static_cast<int64_t>(slots.size())});
  std::copy(slots.begin(), slots.end(), buffer.as<int64_t>().begin());
  return buffer;
}

PathInputs InputsOf(DType dtype, const Layer& layer, const std::vector<int64_t>& slots) {
  const auto rows = static_cast<int64_t>(slots.size());
  return {.base = RandomOperand("base", dtype, {rows, kLines, layer.out}),
          .x = RandomOperand("x", dtype, {rows, kLines, layer.in}),
          .down = RandomOperand("down", dtype, {kSlots, kRank, layer.in}),
          .up = RandomOperand("up", dtype, {kSlots, layer.out, kRank}),
          .slot = SlotsOf(slots),
          .scale = RandomOperand("scales", DType::kF32, {rows, kRank})};
}

absl::StatusOr<Buffer> RunPath(Backend& backend, const PathInputs& inputs) {
  GraphBuilder b;
  const auto input = [&](const char* name, const Buffer& given) {
    return b.Input(name, given.dtype(), given.shape(), Rate::kStep);
  };
  const Value base = input("base", inputs.base), x = input("x", inputs.x);
  const Value down = input("down", inputs.down), up = input("up", inputs.up);
  const Value slot = input("slot", inputs.slot), scale = input("scale", inputs.scale);
  b.Output("y", b.LowRank(base, x, {.down = down, .up = up, .slot = slot, .scale = scale}));
  ASSIGN_OR_RETURN(const graph::Graph graph, std::move(b).Build());
  const Leaves leaves = {{inputs.base, inputs.x, inputs.down, inputs.up, inputs.slot, inputs.scale},
                         {}};
  ASSIGN_OR_RETURN(const std::vector<Buffer> outputs, RunOn(backend, Share(graph), leaves));
  return outputs.front();
}

bool AreSameBytes(const ConstBuffer& a, const ConstBuffer& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

PathInputs OneRow(const PathInputs& inputs, int64_t row) {
  PathInputs one = inputs;
  for (Buffer* buffer : {&one.base, &one.x, &one.slot, &one.scale}) {
    *buffer = buffer->Rows(row, row + 1);
  }
  return one;
}

// Lines of `size` elements behind each other, with zeros behind each up to `padded`.
Buffer WithZeros(const Buffer& from, int64_t size, int64_t padded, const Shape& shape) {
  const Buffer to = Buffer::Allocate(from.dtype(), shape);
  const int64_t bytes = device::SizeOf(from.dtype()), lines = from.elements() / size;
  for (int64_t i = 0; i < lines; ++i) {
    std::memcpy(static_cast<char*>(to.data()) + i * padded * bytes,
                static_cast<const char*>(from.data()) + i * size * bytes, size * bytes);
  }
  return to;
}

void ExpectRowsOfNoSlotAsTheyAre(Backend& backend, DType dtype, const Layer& layer) {
  PathInputs inputs = InputsOf(dtype, layer, {-1, 1, kSlots, int64_t{1} << 62, 0});
  for (float& scale : inputs.scale.Rows(4, 5).as<float>()) scale = 0;
  inputs.base = RandomOperand("special", dtype, inputs.base.shape());
  inputs.x = RandomOperand("special", dtype, inputs.x.shape());
  ASSERT_OK_AND_ASSIGN(const Buffer y, RunPath(backend, inputs));
  for (const int64_t row : {0, 2, 3, 4}) {
    EXPECT_TRUE(AreSameBytes(y.Rows(row, row + 1), inputs.base.Rows(row, row + 1))) << row;
  }
  EXPECT_FALSE(AreSameBytes(y.Rows(1, 2), inputs.base.Rows(1, 2)));
}

void ExpectRowsAsAlone(Backend& backend, DType dtype, const Layer& layer) {
  const PathInputs inputs = InputsOf(dtype, layer, {2, 0, -1, 1, 0, 2});
  ASSERT_OK_AND_ASSIGN(const Buffer together, RunPath(backend, inputs));
  for (int64_t row = 0; row < together.shape()[0]; ++row) {
    ASSERT_OK_AND_ASSIGN(const Buffer alone, RunPath(backend, OneRow(inputs, row)));
    EXPECT_TRUE(AreSameBytes(alone, together.Rows(row, row + 1))) << row;
  }
}

void ExpectZerosChangeNothing(Backend& backend, DType dtype, const Layer& layer) {
  const PathInputs inputs = InputsOf(dtype, layer, {2, 0, 1});
  ASSERT_OK_AND_ASSIGN(const Buffer y, RunPath(backend, inputs));
  for (const int64_t rank : {8, 16, 33, 64}) {
    PathInputs padded = inputs;
    padded.down =
        WithZeros(inputs.down, kRank * layer.in, rank * layer.in, {kSlots, rank, layer.in});
    padded.up = WithZeros(inputs.up, kRank, rank, {kSlots, layer.out, rank});
    padded.scale = WithZeros(inputs.scale, kRank, rank, {3, rank});
    ASSERT_OK_AND_ASSIGN(const Buffer same, RunPath(backend, padded));
    EXPECT_TRUE(AreSameBytes(same, y)) << rank;
  }
}

}  // namespace

void ExpectRowsOfNoSlotAsTheyAre(Backend& backend, DType dtype) {
  for (const Layer& layer : kLayers) ExpectRowsOfNoSlotAsTheyAre(backend, dtype, layer);
}

void ExpectRowsAsAlone(Backend& backend, DType dtype) {
  for (const Layer& layer : kLayers) ExpectRowsAsAlone(backend, dtype, layer);
}

void ExpectZerosChangeNothing(Backend& backend, DType dtype) {
  for (const Layer& layer : kLayers) ExpectZerosChangeNothing(backend, dtype, layer);
}

}  // namespace latentd::testing
