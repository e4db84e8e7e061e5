// Whose fault a failure is: what becomes of the artifact on disk, and what is tried again.
#include <filesystem>
#include <functional>
#include <iterator>
#include <utility>

#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

class GraphStoreFailuresTest : public GraphStoreFixture {
 protected:
  // An artifact on disk, from an earlier run of the program.
  void SetUp() override {
    Process process(backend, clock, directory.path());
    ASSERT_OK(process->Get(process->Declare(Wanted(SiluGraph(4)))));
    backend.plans = 0;
    backend.loads = 0;
  }

  static bool IsEmptyDirectory(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_empty(path, error) || error;
  }
  // In the place of the artifact, with every checksum right.
  void PutDamaged(std::string plan, int64_t size = 4) {
    Process process(backend, clock, directory.path());
    ASSERT_OK(process.disk().Write(cache::Kind::kArtifact,
                                   KeyOf(SiluGraph(4), backend, {}).ToText(),
                                   Payload(SiluGraph(size), std::move(plan))));
  }
  bool IsKept(Process& process, const GraphHandle& graph) {
    const std::string id = GraphStore::IdOf(graph);
    return std::filesystem::exists(directory.File("artifacts/" + id + ".latent")) &&
           IsEmptyDirectory(directory.File("quarantine")) && process.Lookups("corrupt") == 0;
  }
};

const absl::Status kMachinesFault[] = {
    absl::ResourceExhaustedError("no memory"), absl::InternalError("launch failed"),
    absl::UnavailableError("device lost"),     absl::UnknownError("no idea"),
    absl::AbortedError("in between"),          absl::FailedPreconditionError("busy"),
};

TEST_F(GraphStoreFailuresTest, TheMachinesFaultKeepsTheArtifactAndIsTriedAgain) {
  for (const absl::Status& fault : kMachinesFault) {
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    backend.load_status = fault;
    EXPECT_EQ(process->Get(graph).status(), fault);
    EXPECT_EQ(process.Only().state, GraphState::kFailed) << fault;
    EXPECT_EQ(process.Only().reason, fault.message());
    EXPECT_TRUE(IsKept(process, graph)) << fault;
    backend.load_status = absl::OkStatus();
    EXPECT_OK(process->Get(graph, kLoadOnly));
    EXPECT_EQ(process.Only().state, GraphState::kReady) << fault;
  }
  EXPECT_EQ(backend.plans, 0);
}

TEST_F(GraphStoreFailuresTest, AFailingFirstRunKeepsTheArtifactAndIsTriedAgain) {
  for (const absl::Status& fault : kMachinesFault) {
    Process process(backend, clock, directory.path(), {.run_once = true});
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    backend.on_run = [&](auto) { return fault; };
    EXPECT_EQ(process->Get(graph).status(), fault);
    EXPECT_TRUE(IsKept(process, graph)) << fault;
    backend.on_run = nullptr;
    EXPECT_OK(process->Get(graph, kLoadOnly)) << fault;
  }
  EXPECT_EQ(backend.plans, 0);
}

TEST_F(GraphStoreFailuresTest, WhatCannotChangeKeepsTheArtifactAndIsNotTriedAgain) {
  for (const absl::Status& fault :
       {absl::InvalidArgumentError("another shape"), absl::NotFoundError("no such tensor"),
        absl::UnimplementedError("no such kernel")}) {
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
    backend.loads = 0;
    backend.load_status = fault;
    EXPECT_EQ(process->Get(graph).status(), fault);
    EXPECT_EQ(process->Get(graph).status(), fault);
    EXPECT_EQ(backend.loads, 1);
    EXPECT_TRUE(IsKept(process, graph)) << fault;
    backend.load_status = absl::OkStatus();
    EXPECT_OK(process->Get(graph, kAgain)) << fault;
  }
  EXPECT_EQ(backend.plans, 0);
}

TEST_F(GraphStoreFailuresTest, ADamagedPlanIsSetAsideAndCompiledAnew) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = absl::DataLossError("not a plan");
  backend.on_plan = [this] { backend.load_status = absl::OkStatus(); };
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process.Lookups("corrupt"), 1);
  EXPECT_FALSE(IsEmptyDirectory(directory.File("quarantine")));
  EXPECT_THAT(process.warnings(), ::testing::ElementsAre(HasSubstr("not a plan")));
}

TEST_F(GraphStoreFailuresTest, ADamagedPlanThatWasEvictedMeanwhileIsSetAsideToo) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = absl::DataLossError("not a plan");
  backend.on_load = [&] {
    if (backend.loads == 1) {
      EXPECT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, true));
    }
  };
  backend.on_plan = [this] { backend.load_status = absl::OkStatus(); };
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process.Lookups("corrupt"), 1);
  EXPECT_FALSE(IsEmptyDirectory(directory.File("quarantine")));
}

TEST_F(GraphStoreFailuresTest, WhatCameInThePlaceOfADamagedPlanStays) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK_AND_ASSIGN(const std::string sound, process->Export(GraphStore::IdOf(graph)));
  backend.on_load = [&] {
    backend.load_status = absl::OkStatus();
    if (backend.loads > 1) return;
    backend.load_status = absl::DataLossError("not a plan");
    EXPECT_OK(Import(process, sound));
  };
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 0);
  EXPECT_TRUE(IsKept(process, graph));
}

TEST_F(GraphStoreFailuresTest, WhatAnotherProcessPutInThePlaceOfADamagedPlanStays) {
  Process process(backend, clock, directory.path()), other(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK_AND_ASSIGN(const std::string sound, process->Export(GraphStore::IdOf(graph)));
  PutDamaged("plan of 9");
  backend.on_load = [&] {
    if (backend.loads == 1) {
      EXPECT_OK(Import(other, sound));
    }
  };
  EXPECT_OK(process->Get(graph));
  EXPECT_EQ(backend.plans, 0);
  EXPECT_TRUE(IsEmptyDirectory(directory.File("quarantine")));
  EXPECT_EQ(process.Only().state, GraphState::kReady);
}

// What another process imports while what was there is read.
class ReplacingClock : public testing::FakeClock {
 public:
  absl::Time Wall() const override {
    if (replace) std::exchange(replace, nullptr)();
    return FakeClock::Wall();
  }
  mutable std::function<void()> replace;
};

TEST_F(GraphStoreFailuresTest, WhatIsImportedWhileADamagedFileIsReadIsTaken) {
  ReplacingClock reading;
  Process process(backend, reading, directory.path()), other(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK_AND_ASSIGN(const std::string sound, process->Export(GraphStore::IdOf(graph)));
  PutDamaged("plan of 2", 5);
  reading.replace = [&] { EXPECT_OK(Import(other, sound)); };
  EXPECT_OK(process->Get(graph, kLoadOnly));
  EXPECT_EQ(backend.plans, 0);
  EXPECT_TRUE(IsKept(process, graph));
}

TEST_F(GraphStoreFailuresTest, WhatIsImportedWhileADamagedFileIsVerifiedStays) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK_AND_ASSIGN(const std::string sound, process->Export(GraphStore::IdOf(graph)));
  PutDamaged("plan of 9");
  bool imported = false;
  backend.on_check = [&] {
    if (std::exchange(imported, true)) return;
    EXPECT_OK(Import(process, sound));
  };
  EXPECT_OK(process->Verify(GraphStore::IdOf(graph)));
  EXPECT_TRUE(IsKept(process, graph));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
}

// What only predicting shows, of an artifact that it reads and does not keep.
TEST_F(GraphStoreFailuresTest, WhatCannotBePredictedIsSetAsideAndCompiledAnew) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  Artifact damaged;
  damaged.label.component = "part";
  damaged.graph = std::make_shared<const graph::Graph>(SiluGraph(4));
  damaged.plan = {.bytes = "plan of 2", .weights = {{.recipe = 7}}};
  ASSERT_OK(process.disk().Write(cache::Kind::kArtifact, KeyOf(SiluGraph(4), backend, {}).ToText(),
                                 WritePayload(damaged)));
  EXPECT_OK(process->Predict(graph));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process.Lookups("corrupt"), 1);
  EXPECT_FALSE(IsEmptyDirectory(directory.File("quarantine")));
}

TEST_F(GraphStoreFailuresTest, AnArtifactThatReadsAnotherWeightIsDamaged) {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {4}, graph::Rate::kStep);
  b.Output("y", b.Add(x, b.Weight("part/other", {4})));
  const graph::Graph other = *std::move(b).Build();
  EXPECT_OK(CheckSamePorts(BiasGraph(4), BiasGraph(4)));
  EXPECT_THAT(CheckSamePorts(BiasGraph(4), other),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("part/other")));
}

TEST_F(GraphStoreFailuresTest, VerifyingWhatCannotBeCheckedNowKeepsIt) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.check_status = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(process->Verify(GraphStore::IdOf(graph)), backend.check_status);
  EXPECT_TRUE(IsKept(process, graph));
  backend.check_status = absl::OkStatus();
  EXPECT_OK(process->Verify(GraphStore::IdOf(graph)));
  EXPECT_THAT(process.warnings(), IsEmpty());
}

TEST_F(GraphStoreFailuresTest, LackOfMemoryWhileCompilingIsNotRemembered) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.plan_status = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(process->Get(graph).status(), backend.plan_status);
  backend.plan_status = absl::OkStatus();
  EXPECT_OK(process->Get(graph));
}

}  // namespace
}  // namespace latentd::compiler
