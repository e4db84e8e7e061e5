// The graph store over a disk cache that another build wrote.
#include "core/compiler/artifact.h"
#include "core/graph/text.h"
#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

using GraphStoreOtherBuildTest = GraphStoreFixture;

TEST_F(GraphStoreOtherBuildTest, WhatHasKeysOfAnotherFormIsListedAsUnusableAndCanBeEvicted) {
  Process process(backend, clock, directory.path());
  const std::string key = "graph 1234\nprecision f32\noptions skip=\n";
  ASSERT_OK(process.disk().Write(cache::Kind::kArtifact, key, Payload(SiluGraph(4), "plan of 2")));
  const GraphStatus found = process.Only();
  EXPECT_EQ(found.state, GraphState::kCold);
  EXPECT_EQ(found.label.ToText(), "base part rows 1");
  EXPECT_THAT(found.reason, HasSubstr("made for a key of another form"));
  EXPECT_THAT(process->Verify(found.id),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another form")));
  EXPECT_OK(process->SetPinned(found.id, true));
  EXPECT_OK(process->Evict(found.id, Tier::kDisk, /*force=*/true));
  EXPECT_THAT(process->List(), IsEmpty());
}

// A file that an earlier version left under the same key.
TEST_F(GraphStoreOtherBuildTest, AnotherFormatIsAMissThatSaysSo) {
  std::string older = Payload(SiluGraph(4), "plan of 2");
  older[8] = 2;
  Process process(backend, clock, directory.path());
  ASSERT_OK(process.disk().Write(cache::Kind::kArtifact, KeyOf(SiluGraph(4), backend, {}).ToText(),
                                 older));
  EXPECT_THAT(process.Only().reason, HasSubstr("format 2 of artifacts"));
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Verify(GraphStore::IdOf(graph)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("format 2")));
  EXPECT_THAT(process->Get(graph, kLoadOnly),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("format 2")));
  EXPECT_EQ(process.Lookups("incompatible"), 1);
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process->totals().compilations, 1);
  EXPECT_EQ(process.Lookups("corrupt"), 0);
  EXPECT_OK(process->Verify(GraphStore::IdOf(graph)));  // written anew
}

}  // namespace
}  // namespace latentd::compiler
