// Requests whose graphs have to be compiled first: what is held for them while they wait, on which
// thread the work is done, and that what is refused or given up leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/image/encode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/inputs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using pipeline::BucketPolicy;

const auto kAlways = [](const WarmProgress&) { return true; };

// A PNG of more than `bytes`.
std::string LargeImage(size_t bytes) {
  image::Image noise{.width = 256, .height = 256};
  noise.rgb.resize(size_t{3} * 256 * 256);
  uint32_t state = 1;
  for (auto& value : noise.rgb) value = static_cast<uint8_t>((state = state * 1664525 + 1) >> 24);
  std::string png = *image::Encode(noise, {.format = image::Format::kPng});
  EXPECT_GT(png.size(), bytes);
  return png;
}

// The thread that prepares stands at the gate where it is closed.
class ColdRequestsTest : public ::testing::Test {
 protected:
  void Start(Config config) {
    auto backend = WatchedBackend::Create([this](const graph::Graph&) {
      gate_.Pass();
      return absl::OkStatus();
    });
    backend_ = backend.get();
    engine_ = std::make_unique<LocalEngine>(config, std::move(backend), SystemClock());
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady);
  }
  void TearDown() override {
    gate_.Open();
    engine_.reset();
  }

  GraphAdmin& admin() { return engine_->graphs(); }
  // Number of entries in every state, as a scrape sees them.
  double Entries() {
    engine_->RefreshMetrics();
    return MetricOf(*engine_, metrics::kGraphCacheEntries);
  }
  // Bytes of loaded graphs.
  int64_t GraphBytes() {
    const MemoryReport memory = engine_->memory();
    return memory.weight_bytes + memory.arena_bytes + memory.executable_bytes;
  }
  static GenerateSpec SpecWithImage() {
    GenerateSpec spec = SpecOf({96, 64}, BucketPolicy::kColdOk);
    spec.inputs = testing::ImageInput(LargeImage(100000));
    spec.picture.strength = 0.9;
    return spec;
  }
  // Waits for what the preparing thread has been given so far.
  void WaitForPreparing() {
    ASSERT_OK(admin().Warm({.buckets = {{64, 64}}}, /*dry_run=*/true, kAlways));
  }
  std::shared_ptr<RecordingSink> Submit(const GenerateSpec& spec, uint64_t* handle = nullptr) {
    const auto sink = std::make_shared<RecordingSink>();
    const auto submitted = engine_->Submit(spec, sink);
    EXPECT_OK(submitted);
    if (handle != nullptr) *handle = submitted.value_or(0);
    return sink;
  }
  // The status of a cold request, refused at once or later.
  absl::Status Outcome(const GenerateSpec& spec) {
    const auto sink = std::make_shared<RecordingSink>();
    const auto submitted = engine_->Submit(spec, sink);
    if (!submitted.ok()) return submitted.status();
    const auto failures = Only<Failed>(sink->WaitForEnd());
    return failures.empty() ? absl::OkStatus() : failures[0].status;
  }
  // Room for the bucket that it starts with, and for little more.
  static Config TightConfig() {
    Config config = SmallConfig();
    config.memory_bytes = kTight;
    return config;
  }

  static constexpr int64_t kTight = int64_t{60} << 20;  // 512x512 needs more than 100 MB

  Gate gate_;
  WatchedBackend* backend_ = nullptr;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(ColdRequestsTest, WhatDoesNotFitIsRefusedBeforeAnythingIsCompiledAndLeavesNothing) {
  Start(TightConfig());
  WaitForPreparing();  // predicts what is served, which is remembered
  const double entries = Entries();
  const int64_t definitions = engine_->memory().definition_bytes;
  const int64_t compilations = CompilationsOf(*engine_);
  // From the largest down, so that none is refused because a smaller one was.
  for (int side = 704; side >= 512; side -= 64) {
    const absl::Status refused = Outcome(SpecOf({side, side}, BucketPolicy::kColdOk));
    EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY") << side << ": " << refused;
  }
  WaitForPreparing();
  EXPECT_EQ(Entries(), entries);
  EXPECT_EQ(engine_->memory().definition_bytes, definitions);
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
}

TEST_F(ColdRequestsTest, LargerOnesAreRefusedAtOnceOnceOneIsKnownNotToFit) {
  Start(TightConfig());
  EXPECT_EQ(GetReason(Outcome(SpecOf({512, 512}, BucketPolicy::kColdOk))), "OUT_OF_MEMORY");
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  for (int more = 0; more < 20; ++more) {
    const pipeline::Size larger{512 + 8 * more, 520};
    const absl::Status refused = SubmitTo(*engine_, SpecOf(larger, BucketPolicy::kColdOk));
    EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY") << refused;
    EXPECT_THAT(GetFacts(refused), Contains(ErrorFact{"available_bytes", absl::StrCat(kTight)}));
  }
  EXPECT_EQ(declared, 0);
}

TEST_F(ColdRequestsTest, EveryRefusalForMemoryIsCounted) {
  Start(TightConfig());
  for (int side = 640; side >= 512; side -= 64) {  // planned each, then refused
    EXPECT_FALSE(Outcome(SpecOf({side, side}, BucketPolicy::kColdOk)).ok());
  }
  EXPECT_FALSE(Outcome(SpecOf({648, 640}, BucketPolicy::kColdOk)).ok());  // refused at once
  EXPECT_EQ(MetricOf(*engine_, metrics::kOutOfMemory, "admission"), 4);
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsRejected, "oom"), 4);
}

TEST_F(ColdRequestsTest, DryRunsLeaveNothing) {
  Start(SmallConfig());
  WaitForPreparing();
  const double entries = Entries();
  const int64_t definitions = engine_->memory().definition_bytes;
  for (int width = 72; width <= 120; width += 8) {
    ASSERT_OK(admin().Warm({.buckets = {{width, 64}}}, /*dry_run=*/true, kAlways));
  }
  EXPECT_EQ(Entries(), entries);
  EXPECT_EQ(engine_->memory().definition_bytes, definitions);
}

TEST_F(ColdRequestsTest, WarmingThatIsGivenUpLeavesNothing) {
  Start(SmallConfig());
  const double entries = Entries();
  const int64_t definitions = engine_->memory().definition_bytes;
  for (int width = 72; width <= 120; width += 8) {
    const auto until_compiled = [](const WarmProgress& progress) { return !progress.compiled; };
    const auto warmed = admin().Warm({.buckets = {{width, 64}}}, /*dry_run=*/false, until_compiled);
    EXPECT_EQ(warmed.status().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(Entries(), entries);
  EXPECT_EQ(engine_->memory().definition_bytes, definitions);
}

TEST_F(ColdRequestsTest, WhatIsCompiledForARequestIsThereForTheNext) {
  Start(SmallConfig());
  WaitForPreparing();
  const double entries = Entries();
  ASSERT_OK(Outcome(SpecOf({80, 64}, BucketPolicy::kColdOk)));
  WaitForPreparing();
  EXPECT_EQ(Entries(), entries + 2);  // the UNet's step and the decoder
  EXPECT_GT(engine_->memory().definition_bytes, 0);
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  ASSERT_OK(Outcome(SpecOf({80, 64}, BucketPolicy::kColdOk)));
  EXPECT_EQ(declared, 0);
}

TEST_F(ColdRequestsTest, ALongPromptAtABucketIsRefusedUntilOneWasCompiled) {
  Start(SmallConfig());
  WaitForPreparing();
  const double entries = Entries();
  GenerateSpec spec = SpecOf({64, 64}, BucketPolicy::kExact);
  spec.picture.long_prompt = prompts::LongPrompt::kChunk;
  for (int i = 0; i < 30; ++i) spec.picture.prompt += " on a star";
  const absl::Status refused = SubmitTo(*engine_, spec);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("64x64 is not ready for prompts of 2 chunks")));
  EXPECT_EQ(GetReason(refused), "BUCKET_COLD");
  spec.picture.bucket_policy = BucketPolicy::kColdOk;
  ASSERT_OK(Outcome(spec));
  WaitForPreparing();
  EXPECT_EQ(Entries(), entries + 2);  // the UNet's step, and what it reads of prompts
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  spec.picture.bucket_policy = BucketPolicy::kExact;
  ASSERT_OK(Outcome(spec));
  EXPECT_EQ(declared, 0);
}

TEST_F(ColdRequestsTest, WeightsBelowOneOfCompelAreRefusedUntilOneWasCompiled) {
  Start(SmallConfig());
  WaitForPreparing();
  const double entries = Entries();
  GenerateSpec spec = SpecOf({64, 64}, BucketPolicy::kExact);
  spec.picture.prompt_syntax = prompts::Syntax::kCompel;
  spec.picture.prompt = "a red- circle";
  const absl::Status refused = SubmitTo(*engine_, spec);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("64x64 is not ready for weights below 1 in Compel's")));
  EXPECT_EQ(GetReason(refused), "BUCKET_COLD");
  spec.picture.bucket_policy = BucketPolicy::kColdOk;
  ASSERT_OK(Outcome(spec));
  WaitForPreparing();
  EXPECT_EQ(Entries(), entries + 2);  // one for each text encoder
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  spec.picture.bucket_policy = BucketPolicy::kExact;
  ASSERT_OK(Outcome(spec));
  EXPECT_EQ(declared, 0);
}

TEST_F(ColdRequestsTest, LongPromptsAreReadyWhereTheConfigurationSaysSo) {
  Config config = SmallConfig();
  config.prompt_chunks = 2;
  config.forbid_compile_after_ready = true;
  Start(config);
  GenerateSpec spec = SpecOf({64, 64}, BucketPolicy::kExact);
  spec.picture.long_prompt = prompts::LongPrompt::kChunk;
  for (int i = 0; i < 30; ++i) spec.picture.prompt += " on a star";
  const std::vector<Event> events = RunOn(*engine_, spec);
  ASSERT_EQ(Only<Completed>(events).size(), 1u);
  const Completed completed = Only<Completed>(events)[0];
  EXPECT_EQ(completed.prompt_tokens, 97);
  EXPECT_EQ(completed.prompt_chunks, 2);
  EXPECT_EQ(completed.dropped_tokens, 0);
}

TEST_F(ColdRequestsTest, CompilesWhatThePictureNeedsAndNothingElse) {
  Start(SmallConfig());
  const double entries = Entries();
  GenerateSpec latents = SpecOf({80, 64}, BucketPolicy::kColdOk);
  latents.picture.guidance_scale = 5;
  latents.picture.guidance_interval = pipeline::GuidanceInterval{0, 0.5};
  latents.output.format = image::Format::kLatent;
  ASSERT_OK(Outcome(latents));
  EXPECT_EQ(Entries(), entries + 2);  // the UNet's steps of one row and of two, and no decoder
}

// How much each graph takes depends on the processor, so it is asked first: half of what the
// decoder takes is too little for it.
TEST_F(ColdRequestsTest, TheDecoderCountsBeforeAnythingIsCompiledWhereThereIsOne) {
  GenerateSpec latents = SpecOf({512, 512}, BucketPolicy::kColdOk);
  latents.output.format = image::Format::kLatent;
  const GenerateSpec decoded = SpecOf({512, 512}, BucketPolicy::kColdOk);
  Config config = SmallConfig();
  Start(config);
  const int64_t kept = engine_->memory().artifact_bytes + engine_->memory().definition_bytes;
  ASSERT_OK(Outcome(latents));
  const int64_t without_decoder = GraphBytes();
  ASSERT_OK(Outcome(decoded));
  config.memory_bytes = kept + (without_decoder + GraphBytes()) / 2;
  Start(config);
  const int64_t compilations = CompilationsOf(*engine_);
  const absl::Status refused = Outcome(decoded);
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY") << refused;
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
  EXPECT_OK(Outcome(latents));
}

TEST_F(ColdRequestsTest, PlansOnce) {
  std::atomic<int> planned = 0;
  auto backend = WatchedBackend::Create([&planned](const graph::Graph&) {
    ++planned;
    return absl::OkStatus();
  });
  engine_ = std::make_unique<LocalEngine>(SmallConfig(), std::move(backend), SystemClock());
  ASSERT_OK(engine_->Load());
  const int at_start = planned;
  ASSERT_OK(Outcome(SpecOf({80, 64}, BucketPolicy::kColdOk)));
  EXPECT_EQ(planned, at_start + 2);
}

TEST_F(ColdRequestsTest, CancellingFreesTheImageAtOnceHoweverManyCome) {
  Start(SmallConfig());
  gate_.Close();
  // The preparing thread is held at the gate by this one, whose image stays.
  Submit(SpecOf({88, 64}, BucketPolicy::kColdOk));
  gate_.WaitForSomebody();
  const GenerateSpec spec = SpecWithImage();
  for (int round = 0; round < 50; ++round) {
    uint64_t handle = 0;
    const auto sink = Submit(spec, &handle);
    EXPECT_GE(engine_->memory().waiting_image_bytes, static_cast<int64_t>(spec.inputs->bytes()));
    engine_->Cancel(handle);
    EXPECT_EQ(engine_->memory().waiting_image_bytes, 0);
    EXPECT_THAT(Only<Failed>(sink->WaitForEnd()), SizeIs(1));
  }
}

TEST_F(ColdRequestsTest, CancellingLeavesNothingOfARequestThatWaits) {
  Start(SmallConfig());
  gate_.Close();
  Submit(SpecOf({88, 64}, BucketPolicy::kColdOk));
  gate_.WaitForSomebody();
  uint64_t handle = 0;
  auto sink = Submit(SpecOf({96, 64}, BucketPolicy::kColdOk), &handle);
  engine_->Cancel(handle);
  EXPECT_THAT(Only<Failed>(sink->WaitForEnd()), SizeIs(1));
  const std::weak_ptr<RecordingSink> held = std::exchange(sink, nullptr);
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (!held.expired() && absl::Now() < end) std::this_thread::yield();  // the loop ends it
  EXPECT_TRUE(held.expired());
}

TEST_F(ColdRequestsTest, CancellingFreesTheImageOfTheOneThatIsBeingPrepared) {
  Start(SmallConfig());
  gate_.Close();
  const GenerateSpec spec = SpecWithImage();
  uint64_t handle = 0;
  const auto sink = Submit(spec, &handle);
  gate_.WaitForSomebody();
  EXPECT_GT(engine_->memory().waiting_image_bytes, 0);
  engine_->Cancel(handle);
  EXPECT_EQ(engine_->memory().waiting_image_bytes, 0);
  EXPECT_THAT(Only<Failed>(sink->WaitForEnd()), SizeIs(1));
}

TEST_F(ColdRequestsTest, DrawsFromTheImageThatWaited) {
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {96, 64}};
  Start(config);
  const GenerateSpec spec = SpecWithImage();
  const auto ready = Only<Image>(RunOn(*engine_, spec));
  Start(SmallConfig());
  const auto cold = Only<Image>(RunOn(*engine_, spec));
  ASSERT_THAT(cold, SizeIs(1));
  EXPECT_EQ(cold[0].bytes, ready.at(0).bytes);
  EXPECT_EQ(engine_->memory().waiting_image_bytes, 0);
}

TEST_F(ColdRequestsTest, BuildsNoGraphOnTheThreadThatSubmits) {
  Start(SmallConfig());
  absl::Mutex mutex;
  std::set<std::thread::id> builders;
  backend_->on_declare = [&] {
    absl::MutexLock lock(&mutex);
    builders.insert(std::this_thread::get_id());
  };
  ASSERT_OK(Outcome(SpecOf({80, 64}, BucketPolicy::kColdOk)));
  absl::MutexLock lock(&mutex);
  EXPECT_THAT(builders, SizeIs(1));
  EXPECT_FALSE(builders.contains(std::this_thread::get_id()));
}

TEST_F(ColdRequestsTest, RequestsCompileNothingUnlessTheConfigurationLetsThem) {
  Config config = SmallConfig();
  config.allow_cold_requests = Config().allow_cold_requests;
  Start(config);
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  const absl::Status refused = SubmitTo(*engine_, SpecOf({80, 64}, BucketPolicy::kColdOk));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("started without --allow-cold-requests")));
  EXPECT_EQ(GetReason(refused), "COMPILE_FORBIDDEN");
  EXPECT_THAT(GetFacts(refused), Contains(ErrorFact{"requested_size", "80x64"}));
  WaitForPreparing();
  EXPECT_EQ(declared, 0);
  // An operator may, and what is there is drawn.
  backend_->on_declare = nullptr;
  ASSERT_OK(admin().Warm({.buckets = {{80, 64}}}, /*dry_run=*/false, kAlways));
  EXPECT_OK(Outcome(SpecOf({80, 64}, BucketPolicy::kColdOk)));
}

TEST_F(ColdRequestsTest, StrictModeRefusesBeforeAGraphIsBuilt) {
  Config config = SmallConfig();
  config.forbid_compile_after_ready = true;
  Start(config);
  int declared = 0;
  backend_->on_declare = [&declared] { ++declared; };
  const absl::Status refused = SubmitTo(*engine_, SpecOf({80, 64}, BucketPolicy::kColdOk));
  EXPECT_EQ(GetReason(refused), "COMPILE_FORBIDDEN");
  WaitForPreparing();
  EXPECT_EQ(declared, 0);
}

// With a cache directory, whose files other processes share.
class ColdBucketTest : public ColdRequestsTest {
 protected:
  Config CachedConfig() {
    Config config = SmallConfig();
    config.cache_dir = directory_.File("cache");
    return config;
  }
  void Evict(CacheTier tier) {
    ASSERT_OK(admin().Evict({.buckets = {{64, 64}}}, tier, /*force=*/false));
  }
  TemporaryDirectory directory_;
};

// The preparing thread finds that the file is gone.
TEST_F(ColdBucketTest, SubmittingAsksNoDisk) {
  Start(CachedConfig());
  Evict(CacheTier::kMemory);
  std::filesystem::remove_all(directory_.File("cache/artifacts"));
  const auto failures = Only<Failed>(Submit(SmallSpec())->WaitForEnd());
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(GetReason(failures[0].status), "BUCKET_COLD");
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsRejected, "cold_bucket"), 1);
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "BUCKET_COLD");  // known by now
}

TEST_F(ColdBucketTest, ARequestThatMayNotCompileIsRefusedWhereItsFilesAreGone) {
  Config config = CachedConfig();
  config.allow_cold_requests = false;
  Start(config);
  const int64_t compilations = CompilationsOf(*engine_);
  Evict(CacheTier::kMemory);
  std::filesystem::remove_all(directory_.File("cache/artifacts"));
  const absl::Status refused = Outcome(SpecOf({64, 64}, BucketPolicy::kColdOk));
  EXPECT_EQ(GetReason(refused), "COMPILE_FORBIDDEN");
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
}

}  // namespace
}  // namespace latentd::engine
