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
  ASSERT_OK(process.disk().Write(
      cache::Kind::kArtifact, key,
      WriteArtifact({key, "unet_base step 64x64 rows 2", ToText(SiluGraph(4)), "plan of 2"})));
  const GraphInfo found = process.Only();
  EXPECT_EQ(found.state, GraphState::kCold);
  EXPECT_EQ(found.label.ToText(), "unet_base step 64x64 rows 2");
  EXPECT_THAT(found.reason, HasSubstr("made for a key of another form"));
  EXPECT_THAT(process->Verify(found.id),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another form")));
  EXPECT_OK(process->SetPinned(found.id, true));
  EXPECT_OK(process->Evict(found.id, Tier::kDisk, /*force=*/true));
  EXPECT_THAT(process->List(), IsEmpty());
}

}  // namespace
}  // namespace latentd::compiler
