// Whose fault a failure is: what becomes of the artifact on disk, and what is tried again.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/device/device_fault.h"
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

TEST_F(GraphStoreFailuresTest, ADeviceThatHasFailedIsToldOfAndBlamesNoGraph) {
  const absl::Status fault = device::FaultError("a kernel's bad access");
  int told = 0;
  Process process(backend, clock, directory.path(),
                  {.on_device_fault = [&](const absl::Status& what) { told += what == fault; }});
  const GraphHandle loaded = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = fault;
  EXPECT_EQ(process->Get(loaded).status(), fault);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_TRUE(IsKept(process, loaded));

  const GraphHandle compiled = process->Declare(Wanted(SiluGraph(8)));
  backend.plan_status = fault;
  EXPECT_EQ(process->Get(compiled).status(), fault);
  EXPECT_EQ(process->Predict(compiled).status(), fault);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(backend.plans, 2);  // each tried, and nothing was remembered
  EXPECT_EQ(process->Find(GraphStore::IdOf(compiled))->state, GraphState::kCold);
  EXPECT_EQ(process.Count(metrics::kGraphCompileFailures, {"base", "part"}), 0);

  backend.load_status = absl::InternalError("of the graph");
  EXPECT_FALSE(process->Get(loaded).ok());
  EXPECT_EQ(told, 3);
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

// An import by another process while the earlier file is read.
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

// Damage that only predicting shows, in an artifact that it reads and does not keep.
TEST_F(GraphStoreFailuresTest, WhatCannotBePredictedIsSetAsideAndCompiledAnew) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  Artifact damaged;
  damaged.label.model = "base";
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

// Until the thread waits for something.
void WaitUntilAsleep(pid_t thread) {
  const std::string path = absl::StrCat("/proc/self/task/", thread, "/stat");
  std::string text;
  do {
    sched_yield();
    std::ifstream file(path);
    std::getline(file, text);
  } while (!absl::StrContains(text, ") S "));
}

// Others than the first have other weights, and so another executable to wait for.
TEST_F(GraphStoreFailuresTest, WhoWaitsForACompilationThatFailsGetsItsFailure) {
  const struct {
    absl::Status failure;
    Purpose purpose;
  } tries[] = {{absl::ResourceExhaustedError("no memory"), {}},  // is not remembered
               {absl::UnimplementedError("not here"), kAgain}};
  for (const auto& one : tries) {
    Process process(backend, clock, "");
    const GraphHandle first = process->Declare(WantedWith(Weights(4, 1), "base"));
    const GraphHandle second = process->Declare(WantedWith(Weights(4, 2), "refiner"));
    backend.plans = 0;
    backend.plan_status = one.failure;
    std::atomic<pid_t> waits = 0;
    std::thread waiter;
    backend.on_plan = [&] {
      if (backend.plans > 1) return;
      waiter = std::thread([&] {
        waits = gettid();
        EXPECT_EQ(process->Get(second, one.purpose).status(), one.failure);
      });
      while (waits == 0) sched_yield();
      WaitUntilAsleep(waits);
    };
    EXPECT_EQ(process->Get(first, one.purpose).status(), one.failure);
    waiter.join();
    EXPECT_EQ(backend.plans, 1) << one.failure;
    EXPECT_EQ(process.Count(metrics::kGraphCompileFailures, {"base", "part"}), 1);
  }
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
