#include "core/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/backends/cuda/cuda_executable.h"
#include "core/backends/cuda/kernels/values/elementwise.h"
#include "core/backends/cuda/plan.h"
#include "core/backends/cuda/trial/trial_process.h"
#include "core/base/clock.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using ::testing::_;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(CudaBackendTest, SaysWhatIsMissingWhereThereIsNoGpu) {
  if (HasGpu()) GTEST_SKIP() << "there is one";
  EXPECT_THAT(CudaBackend::Create(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no GPU"))));
}

TEST(CudaBackendTest, AProcessForTrialsEndsWhereThereIsNoGpu) {
  if (HasGpu()) GTEST_SKIP() << "there is one";
  EXPECT_EQ(RunTrialProgram(/*ordinal=*/0), 1);
}

// Not tests: programs that a backend starts to try algorithms.
TEST(TrialProgram, DISABLED_Serves) { _exit(RunTrialProgram(/*ordinal=*/0)); }

void FaultOnDevice() {
  kernels::GegluArgs args;
  args.element = kernels::Element::kF32;
  args.rows = 1;
  args.channels = 64;
  args.x = reinterpret_cast<const char*>(16);
  args.result = reinterpret_cast<char*>(16);
  EXPECT_EQ(kernels::Geglu(args, nullptr), cudaSuccess);
}

// Whose first algorithm for each product faults.
TEST(FaultingTrialProgram, DISABLED_Serves) {
  const auto device = device::cuda::CudaDevice::Open().value();
  const auto library = CublasLt::Open().value();
  ASSERT_OK(device->Select());
  _exit(ServeTrials(STDIN_FILENO, [&](const ProductShape& shape, const TrialWatch& watch) {
    TrialWatch faulting = watch;
    faulting.announce = [&](absl::string_view algorithm) {
      watch.announce(algorithm);
      if (watch.left_out.empty()) FaultOnDevice();
    };
    return library->Choose(shape, faulting);
  }));
}

std::vector<std::string> ThisProgram(const std::string& suite) {
  return {"/proc/self/exe", "--gtest_filter=" + suite + ".*", "--gtest_also_run_disabled_tests"};
}

std::shared_ptr<const graph::Graph> LinearOfRows(int64_t rows) {
  graph::GraphBuilder b;
  const auto x = b.Input("x", device::DType::kF32, {rows, 64}, graph::Rate::kStep);
  b.Output("y", b.Linear(x, b.Weight("net/w", {64, 64})));
  return testing::Share(std::move(b).Build().value());
}

class CudaBackendGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU";
    ASSERT_OK_AND_ASSIGN(backend_, CudaBackend::Create());
    graph_ = LinearOfRows(2);
    leaves_ = testing::RandomLeaves(*graph_, /*seed=*/3);
  }

  std::unique_ptr<CudaBackend> backend_;
  std::shared_ptr<const graph::Graph> graph_;
  testing::Leaves leaves_;
};

TEST_F(CudaBackendGpuTest, APlanIsCheckedAgainstItsGraph) {
  ASSERT_OK_AND_ASSIGN(Plan plan, backend_->MakePlan(*graph_));
  EXPECT_OK(backend_->CheckPlan(*graph_, plan));
  Plan damaged = plan;
  damaged.bytes.pop_back();
  EXPECT_THAT(backend_->CheckPlan(*graph_, damaged), StatusIs(absl::StatusCode::kDataLoss, _));
  Plan greedy = plan;
  greedy.arena_bytes += 256;
  EXPECT_THAT(backend_->CheckPlan(*graph_, greedy), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(CudaBackendGpuTest, APlanWithoutItsChoicesIsDamaged) {
  ASSERT_OK_AND_ASSIGN(Plan plan, backend_->MakePlan(*graph_));
  ASSERT_OK_AND_ASSIGN(CudaPlan read, Decode(plan.bytes));
  read.choices.clear();
  plan.bytes = Encode(read);
  EXPECT_THAT(backend_->CheckPlan(*graph_, plan), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(CudaBackendGpuTest, ComputesTheSameBytesAgain) {
  ASSERT_OK_AND_ASSIGN(const auto first, testing::RunOn(*backend_, graph_, leaves_));
  ASSERT_OK_AND_ASSIGN(const auto again, testing::RunOn(*backend_, graph_, leaves_));
  EXPECT_EQ(testing::ToDoubles(first[0]), testing::ToDoubles(again[0]));
}

// Sets over a base, whose weight is the base's and another tensor.
class SetsOnGpu {
 public:
  SetsOnGpu(CudaBackend& backend, const testing::Leaves& leaves) : store(backend) {
    auto set = std::make_shared<weights::WeightSet>(&store, "base");
    set->Add("net", leaves.weights);
    base_ = std::move(set);
  }

  std::shared_ptr<const weights::WeightSet> With(weights::StoredTensor delta) const {
    graph::GraphBuilder b;
    b.Output("sum", b.Add(b.Weight("w", {64, 64}), b.Weight("delta", {64, 64})));
    weights::Source changed =
        weights::Compose(std::move(b).Build().value(),
                         {base_->Find("net/w").value(), weights::Source::Of(std::move(delta))})
            .value();
    return weights::WeightSet::Over(base_, {{"net/w", std::move(changed)}});
  }

  weights::WeightStore store;

 private:
  std::shared_ptr<const weights::WeightSet> base_;
};

// Its weight is made of the file's tensor, then of the one that is kept.
TEST_F(CudaBackendGpuTest, ComputesTheSameBytesOfTensorsThatItKeeps) {
  SetsOnGpu sets(*backend_, leaves_);
  const auto run = [&](unsigned seed) {
    const auto set = sets.With(testing::RandomLeaves(*graph_, seed).weights.at("w"));
    return testing::ToDoubles(
        testing::RunGraph(*backend_, graph_, *set, leaves_.inputs).value()[0]);
  };
  const std::vector<double> wanted = run(4);
  sets.store.kept_tensors().SetLimit(1 << 20);
  EXPECT_EQ(run(4), wanted);
  EXPECT_EQ(sets.store.kept_tensors().bytes(), 64 * 64 * sizeof(float));
  EXPECT_EQ(run(4), wanted);
  const size_t bound = backend_->bound_recipes();
  EXPECT_GT(bound, 0u);
  EXPECT_NE(run(5), wanted);
  EXPECT_EQ(backend_->bound_recipes(), bound);
}

// In the middle of memory that goes to the device as one, in parts of its own size.
TEST_F(CudaBackendGpuTest, ComputesTheSameBytesOfATensorInAUnitThatItKeeps) {
  const weights::StoredTensor alone = testing::RandomLeaves(*graph_, /*seed=*/4).weights.at("w");
  constexpr int64_t kBytes = int64_t{20} << 20, kOffset = (int64_t{8} << 20) - 256;
  const device::Buffer bytes = device::Buffer::Allocate(device::DType::kU8, {kBytes});
  char* const place = static_cast<char*>(bytes.data()) + kOffset;
  std::memcpy(place, alone.data.data(), alone.data.bytes());
  auto unit = std::make_shared<weights::StoredTensor>(weights::StoredTensor{.data = bytes});
  unit->digest = std::make_shared<const weights::ContentDigest>(bytes);
  weights::StoredTensor part = alone;
  part.data = device::ConstBuffer::Wrap(place, alone.data.dtype(), alone.data.shape(), nullptr);
  part.part_of = unit;
  SetsOnGpu sets(*backend_, leaves_);
  const auto run = [&](const weights::StoredTensor& delta) {
    return testing::ToDoubles(
        testing::RunGraph(*backend_, graph_, *sets.With(delta), leaves_.inputs).value()[0]);
  };
  const std::vector<double> wanted = run(alone);
  sets.store.kept_tensors().SetLimit(size_t{1} << 30);
  EXPECT_EQ(run(part), wanted);
  EXPECT_EQ(sets.store.kept_tensors().bytes(), kBytes + 64 * 64 * sizeof(float));
  EXPECT_EQ(run(part), wanted);
}

TEST_F(CudaBackendGpuTest, BindsOnceForAllWeightsOfAGraphAndPlan) {
  weights::WeightStore store(*backend_);
  weights::WeightSet one(&store), other(&store);
  one.Add("net", leaves_.weights);
  other.Add("net", testing::RandomLeaves(*graph_, /*seed=*/4).weights);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph_));
  const auto run = [&](Executable& executable) {
    return testing::ToDoubles(testing::RunOnDevice(executable, leaves_.inputs).value()[0]);
  };
  std::vector<double> wanted;
  {
    ASSERT_OK_AND_ASSIGN(const auto alone, backend_->Load(graph_, plan, other));
    wanted = run(*alone);
  }
  ASSERT_OK_AND_ASSIGN(auto first, backend_->Load(graph_, plan, one));
  ASSERT_OK_AND_ASSIGN(const auto second, backend_->Load(graph_, plan, other));
  EXPECT_EQ(&static_cast<const CudaExecutable&>(*first).program(),
            &static_cast<const CudaExecutable&>(*second).program());
  const std::vector<double> of_first = run(*first);
  EXPECT_NE(of_first, wanted);
  EXPECT_EQ(run(*second), wanted);
  EXPECT_EQ(run(*first), of_first);
  first.reset();
  EXPECT_EQ(run(*second), wanted);
}

TEST_F(CudaBackendGpuTest, TheArenaIsAsLargeAsTheLargestGraphThatIsLoaded) {
  weights::WeightStore store(*backend_);
  weights::WeightSet set(&store);
  set.Add("net", leaves_.weights);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph_));
  {
    ASSERT_OK_AND_ASSIGN(const auto executable, backend_->Load(graph_, plan, set));
    EXPECT_EQ(backend_->arena_bytes(), plan.arena_bytes);
  }
  EXPECT_EQ(backend_->arena_bytes(), 0u);
}

// Findings of the backends of several processes, in memory.
class Archive {
 public:
  void Connect(CudaBackend& backend) {
    counts_.clear();
    warnings.clear();
    FindingArchive archive;
    archive.find = [this](const std::string& shape) -> std::optional<std::string> {
      const auto found = kept.find(shape);
      if (found == kept.end()) return std::nullopt;
      return found->second;
    };
    archive.keep = [this](const std::string& shape, const std::string& choice) {
      kept[shape] = choice;
    };
    archive.count = [this](KernelWork work) { ++counts_[work]; };
    archive.warn = [this](absl::string_view what) { warnings.emplace_back(what); };
    backend.findings()->Connect(std::move(archive));
  }
  // The count of the backend that was connected last.
  int Count(KernelWork work) const {
    const auto count = counts_.find(work);
    return count == counts_.end() ? 0 : count->second;
  }

  std::map<std::string, std::string> kept;
  std::vector<std::string> warnings;

 private:
  std::map<KernelWork, int> counts_;
};

// In bf16.
graph::Graph ConvolutionAndLinear() {
  graph::GraphBuilder b;
  const auto x = b.Input("x", device::DType::kF32, {1, 16, 16, 64}, graph::Rate::kStep);
  const graph::Conv2dAttributes attributes = {.padding = {1, 1, 1, 1},
                                              .layout = graph::Layout::kNhwc};
  b.Output("image", b.Conv2d(x, b.Weight("net/c", {64, 64, 3, 3}), graph::kNone, attributes));
  const auto y = b.Input("y", device::DType::kF32, {128, 64}, graph::Rate::kStep);
  b.Output("lines", b.Linear(y, b.Weight("net/w", {64, 64})));
  return testing::InDType(std::move(b).Build().value(), device::DType::kBF16);
}

TEST_F(CudaBackendGpuTest, AnotherProcessTimesAndBuildsNothingThatOneHasFoundOut) {
  const graph::Graph graph = ConvolutionAndLinear();
  Archive archive;
  archive.Connect(*backend_);
  ASSERT_OK_AND_ASSIGN(const Plan first, backend_->MakePlan(graph));
  EXPECT_EQ(archive.Count(KernelWork::kTrial), 1);
  EXPECT_EQ(archive.Count(KernelWork::kPlanBuilt), 1);
  EXPECT_EQ(archive.kept.size(), 2u);

  ASSERT_OK_AND_ASSIGN(const auto another, CudaBackend::Create());
  archive.Connect(*another);
  ASSERT_OK_AND_ASSIGN(const Plan second, another->MakePlan(graph));
  EXPECT_EQ(second, first);
  EXPECT_EQ(archive.Count(KernelWork::kTrial), 0);
  EXPECT_EQ(archive.Count(KernelWork::kPlanBuilt), 0);
  EXPECT_EQ(archive.Count(KernelWork::kPlanRestored), 1);
  EXPECT_EQ(archive.Count(KernelWork::kFound), 2);
  EXPECT_EQ(archive.Count(KernelWork::kRefused), 0);
}

TEST_F(CudaBackendGpuTest, FindingsThatALibraryRefusesAreChosenAnew) {
  const graph::Graph graph = ConvolutionAndLinear();
  Archive archive;
  archive.Connect(*backend_);
  ASSERT_OK(backend_->MakePlan(graph));
  const std::map<std::string, std::string> good = archive.kept;
  const auto expect_refused = [&] {
    ASSERT_OK_AND_ASSIGN(const auto another, CudaBackend::Create());
    archive.Connect(*another);
    ASSERT_OK_AND_ASSIGN(const Plan plan, another->MakePlan(graph));
    EXPECT_OK(another->CheckPlan(graph, plan));
    EXPECT_EQ(archive.Count(KernelWork::kRefused), 2);
    EXPECT_EQ(archive.Count(KernelWork::kTrial), 1);
    EXPECT_EQ(archive.Count(KernelWork::kPlanBuilt), 1);
    for (const auto& [shape, choice] : good) EXPECT_GT(archive.kept[shape].size(), 8u);
  };
  for (auto& [shape, choice] : archive.kept) choice = "noise";
  expect_refused();
  archive.kept = good;
  for (auto& [shape, choice] : archive.kept) choice.pop_back();
  expect_refused();
}

TEST_F(CudaBackendGpuTest, TriesAlgorithmsInAProcessOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(const auto backend,
                       CudaBackend::Create({.trial_command = ThisProgram("TrialProgram")}));
  Archive archive;
  archive.Connect(*backend);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*graph_));
  EXPECT_OK(backend->CheckPlan(*graph_, plan));
  EXPECT_EQ(archive.Count(KernelWork::kTrial), 1);
  EXPECT_EQ(archive.Count(KernelWork::kTrialFault), 0);
  EXPECT_THAT(archive.warnings, IsEmpty());
}

TEST_F(CudaBackendGpuTest, AnAlgorithmThatFaultsIsLeftOutAndTheGpuWorksOn) {
  ASSERT_OK_AND_ASSIGN(const auto backend,
                       CudaBackend::Create({.trial_command = ThisProgram("FaultingTrialProgram")}));
  Archive archive;
  archive.Connect(*backend);
  ASSERT_OK(backend->MakePlan(*graph_));
  EXPECT_EQ(archive.Count(KernelWork::kTrial), 1);
  EXPECT_EQ(archive.Count(KernelWork::kTrialFault), 1);
  EXPECT_THAT(archive.warnings, ElementsAre(HasSubstr("exit code 1")));
  EXPECT_OK(testing::RunOn(*backend, graph_, leaves_));
}

// A session of the graph.
class LinearOnGpu {
 public:
  LinearOnGpu(Executable& executable, device::Buffer x, device::Buffer y)
      : device_(executable.device()),
        x_(std::move(x)),
        y_(std::move(y)),
        session_(executable.Bind({x_}, {y_}).value()),
        stream_(device_.NewStream(SystemClock()).value()) {}

  // Result for an x full of that value, by the last of so many runs.
  std::vector<double> Run(float value, int runs) {
    const device::Buffer host = device::Buffer::Allocate(x_.dtype(), x_.shape());
    std::fill(host.as<float>().begin(), host.as<float>().end(), value);
    EXPECT_OK(device_.Copy(host, x_, *stream_));
    for (int i = 0; i < runs; ++i) EXPECT_OK(session_->Enqueue(*stream_));
    EXPECT_OK(device_.Copy(y_, host, *stream_));
    EXPECT_OK(stream_->Synchronize());
    return testing::ToDoubles(host);
  }

 private:
  device::Device& device_;
  const device::Buffer x_, y_;
  const std::unique_ptr<Session> session_;
  const std::unique_ptr<device::Stream> stream_;
};

// The graph loaded.
class LoadedOnGpu {
 public:
  LoadedOnGpu(CudaBackend& backend, std::shared_ptr<const graph::Graph> graph,
              const testing::Leaves& leaves)
      : LoadedOnGpu(backend, graph, leaves, backend.MakePlan(*graph).value()) {}
  LoadedOnGpu(CudaBackend& backend, std::shared_ptr<const graph::Graph> graph,
              const testing::Leaves& leaves, const Plan& plan)
      : backend_(backend), store_(backend), set_(&store_) {
    set_.Add("net", leaves.weights);
    executable_ = backend.Load(std::move(graph), plan, set_).value();
  }

  Executable& executable() { return *executable_; }
  bool keeps_graph() const {
    return static_cast<const CudaExecutable&>(*executable_).keeps_graph();
  }
  device::Buffer Allocate(int64_t rows) {
    return backend_.device()
        .Allocate(device::DType::kF32, {rows, 64}, device::Place::kDevice)
        .value();
  }

 private:
  CudaBackend& backend_;
  weights::WeightStore store_;
  weights::WeightSet set_;
  std::unique_ptr<Executable> executable_;
};

// With ports that are too large to be staged.
TEST_F(CudaBackendGpuTest, ASessionRunsTheGraphThatTheLastOneThereHasCaptured) {
  constexpr int64_t kRows = 1 << 17;
  LoadedOnGpu loaded(*backend_, LinearOfRows(kRows), leaves_);
  const device::Buffer x = loaded.Allocate(kRows), y = loaded.Allocate(kRows);
  const auto once = LinearOnGpu(loaded.executable(), x, y).Run(1, /*runs=*/1);
  EXPECT_FALSE(loaded.keeps_graph());
  EXPECT_EQ(LinearOnGpu(loaded.executable(), x, y).Run(1, /*runs=*/2), once);
  EXPECT_TRUE(loaded.keeps_graph());
  EXPECT_EQ(LinearOnGpu(loaded.executable(), loaded.Allocate(kRows), y).Run(1, /*runs=*/1), once);
  EXPECT_TRUE(loaded.keeps_graph());
  {
    LinearOnGpu there(loaded.executable(), x, y);
    EXPECT_FALSE(loaded.keeps_graph());
    const std::vector<double> twice = there.Run(2, /*runs=*/1);
    for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]);
  }
  EXPECT_TRUE(loaded.keeps_graph());
}

// The first run is that of a graph's start, on zeros.
TEST_F(CudaBackendGpuTest, AStepThatHasRunIsCapturedBehindTheFirstRunOfASession) {
  graph::GraphBuilder b;
  const auto x = b.Input("x", device::DType::kF32, {2, 64}, graph::Rate::kStep);
  b.Output("x", b.Linear(x, b.Weight("net/w", {64, 64})));
  LoadedOnGpu loaded(*backend_, testing::Share(std::move(b).Build().value()), leaves_);
  const device::Buffer state = loaded.Allocate(2);
  const auto run = [&](int runs) {
    return LinearOnGpu(loaded.executable(), state, state).Run(1, runs);
  };
  const std::vector<double> once = run(1);
  EXPECT_FALSE(loaded.keeps_graph());
  EXPECT_EQ(run(1), once);  // launched
  EXPECT_TRUE(loaded.keeps_graph());
  EXPECT_EQ(run(1), once);  // captured
  EXPECT_NE(run(2), once);
}

TEST_F(CudaBackendGpuTest, SessionsWithSmallPortsShareAGraphWhereverTheyLie) {
  LoadedOnGpu loaded(*backend_, graph_, leaves_);
  const auto run = [&](float value) {
    const device::Buffer x = loaded.Allocate(2), y = loaded.Allocate(2);
    return LinearOnGpu(loaded.executable(), x, y).Run(value, /*runs=*/1);
  };
  const std::vector<double> launched = run(1);
  EXPECT_EQ(run(1), launched);
  const std::vector<double> twice = run(2);
  for (size_t i = 0; i < twice.size(); ++i) EXPECT_EQ(twice[i], 2 * launched[i]);
  EXPECT_FALSE(loaded.keeps_graph());
}

// By turns on one thread, and on two at the same time; with kernels that are launched and captured.
TEST_F(CudaBackendGpuTest, EqualGpusComputeTheSameBytesOfWhatOneHasPlanned) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "no second GPU";
  ASSERT_OK_AND_ASSIGN(const auto other, CudaBackend::Create({.ordinal = 1}));
  if (other->Fingerprint() != backend_->Fingerprint()) GTEST_SKIP() << "the GPUs are not equal";
  constexpr int64_t kRows = 1 << 17;
  const auto graph = LinearOfRows(kRows);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  EXPECT_OK(other->CheckPlan(*graph, plan));
  LoadedOnGpu first(*backend_, graph, leaves_, plan), second(*other, graph, leaves_, plan);
  const auto run = [&](LoadedOnGpu& loaded, int runs) {
    const device::Buffer x = loaded.Allocate(kRows), y = loaded.Allocate(kRows);
    return LinearOnGpu(loaded.executable(), x, y).Run(1, runs);
  };
  const std::vector<double> expected = run(first, /*runs=*/1);
  for (int runs : {1, 3}) {
    EXPECT_EQ(run(second, runs), expected);
    EXPECT_EQ(run(first, runs), expected);
  }
  std::vector<double> beside;
  std::thread thread([&] { beside = run(second, /*runs=*/50); });
  EXPECT_EQ(run(first, /*runs=*/50), expected);
  thread.join();
  EXPECT_EQ(beside, expected);
}

}  // namespace
}  // namespace latentd::backends::cuda
