#include "core/engine/models/bucket_graphs.h"

#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::engine {
namespace {

using compiler::GraphHandle;
using compiler::SiluGraph;

class ColdSizesTest : public compiler::GraphStoreFixture {
 protected:
  // A graph of that size, which only the test keeps.
  GraphHandle Declare(int width, int64_t elements) {
    compiler::GraphSpec wanted = Wanted(SiluGraph(elements));
    wanted.label.width = width;
    wanted.label.height = 64;
    return process_->Declare(wanted);
  }
  bool IsKept(const std::weak_ptr<const compiler::DeclaredGraph>& graph) {
    return !graph.expired();
  }

  compiler::Process process_{backend, clock, ""};
};

TEST_F(ColdSizesTest, TheSizeUsedLeastRecentlyLeaves) {
  GraphHandle graph = Declare(72, 1);
  ColdSizes sizes(2 * compiler::GraphStore::DefinitionBytesOf(graph));
  const std::weak_ptr first = graph;
  sizes.Keep({{}, {72, 64}}, {std::exchange(graph, Declare(80, 2))});
  const std::weak_ptr second = graph;
  sizes.Keep({{}, {80, 64}}, {std::exchange(graph, nullptr)});
  sizes.Touch({{}, {72, 64}});
  sizes.Keep({{}, {88, 64}}, {Declare(88, 3)});
  EXPECT_TRUE(IsKept(first));
  EXPECT_FALSE(IsKept(second));
  EXPECT_EQ(sizes.count(), 2u);
}

TEST_F(ColdSizesTest, BytesAreBoundedHoweverManySizesCome) {
  const size_t one = compiler::GraphStore::DefinitionBytesOf(Declare(72, 1));
  ColdSizes sizes(5 * one);
  for (int i = 0; i < 100; ++i) sizes.Keep({{}, {72 + 8 * i, 64}}, {Declare(72 + 8 * i, 1 + i)});
  process_->DropUnused();
  EXPECT_LE(sizes.bytes(), 5 * one);
  EXPECT_EQ(process_->Declared().size(), sizes.count());
  EXPECT_EQ(process_->totals().definition_bytes, static_cast<int64_t>(sizes.bytes()));
}

TEST_F(ColdSizesTest, TheNewestStaysHoweverLargeItIs) {
  ColdSizes sizes(1);
  sizes.Keep({{}, {72, 64}}, {Declare(72, 1)});
  EXPECT_EQ(sizes.count(), 1u);
}

TEST_F(ColdSizesTest, CountsAGraphOnceAndWhatEverySizeSharesNotAtAll) {
  const GraphHandle step = Declare(72, 1);
  ColdSizes sizes(1 << 20);
  sizes.Keep({{}, {72, 64}}, {step, process_->Declare(Wanted(SiluGraph(9)))});
  sizes.Keep({{}, {72, 64}}, {step});
  EXPECT_EQ(sizes.bytes(), compiler::GraphStore::DefinitionBytesOf(step));
}

}  // namespace
}  // namespace latentd::engine
