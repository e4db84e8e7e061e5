// Every algorithm that the CPU backend has for an instruction of the op cases, against the
// reference backend: also those that its rules would not take for shapes as small as these.
#include "core/backends/cpu/binding/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/lowering/lowering.h"
#include "core/backends/reference/reference_backend.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::Buffer;

// A case, loaded and run with every choice that the CPU backend has.
class EveryWay {
 public:
  EveryWay(std::shared_ptr<const graph::Graph> graph, const char* instruction_set)
      : graph_(std::move(graph)),
        leaves_(testing::RandomLeaves(*graph_, /*seed=*/23)),
        backend_(CpuBackend::Create({.threads = 2, .instruction_set = instruction_set}).value()),
        machine_{KernelsByName(instruction_set), 2},
        recipes_(graph::ExtractRecipes(*graph_)),
        program_(lowering::Lower(*graph_, recipes_, CpuKernelRules(machine_))) {
    set_.Add("net", leaves_.weights);
    for (const Instruction& instruction : program_.instructions) {
      rules_.push_back(ChooseAlgorithm(program_, instruction, machine_));
    }
  }

  // Compares each algorithm; returns those that ran and that the rules do not choose.
  std::set<Algorithm> CompareEach() {
    std::set<Algorithm> taken;
    reference::ReferenceBackend reference;
    weights::WeightStore store(reference);
    weights::WeightSet set(&store);
    set.Add("net", leaves_.weights);
    const auto expected = testing::RunGraph(reference, graph_, set, leaves_.inputs);
    EXPECT_OK(expected);
    for (size_t i = 0; expected.ok() && i < rules_.size(); ++i) {
      for (const Algorithm algorithm : AlgorithmsFor(program_, program_.instructions[i])) {
        if (algorithm == rules_[i]) continue;
        taken.insert(algorithm);
        std::vector<Algorithm> algorithms = rules_;
        algorithms[i] = algorithm;
        Compare(algorithms, *expected);
      }
    }
    return taken;
  }

 private:
  Plan PlanOf(const std::vector<Algorithm>& algorithms) const {
    const auto choose = [&](const Program&) { return algorithms; };
    const BoundProgram bound = Bind(*graph_, recipes_, choose, machine_).value();
    const CpuPlan plan = {algorithms, graph::PlanMemory(bound.values.values).value()};
    return WithNeeds(plan, *graph_, bound);
  }

  void Compare(const std::vector<Algorithm>& algorithms, const std::vector<Buffer>& expected) {
    ASSERT_OK_AND_ASSIGN(const auto executable, backend_->Load(graph_, PlanOf(algorithms), set_));
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> actual,
                         testing::RunExecutable(*executable, leaves_.inputs));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const testing::Tolerance tolerance = testing::ToleranceOf("cpu", actual[i].dtype());
      const std::vector<double> values = testing::ToDoubles(actual[i]);
      const std::vector<double> wanted = testing::ToDoubles(expected[i]);
      ASSERT_EQ(values.size(), wanted.size());
      for (size_t k = 0; k < values.size(); ++k) {
        ASSERT_NEAR(values[k], wanted[k], tolerance.abs + tolerance.rel * std::abs(wanted[k]));
      }
    }
  }

  std::shared_ptr<const graph::Graph> graph_;
  testing::Leaves leaves_;
  std::unique_ptr<CpuBackend> backend_;
  Machine machine_;
  std::vector<graph::Recipe> recipes_;
  Program program_;
  weights::WeightStore store_{*backend_};
  weights::WeightSet set_{&store_};
  std::vector<Algorithm> rules_;
};

TEST(Algorithms, EachComputesWhatTheReferenceDoes) {
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (KernelsByName(name) == nullptr) continue;
    std::set<Algorithm> taken;
    for (const testing::OpCase& c : testing::CasesWithoutF8()) {
      SCOPED_TRACE(c.name + " in " + name);
      graph::GraphBuilder b;
      c.build(b);
      ASSERT_OK_AND_ASSIGN(graph::Graph graph, std::move(b).Build());
      taken.merge(
          EveryWay(std::make_shared<const graph::Graph>(std::move(graph)), name).CompareEach());
    }
    EXPECT_THAT(taken, ::testing::IsSupersetOf({Algorithm::kThenAdd, Algorithm::kWinograd}))
        << name;
    // A linear layer has two algorithms, of which the rules take the first from AVX-512 on.
    EXPECT_TRUE(taken.contains(Algorithm::kAsConvolution) || taken.contains(Algorithm::kDirect))
        << name;
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
