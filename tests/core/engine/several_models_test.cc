// A server with several models: each draws as it would alone, on demand, and leaves as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using pipeline::BucketPolicy;
using pipeline::ModelSource;
using pipeline::Residency;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Finds no memory for what it loads while it is full.
class FullBackend : public WatchedBackend {
 public:
  FullBackend()
      : WatchedBackend(*backends::cpu::CpuBackend::Create(),
                       [](const graph::Graph&) { return absl::OkStatus(); }) {}
  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const backends::Plan& plan,
      const weights::WeightSet& weights) override {
    if (full) return OutOfMemoryError("the device is full");
    return WatchedBackend::Load(std::move(graph), plan, weights);
  }

  std::atomic<bool> full = false;
};

class SeveralModelsTest : public ::testing::Test {
 protected:
  SeveralModelsTest() { testing::MakeFilledCheckpoint(copy_, "unet", {"conv_out.bias"}, 0.5f); }

  Config ConfigWith(Residency residency) const {
    Config config = SmallConfig();
    config.models = {{.name = "copy", .checkpoint = copy_, .residency = residency}};
    return config;
  }

  // A budget for one of two models that share no weights: one's are stored in another dtype.
  Config ConfigForOne() const {
    constexpr int64_t kSlack = int64_t{5} << 20;  // as eviction_test.cc has it
    const std::string other = directory_.File("other");
    testing::MakeCheckpointStoredIn(other, testing::kDemoBase, device::DType::kF32);
    const MemoryReport report = Load(SmallConfig())->memory();
    Config config = ConfigWith(Residency::kOnDemand);
    config.models[0].checkpoint = other;
    config.memory_bytes = report.weight_bytes + report.arena_bytes + report.executable_bytes +
                          report.artifact_bytes + kSlack;
    return config;
  }

  static std::unique_ptr<LocalEngine> Load(const Config& config) {
    auto engine =
        std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine->Load());
    engine->FinishPreparing();
    return engine;
  }

  static std::string Draw(Engine& engine, const std::string& model,
                          GenerateSpec spec = SmallSpec()) {
    spec.picture.model = model;
    const std::vector<Image> images = Only<Image>(RunOn(engine, std::move(spec)));
    EXPECT_THAT(images, SizeIs(1));
    return images.empty() ? "" : images.front().bytes;
  }

  static ModelStatus StatusOf(Engine& engine, const std::string& model) {
    const std::vector<ModelStatus> models = engine.models().List().value();
    for (const ModelStatus& status : models) {
      if (status.name == model) return status;
    }
    ADD_FAILURE() << "no model " << model;
    return {};
  }

  testing::TemporaryDirectory directory_;
  const std::string copy_ = directory_.File("copy");
};

TEST_F(SeveralModelsTest, EachDrawsAsItWouldAlone) {
  Config alone = SmallConfig();
  const std::string base = Draw(*Load(alone), "");
  alone.base = copy_;
  const std::string copy = Draw(*Load(alone), "");
  EXPECT_NE(base, copy);

  const auto both = Load(ConfigWith(Residency::kReady));
  EXPECT_EQ(Draw(*both, ""), base);
  EXPECT_EQ(Draw(*both, "base"), base);
  EXPECT_EQ(Draw(*both, "copy"), copy);
  EXPECT_EQ(Draw(*both, ""), base);
}

TEST_F(SeveralModelsTest, AModelOnDemandIsLoadedForItsFirstRequestAndNothingIsCompiled) {
  const int64_t compilations = CompilationsOf(*Load(SmallConfig()));
  const auto engine = Load(ConfigWith(Residency::kOnDemand));
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(CompilationsOf(*engine), compilations);
  EXPECT_FALSE(StatusOf(*engine, "copy").loaded);
  EXPECT_TRUE(StatusOf(*engine, "base").loaded);
  EXPECT_EQ(StatusOf(*engine, "copy").last_use, absl::InfinitePast());

  EXPECT_NE(Draw(*engine, "copy"), Draw(*engine, "base"));
  engine->FinishPreparing();
  EXPECT_TRUE(StatusOf(*engine, "copy").loaded);
  EXPECT_NE(StatusOf(*engine, "copy").last_use, absl::InfinitePast());
  EXPECT_TRUE(StatusOf(*engine, "base").loaded);
  EXPECT_EQ(CompilationsOf(*engine), compilations);
}

TEST_F(SeveralModelsTest, ADeadlineBeforeAModelCouldBeLoadedIsRefused) {
  const auto engine = Load(ConfigWith(Residency::kOnDemand));
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  Draw(*engine, "copy");  // says how long it takes
  ASSERT_OK(engine->graphs().Evict({.models = {"copy"}}, CacheTier::kMemory, /*force=*/false));
  spec.deadline = SystemClock().Monotonic();
  EXPECT_EQ(GetReason(SubmitTo(*engine, spec)), "PREDICTED_OVERRUN");
  engine->FinishPreparing();
  spec.deadline += absl::Hours(1);
  EXPECT_THAT(Only<Image>(RunOn(*engine, spec)), SizeIs(1));
}

// Nothing of a model is known before its first picture, and of an evicted one all is.
TEST_F(SeveralModelsTest, AnEvictedModelsRequestIsToldWhenItsPictureWillBeDrawn) {
  const auto engine = Load(ConfigWith(Residency::kOnDemand));
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  EXPECT_EQ(Only<Queued>(RunOn(*engine, spec)).at(0).total, absl::ZeroDuration());
  engine->FinishPreparing();
  const absl::Duration ready = Only<Queued>(RunOn(*engine, spec)).at(0).total;
  EXPECT_GT(ready, absl::ZeroDuration());
  ASSERT_OK(engine->graphs().Evict({.models = {"copy"}}, CacheTier::kMemory, /*force=*/false));
  const Queued cold = Only<Queued>(RunOn(*engine, spec)).at(0);
  EXPECT_GT(cold.wait, absl::ZeroDuration());  // until it is loaded
  EXPECT_GT(cold.total, cold.wait);
}

TEST_F(SeveralModelsTest, ABucketOfTheFirstModelIsReadyWhateverOthersLack) {
  const auto engine = Load(ConfigWith(Residency::kOnDemand));
  EXPECT_EQ(MetricOf(*engine, metrics::kBucketWarm, "64x64"), 1);
  const std::vector<ServerStatus::Bucket> buckets = engine->status().buckets;
  ASSERT_THAT(buckets, SizeIs(2));
  EXPECT_EQ(buckets[0].model, "base");
  EXPECT_EQ(buckets[1].model, "copy");
  EXPECT_TRUE(buckets[0].ready && buckets[1].ready);  // nothing would be compiled
}

TEST_F(SeveralModelsTest, AnEvictedModelLeavesAloneAndComesBack) {
  const auto engine = Load(ConfigWith(Residency::kReady));
  const int64_t compilations = CompilationsOf(*engine);
  const std::string before = Draw(*engine, "copy");
  const int64_t held = engine->memory().executable_bytes;
  ASSERT_OK(engine->graphs().Evict({.models = {"copy"}}, CacheTier::kMemory, /*force=*/false));
  EXPECT_FALSE(StatusOf(*engine, "copy").loaded);
  EXPECT_TRUE(StatusOf(*engine, "base").loaded);
  EXPECT_LT(engine->memory().executable_bytes, held);
  EXPECT_EQ(Draw(*engine, "copy"), before);
  EXPECT_EQ(CompilationsOf(*engine), compilations);
}

TEST_F(SeveralModelsTest, WarmingAModelLoadsThatOneOnly) {
  const std::string other = directory_.File("other");
  testing::MakeFilledCheckpoint(other, "unet", {"conv_out.bias"}, 0.25f);
  Config config = ConfigWith(Residency::kOnDemand);
  config.models.push_back(
      {.name = "other", .checkpoint = other, .residency = Residency::kOnDemand});
  const auto engine = Load(config);
  ASSERT_OK(engine->graphs().Warm({.models = {"copy"}}, /*dry_run=*/false,
                                  [](const auto&) { return true; }));
  EXPECT_TRUE(StatusOf(*engine, "copy").loaded);
  EXPECT_FALSE(StatusOf(*engine, "other").loaded);
  ASSERT_OK(engine->graphs().Load({.all = true}));
  EXPECT_FALSE(StatusOf(*engine, "other").loaded);
  config.base.clear();
  const auto without = Load(config);
  ASSERT_OK(without->graphs().Load({.all = true}));
  EXPECT_FALSE(StatusOf(*without, "copy").loaded);
}

TEST_F(SeveralModelsTest, ModelsOfOneCheckpointShareTheirExecutables) {
  Config config = ConfigWith(Residency::kReady);
  const auto one = Load(config);
  config.models.push_back({.name = "again", .checkpoint = copy_});
  const auto two = Load(config);
  EXPECT_EQ(two->memory().executable_bytes, one->memory().executable_bytes);
  EXPECT_EQ(two->memory().weight_bytes, one->memory().weight_bytes);
}

TEST_F(SeveralModelsTest, AModelHasItsOwnBucketsAndSize) {
  Config config = ConfigWith(Residency::kReady);
  config.models[0].buckets = {{72, 64}, {80, 64}};
  const auto engine = Load(config);
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  const absl::Status refused = SubmitTo(*engine, spec);
  EXPECT_EQ(GetReason(refused), "NO_SUCH_BUCKET");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("72x64"));
  spec.picture.width.reset();
  spec.picture.height.reset();
  EXPECT_EQ(Only<Image>(RunOn(*engine, spec)).at(0).size, (pipeline::Size{80, 64}));
  spec.picture.model = "";
  EXPECT_EQ(Only<Image>(RunOn(*engine, spec)).at(0).size, (pipeline::Size{64, 64}));
}

TEST_F(SeveralModelsTest, AModelThatThereIsNotIsRefusedWithThoseThatThereAre) {
  const auto engine = Load(ConfigWith(Residency::kOnDemand));
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "anime";
  const std::vector<FieldViolation> violations = GetFieldViolations(SubmitTo(*engine, spec));
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].field, "model");
  EXPECT_THAT(violations[0].description, HasSubstr("base, copy"));
  spec.picture.model = "copy";
  spec.picture.refine = true;
  EXPECT_EQ(GetFieldViolations(SubmitTo(*engine, spec)).at(0).field, "refine");
  EXPECT_EQ(GetReason(engine->models().Pin("anime", true)), "NO_SUCH_MODEL");
}

TEST_F(SeveralModelsTest, WithoutABaseTheFirstIsTheDefault) {
  Config config = ConfigWith(Residency::kReady);
  const std::string copy = Draw(*Load(config), "copy");
  config.base.clear();
  const auto engine = Load(config);
  EXPECT_EQ(Draw(*engine, ""), copy);
  EXPECT_THAT(engine->capabilities().models, SizeIs(1));
  EXPECT_EQ(engine->capabilities().models[0].component, "copy");
}

// Lanes are of one model: rows of two would be evaluated with the weights of one.
TEST_F(SeveralModelsTest, ModelsDrawSideBySideWhatTheyDrawAlone) {
  Config config = ConfigWith(Residency::kReady);
  config.rows = {1, 2, 4};
  const auto engine = Load(config);
  const std::string base = Draw(*engine, "base", SmallSpec(6)),
                    copy = Draw(*engine, "copy", SmallSpec(6));
  std::vector<std::shared_ptr<testing::RecordingSink>> sinks;
  for (int i = 0; i < 4; ++i) {
    GenerateSpec spec = SmallSpec(6);
    spec.picture.model = i % 2 == 0 ? "base" : "copy";
    sinks.push_back(std::make_shared<testing::RecordingSink>());
    ASSERT_OK(engine->Submit(std::move(spec), sinks.back()));
  }
  for (int i = 0; i < 4; ++i) {
    const std::vector<Image> images = Only<Image>(sinks[i]->WaitForEnd());
    ASSERT_THAT(images, SizeIs(1));
    EXPECT_EQ(images[0].bytes, i % 2 == 0 ? base : copy) << i;
  }
}

TEST_F(SeveralModelsTest, AModelMakesRoomForAnother) {
  const auto engine = Load(ConfigForOne());
  const std::string base = Draw(*engine, "");
  const std::string copy = Draw(*engine, "copy");
  EXPECT_GE(MetricOf(*engine, metrics::kGraphCacheEvictions, "memory_budget"), 1);
  EXPECT_FALSE(StatusOf(*engine, "base").loaded);
  EXPECT_EQ(Draw(*engine, ""), base);
  EXPECT_FALSE(StatusOf(*engine, "copy").loaded);
  EXPECT_EQ(Draw(*engine, "copy"), copy);
}

// The other's pictures hold the memory that it needs, and it is pinned by none.
TEST_F(SeveralModelsTest, AModelWithoutRoomWaitsUntilAnothersPicturesAreDrawn) {
  Config config = ConfigForOne();
  config.queue_capacity = 8;
  const auto engine = Load(config);
  const auto drawing = std::make_shared<testing::RecordingSink>();
  GenerateSpec longer = SmallSpec(150);
  longer.picture.num_images_per_prompt = 4;
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine->Submit(longer, drawing));
  drawing->WaitFor<Started>();
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  const auto waiting = std::make_shared<testing::RecordingSink>();
  ASSERT_OK(engine->Submit(spec, waiting));
  engine->FinishPreparing();  // it was tried, beside the other
  EXPECT_THAT(Only<Failed>(waiting->events()), IsEmpty());
  engine->Cancel(handle);
  EXPECT_THAT(Only<Image>(waiting->WaitForEnd()), SizeIs(1));
  EXPECT_FALSE(StatusOf(*engine, "base").loaded);
}

// Another process takes it, say: no request here would let go of any.
TEST_F(SeveralModelsTest, AModelThatFindsNoMemoryWhereThereIsRoomIsTriedAFewTimesAndRefused) {
  auto backend = std::make_unique<FullBackend>();
  std::atomic<bool>& full = backend->full;
  LocalEngine engine(ConfigWith(Residency::kOnDemand), std::move(backend), SystemClock());
  ASSERT_OK(engine.Load());
  engine.FinishPreparing();
  full = true;
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  const auto waiting = std::make_shared<testing::RecordingSink>();
  ASSERT_OK(engine.Submit(spec, waiting));
  engine.FinishPreparing();
  EXPECT_THAT(Only<Failed>(waiting->events()), IsEmpty());
  for (int i = 0; i < 10; ++i) {
    engine.CheckFiles();  // as every second
    engine.FinishPreparing();
  }
  const std::vector<Failed> failed = Only<Failed>(waiting->WaitForEnd());
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(GetReason(failed[0].status), "OUT_OF_MEMORY");
  full = false;
  EXPECT_THAT(Only<Image>(RunOn(engine, spec)), SizeIs(1));
}

// A pinned model never leaves: to wait for that would be for ever.
TEST_F(SeveralModelsTest, AModelWithoutRoomBesideAPinnedOneIsRefused) {
  const auto engine = Load(ConfigForOne());
  ASSERT_OK(engine->models().Pin("base", true));
  GenerateSpec spec = SmallSpec();
  spec.picture.model = "copy";
  const std::vector<Failed> failed = Only<Failed>(RunOn(*engine, spec));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(GetReason(failed[0].status), "OUT_OF_MEMORY");
}

}  // namespace
}  // namespace latentd::engine
