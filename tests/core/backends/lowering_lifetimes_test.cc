#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/backends/lowering/lifetimes.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::lowering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(CheckMemory, RefusesAnArenaLargerThanAllValuesTogether) {
  const ArenaValues values{{{100, 0, 1}}, {}, {}};
  EXPECT_OK(CheckMemory(values, {{0}, 128}));
  EXPECT_THAT(CheckMemory(values, {{0}, size_t{1} << 50}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes for values")));
}

TEST(ValuesInArena, LiveFromTheirWriterToTheirLastReader) {
  Program program;
  for (Place place : {Place::kInput, Place::kArena, Place::kArena, Place::kOutput}) {
    program.storages.push_back({place, 0, graph::DType::kF32, 4, nullptr});
  }
  const auto view = [](int storage) { return DenseView(storage, graph::DType::kF32, {4}); };
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {1, 3}, {2, 3}}) {
    Instruction instruction;
    instruction.operands = {view(from)};
    instruction.result = view(to);
    program.instructions.push_back(instruction);
  }
  const ArenaValues values = ValuesInArena(program, {{}, {}, {100}, {}});
  EXPECT_THAT(values.of_storage, ElementsAre(-1, 0, 1, -1));
  EXPECT_THAT(values.of_workspace, ElementsAre(-1, -1, 2, -1));
  ASSERT_EQ(values.values.size(), 3u);
  EXPECT_EQ(values.values[0].first_use, 0);
  EXPECT_EQ(values.values[0].last_use, 2);
  EXPECT_EQ(values.values[1].first_use, 1);
  EXPECT_EQ(values.values[1].last_use, 3);
  EXPECT_EQ(values.values[2].bytes, 100u);
}

}  // namespace
}  // namespace latentd::backends::lowering
