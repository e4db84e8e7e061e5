// Calls of operators on graphs and memory, with base and refiner of the demo checkpoint with a disk
// cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr auto kExact = pipeline::BucketPolicy::kExact;
const GraphSelector kAll = {.all = true};

bool Always(const WarmProgress&) { return true; }

class GraphAdminTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    Config config = EnsembleConfig();
    config.cache_dir = directory_->File("cache");
    auto backend = WatchedBackend::Create([](const graph::Graph&) {
      gate_.Pass();
      return absl::OkStatus();
    });
    backend_ = backend.get();
    engine_ = std::make_unique<LocalEngine>(config, std::move(backend), SystemClock());
    ASSERT_OK(engine_->Load());
  }
  static void TearDownTestSuite() {
    engine_.reset();
    directory_.reset();
  }
  void TearDown() override {
    EvictWhatIsNotConfigured();
    ASSERT_OK(admin().Warm(kAll, /*dry_run=*/false, Always));
  }

  static GraphAdmin& admin() { return engine_->graphs(); }
  static bool IsConfigured(const GraphEntry& entry) {
    return entry.bucket.width == 0 || entry.bucket == pipeline::Size{64, 64};
  }
  // Entries that the configured bucket needs, without those that a test has warmed.
  static std::vector<GraphEntry> Configured() {
    std::vector<GraphEntry> entries = *admin().List(kAll);
    std::erase_if(entries, [](const GraphEntry& entry) { return !IsConfigured(entry); });
    return entries;
  }
  static void EvictWhatIsNotConfigured() {
    GraphSelector others;
    const std::vector<GraphEntry> entries = *admin().List(kAll);
    for (const GraphEntry& entry : entries) {
      if (!IsConfigured(entry)) others.buckets.push_back(entry.bucket);
    }
    if (!others.buckets.empty()) {
      EXPECT_TRUE(AllOk(admin().Evict(others, CacheTier::kBoth, /*force=*/true)));
    }
  }
  static GraphEntry Only1(const std::string& component) {
    for (const GraphEntry& entry : Configured()) {
      if (entry.component == component) return entry;
    }
    ADD_FAILURE() << "no " << component;
    return {};
  }
  static bool AllOk(const absl::StatusOr<std::vector<EntryResult>>& results) {
    EXPECT_OK(results);
    for (const EntryResult& result : *results) EXPECT_OK(result.status);
    return results.ok() && !results->empty();
  }

  static inline std::unique_ptr<TemporaryDirectory> directory_;
  static inline Gate gate_;
  static inline WatchedBackend* backend_ = nullptr;
  static inline std::unique_ptr<LocalEngine> engine_;
};

TEST_F(GraphAdminTest, ListsWhatIsServedWithItsUsersAndKey) {
  std::multiset<std::string> components;
  for (const GraphEntry& entry : Configured()) {
    components.insert(absl::StrCat(entry.model, " ", entry.component));
    EXPECT_EQ(entry.state, GraphState::kReady) << entry.component;
    EXPECT_EQ(entry.id.size(), 32u);
    EXPECT_EQ(entry.key.size(), 5u);
    EXPECT_EQ(entry.precision, "fp32");
    EXPECT_GT(entry.disk_bytes, 0);
    EXPECT_GT(entry.compile_time, absl::ZeroDuration());
  }
  EXPECT_EQ(components.count("base unet"), 2u);
  EXPECT_EQ(components.count("refiner unet"), 2u);
  EXPECT_THAT(Only1("vae_decoder").users, UnorderedElementsAre("base", "refiner"));
  EXPECT_THAT(Only1("text_encoder").users, ElementsAre("base"));
  EXPECT_EQ(Only1("vae_decoder").bucket, (pipeline::Size{64, 64}));
}

TEST_F(GraphAdminTest, FindsByTheBeginningOfAnId) {
  const GraphEntry decoder = Only1("vae_decoder");
  ASSERT_OK_AND_ASSIGN(const GraphEntry found, admin().Find(decoder.id.substr(0, 12)));
  EXPECT_EQ(found.id, decoder.id);
  EXPECT_THAT(admin().Find("zzzzzzzz"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("zzzzzzzz")));
}

TEST_F(GraphAdminTest, NamesWhatASelectorGetsWrong) {
  EXPECT_THAT(admin().Load({.buckets = {{640, 64}}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("640x64")));
  const absl::Status sizes =
      admin()
          .Warm({.buckets = {{64, 64}, {65, 64}, {64, 4096}}}, /*dry_run=*/true, Always)
          .status();
  EXPECT_THAT(sizes, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiple of 8")));
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(sizes)) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ElementsAre("selector.buckets[1].width", "selector.buckets[2].height"));
}

// The base's and the refiner's VAE are one entry with two users, and one executable.
TEST_F(GraphAdminTest, EvictsASharedGraphForBothUsersAndBothGetItBack) {
  GenerateSpec refined = SmallSpec(4);
  refined.picture.refine = true;
  const std::string before = Only<Image>(RunOn(*engine_, refined)).at(0).bytes;
  const int64_t compiled = CompilationsOf(*engine_);
  ASSERT_TRUE(AllOk(admin().Evict({.components = {"vae_decoder"}}, CacheTier::kMemory, false)));
  EXPECT_EQ(Only1("vae_decoder").state, GraphState::kCompiled);
  EXPECT_EQ(engine_->state(), State::kReady);
  EXPECT_TRUE(engine_->status().buckets.at(0).ready);
  EXPECT_EQ(MetricOf(*engine_, metrics::kBucketWarm, "64x64"), 0);
  EXPECT_EQ(Only<Image>(RunOn(*engine_, refined)).at(0).bytes, before);
  EXPECT_EQ(Only1("vae_decoder").state, GraphState::kReady);
  ASSERT_TRUE(AllOk(admin().Load({.components = {"vae_decoder"}})));
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
  EXPECT_EQ(MetricOf(*engine_, metrics::kBucketWarm, "64x64"), 1);
}

TEST_F(GraphAdminTest, SavingWhatIsNotCompiledNamesIt) {
  ASSERT_TRUE(AllOk(admin().Evict({.components = {"vae_encoder"}}, CacheTier::kBoth, false)));
  const auto refused = admin().Save(kAll);
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("vae_encoder 64x64")));
  EXPECT_EQ(GetReason(refused.status()), "NOT_COMPILED");
  EXPECT_EQ(engine_->state(), State::kDegraded);
  ASSERT_OK(admin().Warm({.components = {"vae_encoder"}}, /*dry_run=*/false, Always));
  EXPECT_EQ(engine_->state(), State::kReady);
  EXPECT_TRUE(AllOk(admin().Save(kAll)));
}

TEST_F(GraphAdminTest, KeepsWhatIsPinnedOrInUseUnlessForced) {
  const GraphSelector decoder = {.ids = {Only1("vae_decoder").id}};
  ASSERT_TRUE(AllOk(admin().SetPinned(decoder, true)));
  ASSERT_OK_AND_ASSIGN(auto results, admin().Evict(decoder, CacheTier::kMemory, false));
  EXPECT_EQ(GetReason(results.at(0).status), "PINNED");
  ASSERT_TRUE(AllOk(admin().SetPinned(decoder, false)));

  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(SmallSpec(150), sink));
  sink->WaitFor<Started>();
  ASSERT_OK_AND_ASSIGN(results, admin().Evict(decoder, CacheTier::kMemory, false));
  EXPECT_EQ(GetReason(results.at(0).status), "IN_USE");
  ASSERT_TRUE(AllOk(admin().Evict(decoder, CacheTier::kMemory, true)));
  engine_->Cancel(handle);
  sink->WaitForEnd();
}

TEST_F(GraphAdminTest, VerifiesWhatIsOnDisk) { EXPECT_TRUE(AllOk(admin().Verify(kAll))); }

TEST_F(GraphAdminTest, TakesBackWhatItExported) {
  std::vector<std::string> artifacts;
  ASSERT_OK(admin().Export(kAll, [&](std::string artifact) {
    artifacts.push_back(std::move(artifact));
    return true;
  }));
  const int64_t compiled = CompilationsOf(*engine_);
  ASSERT_TRUE(AllOk(admin().Evict(kAll, CacheTier::kBoth, false)));
  for (std::string& artifact : artifacts) {
    ASSERT_OK_AND_ASSIGN(const EntryResult taken, admin().Import(artifact));
    ASSERT_OK_AND_ASSIGN(const GraphEntry entry, admin().Find(taken.id));
    EXPECT_EQ(taken.component, entry.component);
    EXPECT_EQ(taken.bucket, entry.bucket);
  }
  ASSERT_TRUE(AllOk(admin().Load(kAll)));
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
  EXPECT_EQ(engine_->state(), State::kReady);
  artifacts[0][artifacts[0].size() / 2] ^= 1;
  EXPECT_THAT(admin().Import(artifacts[0]), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(GraphAdminTest, SaysOfAnImportThatNothingServedNeedsIt) {
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {104, 64}};
  ASSERT_OK_AND_ASSIGN(const auto other, Engine::Create(config, SystemClock()));
  ASSERT_OK(other->Load());
  std::map<std::string, std::string> unused;
  const auto import = [&](std::string artifact) {
    const auto taken = admin().Import(std::move(artifact));
    EXPECT_OK(taken);
    EXPECT_OK(taken->status);
    unused[absl::StrCat(taken->component, " ", SizeText(taken->bucket))] = taken->unused;
    return true;
  };
  ASSERT_OK(other->graphs().Export({.components = {"unet", "vae_decoder"}}, import));
  EXPECT_EQ(unused["vae_decoder 64x64"], "");
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {{104, 64}}}, CacheTier::kDisk, false)));
  EXPECT_THAT(unused["vae_decoder 104x64"],
              HasSubstr("no bucket of this server needs base vae_decoder"));
}

TEST_F(GraphAdminTest, EvictsWithABucketWhatNoOtherBucketNeeds) {
  const pipeline::Size other{104, 64};
  ASSERT_OK(admin().Warm({.buckets = {other}}, /*dry_run=*/false, Always));
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {{64, 64}}}, CacheTier::kMemory, false)));
  EXPECT_EQ(Only1("vae_decoder").state, GraphState::kCompiled);
  EXPECT_EQ(Only1("text_encoder").state, GraphState::kReady);
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {other}}, CacheTier::kMemory, false)));
  EXPECT_EQ(Only1("text_encoder").state, GraphState::kCompiled);
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {other}}, CacheTier::kDisk, false)));
}

TEST_F(GraphAdminTest, PinsAllThatABucketNeedsAndUnpinsWhatNoOtherPinnedOneDoes) {
  const pipeline::Size own{64, 64}, other{104, 64};
  ASSERT_OK(admin().Warm({.buckets = {other}}, /*dry_run=*/false, Always));
  for (pipeline::Size size : {own, other}) {
    ASSERT_TRUE(AllOk(admin().SetPinned({.buckets = {size}}, true)));
  }
  EXPECT_TRUE(Only1("text_encoder").pinned);
  EXPECT_TRUE(Only1("vae_encoder").pinned);
  ASSERT_TRUE(AllOk(admin().SetPinned({.buckets = {own}}, false)));
  EXPECT_TRUE(Only1("text_encoder").pinned);
  EXPECT_FALSE(Only1("vae_encoder").pinned);
  ASSERT_TRUE(AllOk(admin().SetPinned({.buckets = {other}}, false)));
  EXPECT_FALSE(Only1("text_encoder").pinned);
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {other}}, CacheTier::kBoth, false)));
}

TEST_F(GraphAdminTest, WarmsABucketThatIsNotConfigured) {
  const pipeline::Size size{72, 64};
  EXPECT_EQ(SubmitTo(*engine_, SpecOf(size, kExact)).code(), absl::StatusCode::kInvalidArgument);
  std::vector<WarmProgress> steps;
  ASSERT_OK_AND_ASSIGN(
      const WarmOutcome outcome,
      admin().Warm({.buckets = {size}}, /*dry_run=*/false, [&](const WarmProgress& step) {
        steps.push_back(step);
        return true;
      }));
  // Steps of both UNets, the VAE's two halves and what draws from one; what has no size was ready.
  EXPECT_EQ(outcome.compiled, 5);
  EXPECT_EQ(outcome.compiled + outcome.ready_before, static_cast<int>(steps.size()));
  EXPECT_EQ(steps.back().done, steps.back().total);
  EXPECT_EQ(Only<Completed>(RunOn(*engine_, SpecOf(size, kExact))).size(), 1u);
  ASSERT_OK_AND_ASSIGN(const WarmOutcome again,
                       admin().Warm({.buckets = {size}}, /*dry_run=*/false, Always));
  EXPECT_EQ(again.ready_before, static_cast<int>(steps.size()));
}

TEST_F(GraphAdminTest, ABucketThatIsNotConfiguredGoesWithItsGraphs) {
  const pipeline::Size size{80, 64};
  ASSERT_OK(admin().Warm({.buckets = {size}}, /*dry_run=*/false, Always));
  const size_t buckets = engine_->status().buckets.size();
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {size}}, CacheTier::kMemory, false)));
  EXPECT_EQ(engine_->status().buckets.size(), buckets);  // it can be loaded
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {size}}, CacheTier::kDisk, false)));
  EXPECT_EQ(engine_->status().buckets.size(), buckets - 1);
  EXPECT_THAT(admin().List({.buckets = {size}}), StatusIs(absl::StatusCode::kNotFound, _));
  ASSERT_TRUE(AllOk(admin().Evict({.buckets = {{64, 64}}}, CacheTier::kBoth, false)));
  EXPECT_EQ(engine_->status().buckets.size(), buckets - 1);
}

TEST_F(GraphAdminTest, MoreBucketsThanCanBeServedAreRefusedBeforeAnythingIsCompiled) {
  const int64_t compiled = CompilationsOf(*engine_);
  GraphSelector many;
  for (int i = 0; i < 64; ++i) many.buckets.push_back({64 + 8 * i, 72});
  for (const bool dry_run : {true, false}) {
    const absl::Status status = admin().Warm(many, dry_run, Always).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 64")));
    EXPECT_EQ(GetReason(status), "TOO_MANY_BUCKETS");
  }
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
}

TEST_F(GraphAdminTest, ADryRunPredictsAndCompilesNothing) {
  const int64_t compiled = CompilationsOf(*engine_);
  const auto never = [](const WarmProgress&) {
    ADD_FAILURE() << "a dry run makes no progress";
    return true;
  };
  ASSERT_OK_AND_ASSIGN(const WarmOutcome small, admin().Warm(kAll, /*dry_run=*/true, never));
  ASSERT_OK_AND_ASSIGN(const WarmOutcome large,
                       admin().Warm({.buckets = {{128, 128}}}, /*dry_run=*/true, never));
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
  EXPECT_GT(large.predicted.arena, small.predicted.arena);
  EXPECT_GT(large.predicted.state, small.predicted.state);
  EXPECT_GT(small.predicted.weights, 0);
  // Nothing is left of it for an operator to trip over.
  EXPECT_THAT(admin().List({.buckets = {{128, 128}}}), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_TRUE(AllOk(admin().Save(kAll)));
}

TEST_F(GraphAdminTest, CancellingAWarmStopsWhatIsQueued) {
  const auto until_compiled = [](const WarmProgress& step) { return !step.compiled; };
  const auto stopped = admin().Warm({.buckets = {{136, 64}}}, /*dry_run=*/false, until_compiled);
  EXPECT_THAT(stopped, StatusIs(absl::StatusCode::kCancelled, _));
  ASSERT_OK_AND_ASSIGN(const auto entries, admin().List({.buckets = {{136, 64}}}));
  // Graphs compiled before are on disk, and no part of them is kept in memory.
  EXPECT_THAT(entries, ElementsAre(::testing::Field(&GraphEntry::memory_bytes, 0)));
}

TEST_F(GraphAdminTest, ADrainStopsAWarm) {
  Config config = SmallConfig();
  LocalEngine engine(config, WatchedBackend::Create([](const graph::Graph&) {
                       gate_.Pass();
                       return absl::OkStatus();
                     }),
                     SystemClock());
  ASSERT_OK(engine.Load());
  gate_.Close();
  absl::Status warmed;
  std::thread operators([&] {
    warmed = engine.graphs().Warm({.buckets = {{72, 72}}}, /*dry_run=*/false, Always).status();
  });
  gate_.WaitForSomebody();
  engine.Drain(SystemClock().Monotonic());
  gate_.Open();
  operators.join();
  EXPECT_THAT(warmed, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stopping")));
}

TEST_F(GraphAdminTest, SaysWhoSharesWeights) {
  const MemoryReport report = engine_->memory();
  std::map<std::string, ComponentMemory> weights;
  for (const ComponentMemory& component : report.weights)
    weights[component.model + component.component] = component;
  EXPECT_THAT(weights["vae"].users, ElementsAre("base", "refiner"));
  EXPECT_EQ(weights["vae"].shared_bytes, weights["vae"].bytes);
  EXPECT_THAT(weights["baseunet"].users, ElementsAre("base"));
  EXPECT_EQ(weights["baseunet"].shared_bytes, 0);
  EXPECT_GT(weights["refinerunet"].bytes, 0);
  EXPECT_GT(report.resident_bytes, 0);
  EXPECT_GE(report.peak_resident_bytes, report.resident_bytes / 2);
#ifndef LATENTD_SANITIZED  // whose malloc counts nothing
  EXPECT_GT(report.allocator_bytes, 0);
#endif
  EXPECT_GT(report.available_bytes, 0);
}

// With a bucket more than the other tests: what they share is to be counted once.
TEST(MemoryTest, IsHeldAsPredicted) {
  Config config = EnsembleConfig();
  config.buckets = {{64, 64}, {96, 64}};
  auto backend = WatchedBackend::Create([](const graph::Graph&) { return absl::OkStatus(); });
  const WatchedBackend& arena = *backend;
  LocalEngine engine(config, std::move(backend), SystemClock());
  ASSERT_OK(engine.Load());
  ASSERT_OK_AND_ASSIGN(const WarmOutcome outcome,
                       engine.graphs().Warm(kAll, /*dry_run=*/true, Always));
  const MemoryReport report = engine.memory();
  for (const MemoryPrediction& predicted : {outcome.predicted, report.predicted}) {
    const auto near = [](int64_t measured, int64_t wanted) {
      EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(wanted),
                  .05 * static_cast<double>(wanted));
    };
    near(report.weight_bytes, predicted.weights);
    near(report.arena_bytes, predicted.arena);
    near(arena.arena_bytes(), predicted.arena);
    near(report.executable_bytes, predicted.executables);
    EXPECT_GT(predicted.state, 0);
    EXPECT_GT(report.budget_bytes, predicted.total());
  }
  EXPECT_EQ(report.state_bytes, 0);
  engine.RefreshMetrics();
  EXPECT_EQ(MetricOf(engine, metrics::kMemoryBytes, "weights"), report.weight_bytes);
  EXPECT_EQ(MetricOf(engine, metrics::kMemoryPredicted, "arena"), report.predicted.arena);
}

}  // namespace
}  // namespace latentd::engine
