// Graphs that the store lists; listing only reads.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GraphListingTest : public GraphStoreFixture {
 protected:
  // Leaves an artifact on disk that no user declares, with a flipped byte at its end.
  std::string LeaveDamaged() {
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    EXPECT_OK(process->Get(graph));
    const std::string id = GraphStore::IdOf(graph);
    std::fstream file(PathOf(id), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char flipped = static_cast<char>(file.peek() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(flipped);
    return id;
  }
  std::string PathOf(const std::string& id) {
    return directory.File("artifacts/" + id + ".latent");
  }
  bool QuarantineIsEmpty() {
    const std::filesystem::path quarantine = directory.File("quarantine");
    return !std::filesystem::exists(quarantine) || std::filesystem::is_empty(quarantine);
  }
};

TEST_F(GraphListingTest, LeavesADamagedFileWhereItIsAndSaysSo) {
  const std::string id = LeaveDamaged();
  Process process(backend, clock, directory.path());
  for (int round = 0; round < 2; ++round) {
    const std::vector<GraphStatus> list = process->List();
    ASSERT_THAT(list, SizeIs(1));
    EXPECT_EQ(list[0].id, id);
    EXPECT_EQ(list[0].state, GraphState::kCold);
    EXPECT_THAT(list[0].reason, HasSubstr("damaged"));
  }
  ASSERT_OK_AND_ASSIGN(const GraphStatus found, process->Find(id));
  EXPECT_EQ(found.state, GraphState::kCold);
  EXPECT_TRUE(std::filesystem::exists(PathOf(id)));
  EXPECT_TRUE(QuarantineIsEmpty());
  EXPECT_EQ(process.Count(metrics::kGraphCacheLoadFailures, {"corrupt"}), 0);
}

TEST_F(GraphListingTest, VerifyingSetsTheDamagedFileAside) {
  const std::string id = LeaveDamaged();
  Process process(backend, clock, directory.path());
  EXPECT_EQ(process->Verify(id).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(PathOf(id)));
  EXPECT_FALSE(QuarantineIsEmpty());
}

}  // namespace
}  // namespace latentd::compiler
