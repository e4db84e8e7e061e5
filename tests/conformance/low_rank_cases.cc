#include "absl/strings/str_cat.h"
#include "tests/conformance/op_cases.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

struct PathSize {
  int64_t slots, rank;
};

Value StepInput(GraphBuilder& b, const char* name, const Shape& shape) {
  return b.Input(name, DType::kF32, shape, Rate::kStep);
}

// Slots that there are and that there are not.
Value Slots(GraphBuilder& b, const char* name, int64_t rows) {
  return b.Input(name, DType::kI64, {rows}, Rate::kStep);
}

Shape WithLast(const Shape& shape, int64_t last) {
  std::vector<int64_t> dims = shape.dims();
  dims.back() = last;
  return Shape(std::move(dims));
}

OpCase LowRankCase(const std::string& name, const Shape& base, int64_t in, const PathSize& path,
                   const char* slots = "wild") {
  return {absl::StrCat("low_rank_", name), Op::kLowRank, [=](GraphBuilder& b) {
            b.Output("y",
                     b.LowRank(StepInput(b, "base", base), StepInput(b, "x", WithLast(base, in)),
                               {.down = StepInput(b, "down", {path.slots, path.rank, in}),
                                .up = StepInput(b, "up", {path.slots, base[-1], path.rank}),
                                .slot = Slots(b, slots, base[0]),
                                .scale = StepInput(b, "scales", {base[0], path.rank})}));
          }};
}

// Beside a part of a merged linear, with matrices and scales that are parts of ports.
OpCase LowRankOfParts() {
  return {"low_rank_of_parts", Op::kLowRank, [](GraphBuilder& b) {
            constexpr int64_t kRows = 5, kIn = 16, kOut = 24, kRank = 8, kSlots = 3;
            const Value x = StepInput(b, "x", {kRows, 6, kIn});
            const Value merged = b.Linear(x, b.Weight("net/weight", {3 * kOut, kIn}));
            const Value pool = StepInput(b, "pool", {kSlots, kRank * (kIn + kOut)});
            const Value scales = StepInput(b, "scales", {kRows, 3 * kRank});
            const Value down = b.Slice(pool, 1, 0, kRank * kIn);
            const Value up = b.Slice(pool, 1, kRank * kIn, kRank * (kIn + kOut));
            const Value slot = Slots(b, "ids", kRows);
            const Value path = b.LowRank(b.Slice(merged, -1, kOut, 2 * kOut), x,
                                         {.down = b.Reshape(down, {kSlots, kRank, kIn}),
                                          .up = b.Reshape(up, {kSlots, kOut, kRank}),
                                          .slot = slot,
                                          .scale = b.Slice(scales, 1, kRank, 2 * kRank)});
            b.Output("y", path);
            b.Output("others", b.Slice(merged, -1, 0, kOut));
          }};
}

// Base and x are parts that do not begin where words do, and whose lines are not dense.
OpCase LowRankOfPermuted() {
  return {"low_rank_of_permuted", Op::kLowRank, [](GraphBuilder& b) {
            const Value image = StepInput(b, "image", {3, 7, 4, 5});
            const Value tokens = b.Reshape(b.Permute(image, {0, 2, 3, 1}), {3, 20, 7});
            const Value all = StepInput(b, "x", {3, 20, 10});
            b.Output("y", b.LowRank(tokens, b.Slice(all, -1, 1, 10),
                                    {.down = StepInput(b, "down", {4, 3, 9}),
                                     .up = StepInput(b, "up", {4, 7, 3}),
                                     .slot = Slots(b, "ids", 3),
                                     .scale = StepInput(b, "scales", {3, 3})}));
          }};
}

}  // namespace

std::vector<OpCase> LowRankCases() {
  return {
      LowRankCase("tokens", {6, 9, 19}, 37, {3, 4}),
      LowRankCase("matrix", {7, 24}, 16, {2, 1}),
      LowRankCase("rank4", {5, 3, 4, 32}, 16, {3, 8}),
      LowRankCase("wide", {5, 70, 96}, 64, {5, 40}, "ids"),
      LowRankCase("one_slot", {4, 33, 64}, 32, {1, 16}),
      LowRankCase("one_line", {6, 1, 8}, 8, {4, 16}, "ids"),
      LowRankCase("long", {2, 130, 72}, 96, {5, 32}, "ids"),
      LowRankCase("deep", {3, 70, 352}, 608, {4, 32}, "ids"),
      LowRankCase("many_results", {3, 65, 1312}, 64, {2, 24}),
      LowRankCase("more_ranks_than_channels", {5, 4, 6}, 5, {3, 17}),
      LowRankOfParts(),
      LowRankOfPermuted(),
  };
}

}  // namespace latentd::testing
