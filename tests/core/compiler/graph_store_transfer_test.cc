// Artifacts that leave one graph store and come to another.
#include <utility>

#include "core/compiler/artifact.h"
#include "tests/core/compiler/graph_store_disk_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class GraphStoreTransferTest : public GraphStoreDiskTest {
 protected:
  std::string Exported(const std::string& id) {
    Process process(backend, clock, directory.path());
    auto bytes = process->Export(id);
    EXPECT_OK(bytes);
    return *std::move(bytes);
  }
  testing::TemporaryDirectory elsewhere;
};

TEST_F(GraphStoreTransferTest, WhatIsNotCompiledIsNotExported) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Export(GraphStore::IdOf(graph)), HasReason("NOT_COMPILED"));
}

TEST_F(GraphStoreTransferTest, AnotherServerStartsFromWhatWasExported) {
  const std::string id = CompileAndSave();
  const std::string bytes = Exported(id);
  Process process(backend, clock, elsewhere.path());
  ASSERT_OK(Import(process, bytes));
  EXPECT_EQ(process.Only().id, id);
  EXPECT_EQ(process.Only().label.component, "part");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 0);
  EXPECT_EQ(*process->Export(id), bytes);
}

TEST_F(GraphStoreTransferTest, AnImportMakesUpForAFailure) {
  const std::string bytes = Exported(CompileAndSave());
  Process process(backend, clock, elsewhere.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.plan_status = absl::UnimplementedError("not here");
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, _));
  ASSERT_OK(Import(process, bytes));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_OK(process->Get(graph));
}

TEST_F(GraphStoreTransferTest, AnImportMakesUpForAFailureToLoad) {
  const std::string bytes = Exported(CompileAndSave());
  Process process(backend, clock, elsewhere.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = absl::UnimplementedError("not here");
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, _));
  backend.load_status = absl::OkStatus();
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, _));
  ASSERT_OK(Import(process, bytes));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_OK(process->Get(graph));
}

TEST_F(GraphStoreTransferTest, WithoutADiskOnlyWhatIsDeclaredIsTakenIn) {
  const std::string bytes = Exported(CompileAndSave());
  Process process(backend, clock, "");
  EXPECT_THAT(Import(process, bytes), HasReason("NO_DISK_CACHE"));
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(Import(process, bytes));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_OK(process->Get(graph, kLoadOnly));
  EXPECT_EQ(backend.plans, 0);
}

TEST_F(GraphStoreTransferTest, AnyDamageToAnImportIsDataLoss) {
  const std::string bytes = Exported(CompileAndSave());
  Process process(backend, clock, elsewhere.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THAT(Import(process, changed), StatusIs(absl::StatusCode::kDataLoss, _)) << i;
    EXPECT_THAT(Import(process, bytes.substr(0, i)), StatusIs(absl::StatusCode::kDataLoss, _)) << i;
  }
  EXPECT_THAT(Import(process, bytes + "x"), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_EQ(process.Only().state, GraphState::kCold);
  EXPECT_EQ(process.Only().disk_bytes, 0);
}

TEST_F(GraphStoreTransferTest, AnImportWhosePlanIsAnothersIsDataLoss) {
  Process process(backend, clock, elsewhere.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(Import(process, FileOf(KeyText(), Payload(SiluGraph(4), "plan of 9"))),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another graph's")));
  EXPECT_THAT(Import(process, FileOf(KeyText(), Payload(SiluGraph(5), "plan of 2"))),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inputs or outputs")));
  EXPECT_THAT(Import(process, FileOf(KeyText(), "noise")),
              StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(GraphStoreTransferTest, WhatWasMadeForAnotherMachineIsRefusedAndSaysWhatDiffers) {
  const std::string bytes = Exported(CompileAndSave());
  backend.fingerprint = "fake 2";
  Process process(backend, clock, elsewhere.path());
  EXPECT_THAT(Import(process, bytes), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               HasSubstr("fingerprint fake 1, wanted fake 2")));
  EXPECT_THAT(Import(process, FileOf("key", Payload(SiluGraph(4), "plan of 2"))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another form")));
}

}  // namespace
}  // namespace latentd::compiler
