// Promises of low-rank paths beside their numbers, which the conformance suite compares: a row
// without one keeps its bytes, and a row's bytes are its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;

constexpr int64_t kLines = 37, kIn = 45, kOut = 51, kSlots = 3, kRank = 5;

std::unique_ptr<Backend> BackendOf(const std::string& name) {
  if (name == "reference") return std::make_unique<reference::ReferenceBackend>();
  if (cpu::KernelsByName(name.c_str()) == nullptr) return nullptr;
  return cpu::CpuBackend::Create({.instruction_set = name, .threads = 2}).value();
}

// Inputs of a path's graph, in the order of its ports.
struct PathInputs {
  Buffer base, x, down, up, slot, scale;

  std::vector<ConstBuffer> all() const { return {base, x, down, up, slot, scale}; }
};

Buffer RandomOperand(const std::string& name, DType dtype, const Shape& shape) {
  std::mt19937 random(static_cast<unsigned>(name.size() + 7 * name[0]));
  return testing::RandomBuffer(name, dtype, shape, random);
}

Buffer SlotsOf(const std::vector<int64_t>& slots) {
  const Buffer buffer = Buffer::Allocate(DType::kI64, {static_cast<int64_t>(slots.size())});
  std::copy(slots.begin(), slots.end(), buffer.as<int64_t>().begin());
  return buffer;
}

PathInputs RandomInputs(DType dtype, const std::vector<int64_t>& slots) {
  const auto rows = static_cast<int64_t>(slots.size());
  return {.base = RandomOperand("base", dtype, {rows, kLines, kOut}),
          .x = RandomOperand("x", dtype, {rows, kLines, kIn}),
          .down = RandomOperand("down", dtype, {kSlots, kRank, kIn}),
          .up = RandomOperand("up", dtype, {kSlots, kOut, kRank}),
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
  absl::StatusOr<graph::Graph> graph = std::move(b).Build();
  if (!graph.ok()) return graph.status();
  weights::WeightStore store(backend);
  const weights::WeightSet none(&store);
  auto outputs = testing::RunGraph(backend, std::make_shared<const graph::Graph>(*std::move(graph)),
                                   none, inputs.all());
  if (!outputs.ok()) return outputs.status();
  return outputs->front();
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
  std::memset(to.data(), 0, to.bytes());
  for (int64_t i = 0; i < lines; ++i) {
    std::memcpy(static_cast<char*>(to.data()) + i * padded * bytes,
                static_cast<const char*>(from.data()) + i * size * bytes, size * bytes);
  }
  return to;
}

class LowRankPaths : public ::testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  void SetUp() override {
    backend_ = BackendOf(std::get<0>(GetParam()));
    if (backend_ == nullptr) GTEST_SKIP() << "not on this machine";
  }
  DType dtype() const { return std::get<1>(GetParam()); }
  bool is_reference() const { return std::string(std::get<0>(GetParam())) == "reference"; }

  std::unique_ptr<Backend> backend_;
};

TEST_P(LowRankPaths, LeaveARowOfNoSlotAsItIs) {
  PathInputs inputs = RandomInputs(dtype(), {-1, 1, kSlots, int64_t{1} << 62, 0});
  inputs.base = RandomOperand("special", dtype(), inputs.base.shape());
  inputs.x = RandomOperand("special", dtype(), inputs.x.shape());
  ASSERT_OK_AND_ASSIGN(const Buffer y, RunPath(*backend_, inputs));
  for (const int64_t row : {0, 2, 3}) {
    EXPECT_TRUE(AreSameBytes(y.Rows(row, row + 1), inputs.base.Rows(row, row + 1))) << row;
  }
  EXPECT_FALSE(AreSameBytes(y.Rows(1, 2), inputs.base.Rows(1, 2)));
}

TEST_P(LowRankPaths, GiveARowTheBytesThatItHasAlone) {
  if (is_reference()) GTEST_SKIP() << "ATen adds up as it likes";
  const PathInputs inputs = RandomInputs(dtype(), {2, 0, -1, 1, 0, 2});
  ASSERT_OK_AND_ASSIGN(const Buffer together, RunPath(*backend_, inputs));
  for (int64_t row = 0; row < together.shape()[0]; ++row) {
    ASSERT_OK_AND_ASSIGN(const Buffer alone, RunPath(*backend_, OneRow(inputs, row)));
    EXPECT_TRUE(AreSameBytes(alone, together.Rows(row, row + 1))) << row;
  }
}

TEST_P(LowRankPaths, GiveTheSameBytesHoweverManyRanksAreZeros) {
  if (is_reference()) GTEST_SKIP() << "ATen adds up as it likes";
  const PathInputs inputs = RandomInputs(dtype(), {2, 0, 1});
  ASSERT_OK_AND_ASSIGN(const Buffer y, RunPath(*backend_, inputs));
  for (const int64_t rank : {8, 16, 33}) {
    PathInputs padded = inputs;
    padded.down = WithZeros(inputs.down, kRank * kIn, rank * kIn, {kSlots, rank, kIn});
    padded.up = WithZeros(inputs.up, kRank, rank, {kSlots, kOut, rank});
    padded.scale = WithZeros(inputs.scale, kRank, rank, {3, rank});
    ASSERT_OK_AND_ASSIGN(const Buffer same, RunPath(*backend_, padded));
    EXPECT_TRUE(AreSameBytes(same, y)) << rank;
  }
}

std::string PathCaseName(const ::testing::TestParamInfo<LowRankPaths::ParamType>& info) {
  return absl::StrCat(std::get<0>(info.param), "_", device::Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(
    Backends, LowRankPaths,
    ::testing::Combine(::testing::Values("reference", "avx512", "avx2", "baseline"),
                       ::testing::Values(DType::kF32, DType::kBF16, DType::kF16)),
    PathCaseName);

}  // namespace
}  // namespace latentd::backends
