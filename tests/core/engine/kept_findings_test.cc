// Starts of servers whose backend times a kernel for each shape of a linear layer, and builds a
// plan for each of a convolution: which shapes a start pays for, with what others left on disk.
#include "core/engine/models/kept_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/chooser.h"
#include "core/base/errors/status_macros.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using backends::Choice;
using backends::Chooser;
using backends::KernelWork;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::SizeIs;
using Shapes = std::set<std::string>;

// It computes as the CPU backend does, whatever it chose.
class ChoosingBackend : public WatchedBackend {
 public:
  // `kernel` is what it chooses now; it cannot load the one that is `refused`.
  struct Options {
    std::string fingerprint = "gpu 1", kernel = "7", refused = "none";
  };

  explicit ChoosingBackend(Options options)
      : WatchedBackend(*backends::cpu::CpuBackend::Create(),
                       [](const graph::Graph&) { return absl::OkStatus(); }),
        options_(std::move(options)) {}

  std::string Fingerprint() const override { return options_.fingerprint; }
  backends::Findings* findings() override { return &findings_; }

  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    backends::Choices choices;
    const Chooser chooser = Chooser::Choosing(findings_, choices);
    for (graph::ValueId id = 0; id < graph.size(); ++id) {
      const graph::Node& node = graph.node(id);
      const bool product = node.op == graph::Op::kLinear;
      if (!product && node.op != graph::Op::kConv2d) continue;
      const std::string shape = absl::StrCat(product ? "linear to" : "convolution to",
                                             absl::StrJoin(node.shape.dims(), "x"));
      RETURN_IF_ERROR(Get(chooser, shape, product).status());
    }
    return WatchedBackend::MakePlan(graph);
  }

  Shapes chosen() const {
    absl::MutexLock lock(&mutex_);
    return chosen_;
  }

 private:
  absl::StatusOr<std::string> Get(const Chooser& chooser, const std::string& shape,
                                  bool product) const {
    const auto choose = [&]() -> absl::StatusOr<Choice> {
      absl::MutexLock lock(&mutex_);
      chosen_.insert(shape);
      return Choice{options_.kernel, product ? KernelWork::kTrial : KernelWork::kPlanBuilt};
    };
    return chooser.Get(shape, choose,
                       [&](const std::string& choice) -> absl::StatusOr<std::string> {
                         if (choice != options_.refused) return choice;
                         return absl::InvalidArgumentError("no such kernel");
                       });
  }

  const Options options_;
  mutable backends::Findings findings_;
  mutable absl::Mutex mutex_;
  mutable Shapes chosen_ ABSL_GUARDED_BY(mutex_);
};

// One start until it is ready.
struct Start {
  Shapes chosen;
  std::vector<std::string> warnings;
  double compilations = 0, trials = 0, built = 0, found = 0, refused = 0;
};

class KeptFindingsTest : public ::testing::Test {
 protected:
  Start Run(std::vector<pipeline::Size> buckets, ChoosingBackend::Options options = {}) {
    Start start;
    absl::Mutex mutex;
    Config config = SmallConfig();
    config.cache_dir = cache_dir_;
    config.buckets = std::move(buckets);
    config.warn = [&](absl::string_view what) {
      absl::MutexLock lock(&mutex);
      start.warnings.emplace_back(what);
    };
    auto backend = std::make_unique<ChoosingBackend>(std::move(options));
    const ChoosingBackend& choosing = *backend;
    LocalEngine engine(config, std::move(backend), SystemClock());
    EXPECT_OK(engine.Load());
    EXPECT_EQ(engine.state(), State::kReady);
    start.chosen = choosing.chosen();
    start.compilations = MetricOf(engine, metrics::kGraphCompilations);
    start.trials = MetricOf(engine, metrics::kKernelTrials);
    start.built = MetricOf(engine, metrics::kKernelPlansBuilt);
    start.found = MetricOf(engine, metrics::kKernelFindings, "found");
    start.refused = MetricOf(engine, metrics::kKernelFindings, "refused");
    return start;
  }
  void RemoveGraphs() const { std::filesystem::remove_all(cache_dir_ + "/artifacts"); }

  const ::latentd::testing::TemporaryDirectory directory_;
  std::string cache_dir_ = directory_.File("cache");
};

constexpr pipeline::Size kSmall{64, 64}, kLarge{128, 64};

TEST_F(KeptFindingsTest, AStartThatFindsItsGraphsTimesAndBuildsNothing) {
  const Start first = Run({kSmall});
  EXPECT_GT(first.trials, 0);
  EXPECT_GT(first.built, 0);
  EXPECT_EQ(first.found, 0);
  const Start second = Run({kSmall});
  EXPECT_THAT(second.chosen, IsEmpty());
  EXPECT_EQ(second.compilations, 0);
  EXPECT_EQ(second.trials, 0);
  EXPECT_EQ(second.built, 0);
  EXPECT_THAT(second.warnings, IsEmpty());
}

TEST_F(KeptFindingsTest, ANewBucketPaysForNewShapesOnly) {
  const Start small = Run({kSmall});
  const Start more = Run({kSmall, kLarge});
  EXPECT_GT(more.compilations, 0);
  EXPECT_GT(more.found, 0);
  EXPECT_THAT(more.chosen, Not(IsEmpty()));
  EXPECT_THAT(more.chosen, Each(Not(::testing::AnyOfArray(small.chosen))));
  EXPECT_EQ(more.refused, 0);
  EXPECT_THAT(more.warnings, IsEmpty());
  cache_dir_ = directory_.File("another");
  Shapes both = small.chosen;
  both.insert(more.chosen.begin(), more.chosen.end());
  EXPECT_EQ(Run({kSmall, kLarge}).chosen, both);
}

TEST_F(KeptFindingsTest, CompilingAgainChoosesNothing) {
  Run({kSmall});
  RemoveGraphs();
  const Start again = Run({kSmall});
  EXPECT_GT(again.compilations, 0);
  EXPECT_THAT(again.chosen, IsEmpty());
  EXPECT_EQ(again.trials + again.built, 0);
}

TEST_F(KeptFindingsTest, WithoutACacheDirectoryTheyAreCountedAndNotKept) {
  cache_dir_ = "";
  const Start first = Run({kSmall}), second = Run({kSmall});
  EXPECT_GT(first.trials, 0);
  EXPECT_EQ(second.chosen, first.chosen);
  EXPECT_GT(second.trials, 0);
}

TEST_F(KeptFindingsTest, AnotherDriverIsAMissWithItsReason) {
  const Start first = Run({kSmall});
  const Start second = Run({kSmall}, {.fingerprint = "gpu 1 driver 2"});
  EXPECT_EQ(second.chosen, first.chosen);
  EXPECT_EQ(second.found, 0);
  EXPECT_THAT(second.warnings,
              Contains(AllOf(HasSubstr("kernels are chosen anew"),
                             HasSubstr("fingerprint gpu 1, wanted gpu 1 driver 2")))
                  .Times(1));
  RemoveGraphs();
  EXPECT_THAT(Run({kSmall}).chosen, IsEmpty());  // the first run's are still there
}

TEST_F(KeptFindingsTest, WhatIsDamagedIsChosenAnew) {
  const Start first = Run({kSmall});
  RemoveGraphs();
  const auto files = std::filesystem::directory_iterator(cache_dir_ + "/findings");
  testing::WriteFile(files->path(), "noise");
  const Start second = Run({kSmall});
  EXPECT_THAT(second.chosen, SizeIs(1));
  EXPECT_THAT(second.chosen, IsSubsetOf(first.chosen));
  EXPECT_THAT(second.warnings, Contains(HasSubstr("is damaged")));
  RemoveGraphs();
  EXPECT_THAT(Run({kSmall}).chosen, IsEmpty());
}

TEST_F(KeptFindingsTest, WhatTheLibraryRefusesIsChosenAnewOnce) {
  const Start first = Run({kSmall}, {.kernel = "6"});
  RemoveGraphs();
  const Start second = Run({kSmall}, {.kernel = "7", .refused = "6"});
  EXPECT_EQ(second.chosen, first.chosen);
  EXPECT_EQ(second.refused, first.chosen.size());
  EXPECT_THAT(second.warnings, Each(HasSubstr("no such kernel")));
  RemoveGraphs();
  const Start third = Run({kSmall}, {.kernel = "7", .refused = "6"});
  EXPECT_THAT(third.chosen, IsEmpty());
  EXPECT_EQ(third.refused, 0);
  EXPECT_THAT(third.warnings, IsEmpty());
}

}  // namespace
}  // namespace latentd::engine
