// Previews by a checkpoint's tiny VAE: a component like others, but one that the server does
// without, and whose failures cost no picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/image/decode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/function_executable.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::FunctionExecutable;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr pipeline::Size kByTinyVae{16, 16}, kInColours{8, 8};  // sizes for pictures of 64x64

// So many steps that most often some preview is there before the picture.
constexpr int kSteps = 12;

GenerateSpec SpecWithPreviews(int pictures = 1) {
  GenerateSpec spec = SmallSpec(kSteps);
  spec.picture.num_images_per_prompt = pictures;
  spec.picture.previews_every = 1;
  return spec;
}

std::vector<pipeline::Size> PreviewSizes(const std::vector<Event>& events) {
  std::vector<pipeline::Size> sizes;
  for (const Preview& preview : Only<Preview>(events)) {
    const auto decoded = image::Decode(preview.bytes);
    EXPECT_OK(decoded);
    EXPECT_EQ((pipeline::Size{decoded->width, decoded->height}), preview.size);
    sizes.push_back(preview.size);
  }
  return sizes;
}

// Events of a request that has a preview: one that is late gives way to the picture, and then the
// request is made again.
std::vector<Event> UntilPreviewed(absl::FunctionRef<std::vector<Event>()> draw) {
  std::vector<Event> events;
  for (int i = 0; i < 20 && Only<Preview>(events).empty(); ++i) events = draw();
  return events;
}

bool IsTinyVae(const graph::Graph& graph) {
  const auto weights = graph.Select(graph::Op::kWeight);
  return !weights.empty() && graph.node(weights[0]).name.rfind("vae_tiny/", 0) == 0;
}

class TinyVaeTest : public ::testing::Test {
 protected:
  TinyVaeTest() {
    config_.base = directory_.File("base");
    config_.rows = {1, 2};
    config_.warn = [this](absl::string_view warning) {
      absl::MutexLock lock(&mutex_);
      warnings_.emplace_back(warning);
    };
  }

  // Weights that much larger than they should be.
  void Load(
      float scale = 1,
      WatchedBackend::Watch watch = [](const graph::Graph&) { return absl::OkStatus(); }) {
    testing::MakeCheckpointWithTinyVae(config_.base, testing::kDemoBase, scale);
    engine_ =
        std::make_unique<LocalEngine>(config_, WatchedBackend::Create(std::move(watch)), clock_);
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady) << engine_->status().reason;
  }

  std::vector<GraphEntry> TinyVaes() {
    const auto graphs = engine_->graphs().List({.all = true});
    EXPECT_OK(graphs);
    std::vector<GraphEntry> found = *graphs;
    std::erase_if(found, [](const GraphEntry& graph) { return graph.component != "vae_tiny"; });
    return found;
  }

  std::vector<Event> RunWithPreviews(const GenerateSpec& spec) {
    return UntilPreviewed([&] { return RunOn(*engine_, spec); });
  }

  std::vector<std::string> Files(const GenerateSpec& spec) {
    std::vector<std::string> files;
    for (const Image& image : Only<Image>(RunOn(*engine_, spec))) files.push_back(image.bytes);
    return files;
  }

  std::vector<std::string> warnings() {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }

  const TemporaryDirectory directory_;
  FakeClock clock_;
  Config config_ = SmallConfig();
  absl::Mutex mutex_;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(TinyVaeTest, IsReadyWithTheServerAndChangesNoPicture) {
  Load();
  ASSERT_EQ(TinyVaes().size(), 1u);
  EXPECT_EQ(TinyVaes()[0].state, GraphState::kReady);
  EXPECT_EQ(CompilationsOf(*engine_), engine_->status().graphs_total);
  const std::vector<Event> events = RunWithPreviews(SpecWithPreviews(/*pictures=*/2));
  EXPECT_THAT(PreviewSizes(events), AllOf(Not(IsEmpty()), Each(kByTinyVae)));
  for (const Preview& preview : Only<Preview>(events)) EXPECT_LT(preview.step, kSteps);
  GenerateSpec plain = SpecWithPreviews(/*pictures=*/2);
  plain.picture.previews_every.reset();
  std::vector<std::string> files;
  for (const Image& image : Only<Image>(events)) files.push_back(image.bytes);
  EXPECT_EQ(files, Files(plain));
  // All previews of both pictures.
  const auto [units, seconds] = HistogramOf(engine_->metrics(), metrics::kStageSeconds);
  EXPECT_GE(units, 2 * (kSteps - 1));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(TinyVaeTest, ShowsWhatItMakesOfLatents) {
  Load(/*scale=*/0);  // -1 of all of them: black
  const auto previews = Only<Preview>(RunWithPreviews(SpecWithPreviews()));
  ASSERT_FALSE(previews.empty());
  for (const Preview& preview : previews) {
    ASSERT_OK_AND_ASSIGN(const image::Image decoded, image::Decode(preview.bytes));
    EXPECT_THAT(decoded.rgb, Each(::testing::Le(2)));
  }
}

TEST_F(TinyVaeTest, ThatIsOffIsNotLoadedAndPreviewsAreInColours) {
  config_.components = {{"vae_tiny", ComponentMode::kOff}};
  Load();
  EXPECT_THAT(TinyVaes(), IsEmpty());
  EXPECT_THAT(PreviewSizes(RunWithPreviews(SpecWithPreviews())),
              AllOf(Not(IsEmpty()), Each(kInColours)));
}

TEST_F(TinyVaeTest, RunsOnTheReferenceBackend) {
  config_.components = {{"vae_tiny", ComponentMode::kReference}};
  Load();
  ASSERT_EQ(TinyVaes().size(), 1u);
  EXPECT_THAT(TinyVaes()[0].key, Contains(AllOf(Field(&KeyField::name, "backend"),
                                                Field(&KeyField::value, "reference"))));
  EXPECT_THAT(PreviewSizes(RunWithPreviews(SpecWithPreviews())),
              AllOf(Not(IsEmpty()), Each(kByTinyVae)));
}

TEST_F(TinyVaeTest, ThatIsNotFiniteCostsNoPictureAndIsToldOnce) {
  Load(/*scale=*/1e20f);
  GenerateSpec plain = SpecWithPreviews();
  plain.picture.previews_every.reset();
  for (int request = 0; request < 2; ++request) {
    const std::vector<Event> events = RunWithPreviews(SpecWithPreviews());
    EXPECT_THAT(PreviewSizes(events), AllOf(Not(IsEmpty()), Each(kInColours)));
    ASSERT_EQ(Only<Image>(events).size(), 1u);
    EXPECT_EQ(Only<Image>(events)[0].bytes, Files(plain).at(0));
  }
  EXPECT_THAT(warnings(), ElementsAre(AllOf(HasSubstr("tiny VAE"), HasSubstr("not finite"))));
  EXPECT_EQ(MetricOf(*engine_, metrics::kInvalidImages), 0);
}

// Nor does a copy of the cache need it.
TEST_F(TinyVaeTest, AServerDoesWithoutOneThatCannotBeCompiled) {
  Load(1, [](const graph::Graph& graph) {
    return IsTinyVae(graph) ? absl::ResourceExhaustedError("no room") : absl::OkStatus();
  });
  EXPECT_EQ(TinyVaes().at(0).state, GraphState::kFailed);
  EXPECT_THAT(warnings(), ElementsAre(AllOf(HasSubstr("in colours"), HasSubstr("no room"))));
  EXPECT_THAT(PreviewSizes(RunWithPreviews(SpecWithPreviews())),
              AllOf(Not(IsEmpty()), Each(kInColours)));
  EXPECT_OK(engine_->graphs().Export({.all = true}, [](std::string) { return true; }));
}

TEST_F(TinyVaeTest, ThatWasEvictedIsLoadedAgainWhenPreviewsWantIt) {
  config_.cache_dir = directory_.File("cache");
  config_.load_waits_for_shared_steps = true;
  Load();
  EXPECT_OK(engine_->graphs().Evict({.components = {"vae_tiny"}}, CacheTier::kMemory, true));
  EXPECT_EQ(TinyVaes().at(0).state, GraphState::kCompiled);
  EXPECT_EQ(engine_->state(), State::kReady);
  Files(SmallSpec());
  EXPECT_EQ(TinyVaes().at(0).state, GraphState::kCompiled);  // no request needs it
  // None may be in time.
  EXPECT_THAT(PreviewSizes(RunOn(*engine_, SpecWithPreviews())), Each(kInColours));
  engine_->FinishPreparing();
  EXPECT_EQ(TinyVaes().at(0).state, GraphState::kReady);
  EXPECT_THAT(PreviewSizes(RunWithPreviews(SpecWithPreviews())),
              AllOf(Not(IsEmpty()), Each(kByTinyVae)));
}

TEST_F(TinyVaeTest, IsCompiledForASizeThatIsNoBucketAndKept) {
  Load();
  GenerateSpec cold = SpecOf({96, 64}, pipeline::BucketPolicy::kColdOk);
  cold.picture.num_inference_steps = kSteps;
  cold.picture.previews_every = 1;
  const pipeline::Size expected{24, 16};
  EXPECT_THAT(PreviewSizes(RunWithPreviews(cold)), AllOf(Not(IsEmpty()), Each(expected)));
  const int64_t compilations = CompilationsOf(*engine_);
  EXPECT_THAT(PreviewSizes(RunWithPreviews(cold)), AllOf(Not(IsEmpty()), Each(expected)));
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
}

// The demo's decoder takes and gives what a tiny one does.
class PreviewUnitTest : public LoopTest {
 protected:
  std::vector<Event> Draw(const pipeline::ExecutablePointer& tiny_vae, PictureLoop& loop) {
    const auto sink = std::make_shared<RecordingSink>();
    const auto job = model_->MakeJob(loop, sink, SpecWithPreviews(), clock_);
    job->pictures[0]->request->preview = tiny_vae;
    EXPECT_OK(loop.Admit(job, 0));
    std::vector<Event> events = sink->WaitForEnd();
    sink->Clear();
    return events;
  }

  // An executable that fails with that status.
  pipeline::ExecutablePointer Failing(const absl::Status& failure) {
    PictureLoop loop({}, device::Host(), metrics_, clock_);
    const auto like = Request(loop, std::make_shared<RecordingSink>());
    const pipeline::ExecutablePointer& decode = like->pictures[0]->request->decode;
    return std::make_shared<FunctionExecutable>(
        backends::ExecutableInfo{.inputs = decode->inputs(), .outputs = decode->outputs()},
        [failure](auto, auto) { return failure; });
  }

  // The file of a request without previews.
  std::string PlainFile() {
    PictureLoop loop({}, device::Host(), metrics_, clock_);
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_OK(loop.Admit(Request(loop, sink, /*pictures=*/1, kSteps), 0));
    const std::string file = Only<Image>(sink->WaitForEnd()).at(0).bytes;
    sink->Clear();
    return file;
  }
};

TEST_F(PreviewUnitTest, ThatFailsLeavesThePictureAndPreviewsInColours) {
  const std::string plain = PlainFile();
  for (const absl::Status& failure :
       {absl::InternalError("no preview today"), absl::ResourceExhaustedError("no memory")}) {
    std::vector<std::string> warnings;
    PictureLoop loop(
        {.units = {.warn = [&](absl::string_view text) { warnings.emplace_back(text); }}},
        device::Host(), metrics_, clock_);
    const std::vector<Event> events = UntilPreviewed([&] { return Draw(Failing(failure), loop); });
    EXPECT_THAT(PreviewSizes(events), AllOf(Not(IsEmpty()), Each(kInColours)));
    ASSERT_EQ(Only<Image>(events).size(), 1u);
    EXPECT_EQ(Only<Image>(events)[0].bytes, plain);
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(std::string(failure.message()))));
  }
}

TEST_F(PreviewUnitTest, TimeCountsAsPreviewsAndNotAsSteps) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  int runs = 0;
  const auto decode =
      Request(loop, std::make_shared<RecordingSink>())->pictures[0]->request->decode;
  const auto tiny_vae = std::make_shared<FunctionExecutable>(
      backends::ExecutableInfo{.inputs = decode->inputs(), .outputs = decode->outputs()},
      [&](auto, absl::Span<const device::Buffer> outputs) {
        ++runs;
        clock_.Advance(absl::Seconds(3));
        for (const device::Buffer& output : outputs) {
          for (uint8_t& byte : output.as<uint8_t>()) byte = 1;
        }
        return absl::OkStatus();
      });
  const auto completed = Only<Completed>(Draw(tiny_vae, loop));
  EXPECT_EQ(runs, kSteps - 1);
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kPreview), runs * absl::Seconds(3));
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kSteps), absl::ZeroDuration());
}

}  // namespace
}  // namespace latentd::engine
