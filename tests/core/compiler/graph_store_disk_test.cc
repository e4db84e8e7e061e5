// The graph store over a disk cache: restarts, artifacts that cannot be used, verbs on files.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "core/compiler/artifact.h"
#include "core/graph/text.h"
#include "tests/core/compiler/graph_store_disk_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

TEST_F(GraphStoreDiskTest, ARestartCompilesNothing) {
  CompileAndSave();
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_GT(process.Only().disk_bytes, 0);
  ASSERT_OK(process->Get(graph, kLoadOnly));
  EXPECT_EQ(process->totals().compilations, 0);
  EXPECT_EQ(process->totals().loads, 1);
  EXPECT_EQ(backend.plans, 0);
  EXPECT_EQ(process.Lookups("disk"), 1);
  EXPECT_EQ(process.Durations("disk_load"), 1u);
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  EXPECT_THAT(process.warnings(), IsEmpty());
}

// The label in a file has no place for what is over a model.
TEST_F(GraphStoreDiskTest, ARestartCompilesNothingForUsersOfAnyName) {
  GraphSpec wanted = Wanted(SiluGraph(4));
  wanted.user = "base+styles/film:0.8";
  for (const int compilations : {1, 0}) {
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(wanted);
    ASSERT_OK(process->Get(graph));
    EXPECT_EQ(process->totals().compilations, compilations);
    EXPECT_THAT(process.Only().users, ElementsAre(wanted.user));
    EXPECT_EQ(process.Only().label.model, "base");
    EXPECT_THAT(process.warnings(), IsEmpty());
  }
}

TEST_F(GraphStoreDiskTest, LeavesWritingToWhoTakesIt) {
  std::vector<std::function<void()>> writes;
  size_t bytes = 0;
  Process process(backend, clock, directory.path(), {.write = [&](size_t more, auto write) {
                    bytes += more;
                    writes.push_back(std::move(write));
                  }});
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process.Only().disk_bytes, 0);
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  ASSERT_THAT(writes, SizeIs(1));
  EXPECT_EQ(bytes, static_cast<size_t>(process.Only().memory_bytes));
  writes[0]();
  EXPECT_GT(process.Only().disk_bytes, 0);
}

// A later write is noted with its graph.
TEST_F(GraphStoreDiskTest, AGraphThatWaitsToBeWrittenIsKnownUntilItIs) {
  std::function<void()> write;
  Process process(backend, clock, directory.path(),
                  {.write = [&](size_t, auto one) { write = std::move(one); }});
  GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Get(graph));
  graph.reset();
  process->DropUnused();
  EXPECT_EQ(process->totals().executable_bytes, 0);
  graph = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  EXPECT_EQ(process->Declared().front().state, GraphState::kCold);
  std::exchange(write, nullptr)();
  EXPECT_EQ(process->Declared().front().state, GraphState::kCompiled);
  graph.reset();
  process->DropUnused();
  EXPECT_THAT(process->Declared(), IsEmpty());
}

TEST_F(GraphStoreDiskTest, WhatLeftMemoryAndWaitsToBeWrittenIsStillCounted) {
  std::function<void()> write;
  Process process(backend, clock, directory.path(),
                  {.write = [&](size_t, auto one) { write = std::move(one); }});
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Get(graph));
  const int64_t bytes = process->totals().artifact_bytes;
  EXPECT_GT(bytes, 0);
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  EXPECT_EQ(process.Only().memory_bytes, 0);
  EXPECT_EQ(process->totals().artifact_bytes, bytes);
  std::exchange(write, nullptr)();
  EXPECT_EQ(process->totals().artifact_bytes, 0);
}

TEST_F(GraphStoreDiskTest, SavingWhatIsNotCompiledIsRefused) {
  std::function<void()> waits;
  Process process(backend, clock, directory.path(),
                  {.write = [&](size_t, auto write) { waits = std::move(write); }});
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  const std::string id = GraphStore::IdOf(graph);
  EXPECT_THAT(process->Save(id),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not compiled")));
  EXPECT_THAT(process->Save(id), HasReason("NOT_COMPILED"));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process.Only().disk_bytes, 0);
  ASSERT_OK(process->Save(id));
  EXPECT_GT(process.Only().disk_bytes, 0);
  EXPECT_OK(process->Save(id));
}

TEST_F(GraphStoreDiskTest, SaysWhatAnEarlierRunPaid) {
  backend.on_plan = [this] { clock.Advance(absl::Seconds(7)); };
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  EXPECT_EQ(process->Find(id)->compile_time, absl::Seconds(7));  // only on disk
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process->Find(id)->compile_time, absl::Seconds(7));
}

TEST_F(GraphStoreDiskTest, ListsWhatIsOnDiskAndNobodyDeclared) {
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  const GraphHandle other = process->Declare(Wanted(SiluGraph(5)));
  const std::vector<GraphStatus> list = process->List();
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_EQ(list[0].id, GraphStore::IdOf(other));
  EXPECT_EQ(list[1].id, id);
  EXPECT_EQ(list[1].label.component, "part");
  EXPECT_THAT(list[1].users, IsEmpty());
  EXPECT_EQ(list[1].state, GraphState::kCompiled);
  EXPECT_EQ(list[1].key.ToText(), KeyText());
  EXPECT_GT(list[1].disk_bytes, 0);
  EXPECT_THAT(process->Load(id), HasReason("NOT_SERVED"));
}

TEST_F(GraphStoreDiskTest, ListingIsNoUse) {
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  const absl::Time before = process.Only().last_use;
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(process.Only().last_use, before);
  EXPECT_OK(process->Verify(id));
  EXPECT_EQ(process.Only().last_use, before);
}

TEST_F(GraphStoreDiskTest, WhatAnotherMachineMadeIsAMissThatSaysWhatDiffers) {
  CompileAndSave();
  backend.fingerprint = "fake 2";
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  const std::string why = "what is on disk was made for fingerprint fake 1, wanted fake 2";
  EXPECT_THAT(process->Get(graph, kLoadOnly),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why)));
  EXPECT_EQ(process->Find(GraphStore::IdOf(graph))->state, GraphState::kCold);
  EXPECT_EQ(process->Find(GraphStore::IdOf(graph))->reason, why);
  EXPECT_THAT(process.warnings(), ElementsAre("base part rows 1: " + why));
  EXPECT_EQ(process.Lookups("incompatible"), 1);
  EXPECT_EQ(process.Count(metrics::kGraphCacheLoadFailures, {"incompatible"}), 1);
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 1);
  // The other's stays, for the other.
  ASSERT_THAT(process->List(), SizeIs(2));
  EXPECT_EQ(process->List()[1].state, GraphState::kCold);
  EXPECT_THAT(process->List()[1].reason, HasSubstr("fingerprint fake 1, wanted fake 2"));
  EXPECT_THAT(process->Verify(process->List()[1].id),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fingerprint")));
}

TEST_F(GraphStoreDiskTest, AnotherGraphOfAnotherMachineIsAMereMiss) {
  CompileAndSave(5);
  backend.fingerprint = "fake 2";
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(process.Lookups("miss"), 1);
  EXPECT_THAT(process.warnings(), IsEmpty());
}

TEST_F(GraphStoreDiskTest, OtherOptionsAreAnotherEntry) {
  CompileAndSave();
  Process process(backend, clock, directory.path(), {.compile = {{"epilogues"}}});
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph, kLoadOnly),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("options skip=, wanted skip=epilogues")));
}

// Any byte of the file may be damaged.
TEST_F(GraphStoreDiskTest, ADamagedFileIsSetAsideAndCompiledAnew) {
  for (const double where : {0.0, 0.01, 0.3, 0.6, 0.99}) {
    const std::string id = CompileAndSave();
    {
      std::fstream file(PathOf(id), std::ios::in | std::ios::out | std::ios::binary);
      const auto size = static_cast<double>(std::filesystem::file_size(PathOf(id)));
      file.seekp(static_cast<std::streamoff>(size * where));
      file.put('\x7f');
    }
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    ASSERT_OK(process->Get(graph)) << where;
    EXPECT_EQ(backend.plans, 1) << where;
    EXPECT_EQ(process.Lookups("corrupt"), 1) << where;
    EXPECT_THAT(process.warnings(), ElementsAre(HasSubstr("base part rows 1"))) << where;
    EXPECT_EQ(InQuarantine(), 1u) << where;
    EXPECT_OK(process->Verify(id)) << where;
    ASSERT_OK(process->Evict(id, Tier::kBoth, false));
  }
}

TEST_F(GraphStoreDiskTest, ADamagedFileIsShownWhoeverReadsIt) {
  const std::string id = CompileAndSave();
  std::filesystem::resize_file(PathOf(id), std::filesystem::file_size(PathOf(id)) / 2);
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Predict(graph));
  EXPECT_EQ(process.Lookups("corrupt"), 1);
  EXPECT_THAT(process.warnings(), ElementsAre(HasSubstr("base part rows 1")));
  EXPECT_EQ(InQuarantine(), 1u);
}

// Damage that only loading shows: a graph or plan of another under checksums that are right.
TEST_F(GraphStoreDiskTest, WhatDoesNotLoadIsSetAsideAndCompiledAnew) {
  std::string no_graph = Payload(SiluGraph(4), "plan of 2");
  no_graph.replace(no_graph.find("latentd graph"), 5, "noise");
  for (const std::string& damaged :
       {Payload(SiluGraph(4), "plan of 9"), Payload(SiluGraph(5), "plan of 2"), no_graph,
        Payload(SiluGraph(4), "plan of 2") + "x", std::string("noise"), std::string()}) {
    CompileAndSave();
    Replace(damaged);
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    ASSERT_OK(process->Get(graph)) << damaged;
    EXPECT_EQ(process->totals().compilations, 1);
    EXPECT_EQ(process.Lookups("corrupt"), 1);
    EXPECT_THAT(process.warnings(), SizeIs(1));
    EXPECT_EQ(InQuarantine(), 1u);
    EXPECT_OK(process->Verify(GraphStore::IdOf(graph)));
  }
}

TEST_F(GraphStoreDiskTest, WhatDoesNotLoadIsColdForWhoMayNotCompile) {
  CompileAndSave();
  Replace(Payload(SiluGraph(4), "plan of 9"));
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph, kLoadOnly),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another graph's")));
  EXPECT_EQ(process.Only().state, GraphState::kCold);
  EXPECT_THAT(process.Only().reason, HasSubstr("another graph's"));
}

TEST_F(GraphStoreDiskTest, ADirectoryThatCannotBeWrittenIsAWarning) {
  Process process(backend, clock, directory.path());
  std::filesystem::remove_all(directory.path());
  std::ofstream(directory.path()) << "no directory";
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_OK(process->Get(graph));
  EXPECT_THAT(process.warnings(), Contains(HasSubstr("part rows 1 is not kept on disk")));
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  EXPECT_THAT(process->Save(GraphStore::IdOf(graph)), ::testing::Not(testing::IsOk()));
}

TEST_F(GraphStoreDiskTest, PinsSurviveARestart) {
  {
    Process process(backend, clock, directory.path());
    ASSERT_OK(process->SetPinned(GraphStore::IdOf(process->Declare(Wanted(SiluGraph(4)))), true));
  }
  {  // before there is a file
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    EXPECT_TRUE(process.Only().pinned);
    ASSERT_OK(process->Get(graph));
  }
  Process process(backend, clock, directory.path());
  EXPECT_TRUE(process.Only().pinned);
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_TRUE(process.Only().pinned);
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(graph), false));
  EXPECT_FALSE(process.disk().List(cache::Kind::kArtifact).front().pinned);
}

TEST_F(GraphStoreDiskTest, APinComesBackWithAFileThatSomebodyDeleted) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(graph), true));
  for (const auto& child : std::filesystem::directory_iterator(directory.path())) {
    std::filesystem::remove_all(child);
  }
  ASSERT_OK(process->Save(GraphStore::IdOf(graph)));
  EXPECT_TRUE(process.disk().List(cache::Kind::kArtifact).front().pinned);
}

TEST_F(GraphStoreDiskTest, APinThatCannotBeKeptIsNone) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  std::filesystem::remove_all(directory.path());
  std::ofstream(directory.path()) << "a file where the directory was";
  EXPECT_FALSE(process->SetPinned(GraphStore::IdOf(graph), true).ok());
  EXPECT_FALSE(process.Only().pinned);
}

TEST_F(GraphStoreDiskTest, EntriesThatAreOnlyOnDiskArePinnedAndEvicted) {
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  ASSERT_OK(process->SetPinned(id, true));
  EXPECT_TRUE(process.Only().pinned);
  EXPECT_THAT(process->Evict(id, Tier::kDisk, false), HasReason("PINNED"));
  ASSERT_OK(process->SetPinned(id, false));
  EXPECT_OK(process->Evict(id, Tier::kMemory, false));  // nothing there
  EXPECT_OK(process->Evict(id, Tier::kDisk, false));
  EXPECT_THAT(process->List(), IsEmpty());
  EXPECT_EQ(process.Count(metrics::kGraphCacheEvictions, {"request"}), 1);
}

TEST_F(GraphStoreDiskTest, VerifyFindsDamage) {
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Verify(id));
  std::ofstream(PathOf(id), std::ios::app | std::ios::binary) << "x";
  EXPECT_THAT(process->Verify(id), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_EQ(InQuarantine(), 1u);
  EXPECT_THAT(process->Verify(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr("on disk")));
  EXPECT_EQ(process.Only().state, GraphState::kCold);
}

TEST_F(GraphStoreDiskTest, VerifyChecksPlanAgainstGraph) {
  const std::string id = CompileAndSave();
  Replace(Payload(SiluGraph(4), "plan of 9"));
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Verify(id),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another graph's")));
  EXPECT_EQ(InQuarantine(), 1u);
  EXPECT_EQ(backend.loads, 0);
}

TEST_F(GraphStoreDiskTest, SeesWhatOthersDidToTheDirectory) {
  const std::string id = CompileAndSave();
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "compiled"}), 1);
  std::filesystem::remove(PathOf(id));
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "compiled"}), 1);
  process->LookAtDisk();
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "compiled"}), 0);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "cold"}), 1);
  EXPECT_EQ(process.Only().state, GraphState::kCold);
}

}  // namespace
}  // namespace latentd::compiler
