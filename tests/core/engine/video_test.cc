// Videos that an engine draws, beside pictures: frames as chunks of them are decoded, buckets of
// width, height and frames, cancellation, and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/engine/loop/picture_encoder.h"
#include "core/engine/prepare/admission.h"
#include "core/engine/requests/arrival.h"
#include "core/engine/requests/picture_file.h"
#include "core/image/encode.h"
#include "core/image/video/video_file.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/core/pipeline/rig.h"
#include "tests/golden/video_checkpoint.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr pipeline::Size kBucket{64, 64, 5};

Config VideoConfig() {
  Config config = SmallConfig();
  config.rows = {1, 2};
  config.models = {{.name = "video",
                    .checkpoint = golden::VideoCheckpoint(),
                    .buckets = {kBucket},
                    .draws_videos = true,
                    .decode_chunk = 2}};
  return config;
}

GenerateSpec SmallVideo() {
  image::Image image{40, 30, {}};
  for (int i = 0; i < 40 * 30 * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 5));
  GenerateSpec spec;
  spec.picture.num_inference_steps = 3;
  spec.picture.seed = 7;
  spec.picture.video.emplace();
  spec.inputs = std::make_shared<const pipeline::Inputs>(
      pipeline::Inputs{.image = image::Encode(image, {}, /*parameters=*/"").value()});
  return spec;
}

std::unique_ptr<LocalEngine> LoadVideos(const Config& config) {
  auto engine =
      std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  EXPECT_OK(engine->Load());
  engine->FinishPreparing();
  return engine;
}

// Files of the frames, by video and frame.
std::map<std::pair<int, int>, std::string> FrameFilesOf(const std::vector<Event>& events) {
  std::map<std::pair<int, int>, std::string> files;
  for (const Image& image : Only<Image>(events)) {
    EXPECT_TRUE(files.emplace(std::pair(image.index, image.frame), image.bytes).second);
  }
  return files;
}

int DecodesOf(const std::vector<Event>& events) {
  int decodes = 0;
  for (const Progress& progress : Only<Progress>(events)) {
    decodes += progress.stage == Stage::kDecode ? 1 : 0;
  }
  return decodes;
}

class VideoEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = LoadVideos(VideoConfig()).release(); }
  static void TearDownTestSuite() { delete std::exchange(engine_, nullptr); }

  static LocalEngine* engine_;
};
LocalEngine* VideoEngineTest::engine_ = nullptr;

TEST_F(VideoEngineTest, DrawsEachFrameOnce) {
  ASSERT_EQ(engine_->state(), State::kReady) << engine_->status().reason;
  const int64_t compiled = CompilationsOf(*engine_);
  const std::vector<Event> events = RunOn(*engine_, SmallVideo());
  EXPECT_THAT(FrameFilesOf(events), SizeIs(5));
  EXPECT_EQ(DecodesOf(events), 3);  // chunks of 2, 2 and 1
  EXPECT_THAT(Only<Started>(events), ElementsAre(Field(&Started::executed_size, kBucket)));
  const auto completed = Only<Completed>(events);
  ASSERT_THAT(completed, SizeIs(1));
  EXPECT_EQ(completed[0].effective.video->decode_chunk_size, 2);
  EXPECT_EQ(completed[0].effective.video->num_frames, 5);
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
}

// Memory that stays between requests.
std::vector<int64_t> KeptMemoryOf(const Engine& engine) {
  const MemoryReport memory = engine.memory();
  return {memory.weight_bytes, memory.arena_bytes, memory.executable_bytes, memory.artifact_bytes,
          memory.definition_bytes};
}

// An image is data: neither its size nor how many came before it makes graphs or keeps memory.
TEST_F(VideoEngineTest, AnotherImageCompilesAndHoldsNothing) {
  GenerateSpec spec = SmallVideo();
  const auto first = FrameFilesOf(RunOn(*engine_, spec));
  const int64_t compiled = CompilationsOf(*engine_);
  const std::vector<int64_t> kept = KeptMemoryOf(*engine_);
  EXPECT_GT(kept.front(), 0);
  for (const auto& [width, height] : {std::pair(41, 77), std::pair(300, 20), std::pair(64, 64)}) {
    const image::Image image{width, height, std::vector<uint8_t>(size_t{3} * width * height, 90)};
    spec.inputs = std::make_shared<const pipeline::Inputs>(
        pipeline::Inputs{.image = image::Encode(image, {}, /*parameters=*/"").value()});
    const auto frames = FrameFilesOf(RunOn(*engine_, spec));
    EXPECT_THAT(frames, SizeIs(5));
    EXPECT_NE(frames, first);
  }
  EXPECT_EQ(CompilationsOf(*engine_), compiled);
  EXPECT_EQ(KeptMemoryOf(*engine_), kept);
}

TEST_F(VideoEngineTest, PreviewsChangeNoFrame) {
  GenerateSpec spec = SmallVideo();
  spec.picture.num_inference_steps = 40;
  const std::vector<Event> without = RunOn(*engine_, spec);
  EXPECT_THAT(Only<Preview>(without), SizeIs(0));
  spec.picture.previews_every = 2;
  const std::vector<Event> events = RunOn(*engine_, spec);
  EXPECT_EQ(FrameFilesOf(events), FrameFilesOf(without));
  const auto previews = Only<Preview>(events);
  ASSERT_THAT(previews, SizeIs(::testing::Ge(1)));  // one that is late gives way
  int last = 0;
  for (const Preview& preview : previews) {
    EXPECT_EQ(preview.step % 2, 0);
    EXPECT_GT(preview.step, std::exchange(last, preview.step));
    EXPECT_EQ(preview.total_steps, 40);
    EXPECT_EQ(preview.size, (pipeline::Size{8, 8, 5}));
    EXPECT_EQ(preview.video_format, image::VideoFormat::kWebp);
    EXPECT_EQ(preview.bytes.substr(8, 4), "WEBP");
  }
  EXPECT_THAT(Only<Completed>(events).at(0).warnings, SizeIs(0));
  EXPECT_EQ(Only<Completed>(events).at(0).effective.previews_every, 2);
}

TEST_F(VideoEngineTest, SaysWhyThereAreNoPreviews) {
  GenerateSpec spec = SmallVideo();
  spec.picture.previews_every = 0;
  const absl::Status refused = SubmitTo(*engine_, spec);
  EXPECT_THAT(GetFieldViolations(refused),
              ElementsAre(Field(&FieldViolation::field, "previews.every_n_steps")));
  spec.picture.previews_every = 1;
  spec.picture.takes_previews = false;
  const std::vector<Event> events = RunOn(*engine_, spec);
  EXPECT_THAT(Only<Preview>(events), SizeIs(0));
  EXPECT_THAT(Only<Completed>(events).at(0).warnings,
              ElementsAre(HasSubstr("previews.every_n_steps has no effect: they come while")));
}

TEST_F(VideoEngineTest, DrawsTheSameBesideOthers) {
  const auto alone = FrameFilesOf(RunOn(*engine_, SmallVideo()));
  const std::string picture = Only<Image>(RunOn(*engine_, SmallSpec())).at(0).bytes;
  GenerateSpec two = SmallVideo();
  two.picture.num_images_per_prompt = 2;
  const auto videos = std::make_shared<testing::RecordingSink>();
  const auto pictures = std::make_shared<testing::RecordingSink>();
  ASSERT_OK(engine_->Submit(std::move(two), videos));
  ASSERT_OK(engine_->Submit(SmallSpec(), pictures));
  const auto both = FrameFilesOf(videos->WaitForEnd());
  ASSERT_THAT(both, SizeIs(10));
  for (const auto& [place, file] : alone) EXPECT_EQ(both.at(place), file) << place.second;
  const auto drawn = Only<Image>(pictures->WaitForEnd());
  ASSERT_THAT(drawn, SizeIs(1));
  EXPECT_EQ(drawn[0].bytes, picture);
}

// Its units are not all of one turn: the picture's steps come between them.
TEST_F(VideoEngineTest, TakesTurnsWithPictures) {
  GenerateSpec video = SmallVideo();
  video.picture.num_inference_steps = 20;
  std::atomic<bool> pictures_end = false;
  int decodes_before = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    const bool decodes = progress != nullptr && progress->stage == Stage::kDecode;
    if (decodes && !pictures_end) ++decodes_before;
  });
  const auto picture = std::make_shared<WatchedSink>([&](const Event& event) {
    if (std::holds_alternative<Image>(event)) pictures_end = true;
  });
  ASSERT_OK(engine_->Submit(std::move(video), sink));
  ASSERT_OK(engine_->Submit(SmallSpec(), picture));
  EXPECT_THAT(Only<Image>(picture->WaitForEnd()), SizeIs(1));
  EXPECT_THAT(FrameFilesOf(sink->WaitForEnd()), SizeIs(5));
  EXPECT_EQ(decodes_before, 0);
}

TEST_F(VideoEngineTest, EndsBetweenChunksWhenItIsCancelled) {
  std::atomic<uint64_t> handle = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->stage == Stage::kDecode) engine_->Cancel(handle);
  });
  GenerateSpec spec = SmallVideo();
  spec.picture.num_inference_steps = 40;  // the handle is known by the end of them
  const auto submitted = engine_->Submit(std::move(spec), sink);
  ASSERT_OK(submitted);
  handle = *submitted;
  const std::vector<Event> events = sink->WaitForEnd();
  const auto failed = Only<Failed>(events);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(failed[0].status)) << failed[0].status;
  EXPECT_EQ(DecodesOf(events), 1);
  EXPECT_THAT(RunOn(*engine_, SmallVideo()), SizeIs(::testing::Gt(5)));  // the lane is free again
}

TEST_F(VideoEngineTest, EndsByItsDeadline) {
  GenerateSpec spec = SmallVideo();
  spec.deadline = SystemClock().Monotonic() - absl::Seconds(1);
  const absl::Status end = EndOf(*engine_, std::move(spec));
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
}

TEST_F(VideoEngineTest, HasBucketsOfFrames) {
  GenerateSpec spec = SmallVideo();
  spec.picture.video->num_frames = 4;
  const absl::Status refused = SubmitTo(*engine_, std::move(spec));
  EXPECT_EQ(GetReason(refused), "NO_SUCH_BUCKET");
  EXPECT_THAT(GetFieldViolations(refused),
              ElementsAre(Field(&FieldViolation::field, "num_frames")));
  EXPECT_THAT(
      GetFieldViolations(refused),
      ElementsAre(Field(&FieldViolation::description, HasSubstr("64x64x4 is not one of 64x64x5"))));
  bool served = false;
  for (const ServerStatus::Bucket& bucket : engine_->status().buckets) {
    served = served || (bucket.model == "video" && bucket.size == kBucket && bucket.ready);
  }
  EXPECT_TRUE(served);
}

TEST_F(VideoEngineTest, CompilesForAnotherChunkWhereItMay) {
  GenerateSpec spec = SmallVideo();
  spec.picture.video->decode_chunk_size = 3;
  const absl::Status cold = SubmitTo(*engine_, spec);
  EXPECT_EQ(GetReason(cold), "BUCKET_COLD") << cold;
  EXPECT_THAT(cold, StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("for chunks of 3 frames (it is for those of 2)")));
  spec.picture.bucket_policy = pipeline::BucketPolicy::kColdOk;
  const std::vector<Event> events = RunOn(*engine_, spec);
  EXPECT_THAT(FrameFilesOf(events), SizeIs(5));
  EXPECT_EQ(DecodesOf(events), 2);
  EXPECT_NE(FrameFilesOf(events), FrameFilesOf(RunOn(*engine_, SmallVideo())));
}

GenerateSpec VideoIn(image::VideoFormat format) {
  GenerateSpec spec = SmallVideo();
  spec.video_file = {.format = format};
  return spec;
}

// Files of videos, put together of their parts.
std::map<int, std::string> VideoFilesOf(const std::vector<Event>& events) {
  std::map<int, std::string> files;
  for (const Image& image : Only<Image>(events)) {
    std::string& file = files[image.index];
    EXPECT_EQ(image.part.value().offset, static_cast<int64_t>(file.size()));
    EXPECT_EQ(image.part->video_frames, 5);
    file += image.bytes;
  }
  return files;
}

// As they are decoded: in chunks of 2, 2 and 1.
TEST_F(VideoEngineTest, AFileHasTheFrames) {
  GenerateSpec frames = SmallVideo();
  frames.output.format = image::Format::kRawRgb8;
  std::string expected;
  for (const auto& [place, file] : FrameFilesOf(RunOn(*engine_, frames))) expected += file;
  const std::vector<Event> events = RunOn(*engine_, VideoIn(image::VideoFormat::kRaw));
  EXPECT_EQ(VideoFilesOf(events).at(0), expected);
  std::vector<std::pair<int, bool>> parts;
  for (const Image& image : Only<Image>(events)) {
    parts.emplace_back(image.part->frames, image.part->is_last);
  }
  EXPECT_THAT(parts, ElementsAre(std::pair(2, false), std::pair(2, false), std::pair(1, true)));
  EXPECT_EQ(Only<Completed>(events).at(0).video_file.value().format, image::VideoFormat::kRaw);
}

TEST_F(VideoEngineTest, AFileThatBeginsWithItsSizeComesWhole) {
  const std::vector<Event> events = RunOn(*engine_, VideoIn(image::VideoFormat::kWebp));
  const std::vector<Image> parts = Only<Image>(events);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(parts[0].part->frames, 5);
  EXPECT_TRUE(parts[0].part->is_last);
  EXPECT_EQ(parts[0].bytes.substr(8, 4), "WEBP");
  EXPECT_EQ(engine_->memory().result_bytes, static_cast<int64_t>(parts[0].bytes.size()));
}

TEST_F(VideoEngineTest, SeveralVideosHaveAFileEach) {
  GenerateSpec two = VideoIn(image::VideoFormat::kApng);
  two.picture.num_images_per_prompt = 2;
  GenerateSpec second = VideoIn(image::VideoFormat::kApng);
  second.picture.seed = 8;
  const auto files = VideoFilesOf(RunOn(*engine_, two));
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files.at(0), VideoFilesOf(RunOn(*engine_, VideoIn(image::VideoFormat::kApng))).at(0));
  EXPECT_EQ(files.at(1), VideoFilesOf(RunOn(*engine_, second)).at(0));
}

TEST_F(VideoEngineTest, AFileSaysWhatMadeItAndItsSpeed) {
  GenerateSpec spec = VideoIn(image::VideoFormat::kAvi);
  EXPECT_THAT(
      VideoFilesOf(RunOn(*engine_, spec)).at(0),
      HasSubstr(
          "Steps: 3, Sampler: Euler, CFG scale: 3, Seed: 7, Size: 64x64, "
          "Min CFG scale: 1, Frames: 5, FPS: 7, Motion bucket: 127, Noise augmentation: 0.02, "
          "Decode chunk: 2, Version: latentd"));
  spec.video_file->embed_parameters = false;
  const std::string without = VideoFilesOf(RunOn(*engine_, spec)).at(0);
  EXPECT_THAT(without, ::testing::Not(HasSubstr("Seed")));
  spec.video_file->quality = 5;
  EXPECT_LT(VideoFilesOf(RunOn(*engine_, spec)).at(0).size(), without.size());
  spec = VideoIn(image::VideoFormat::kY4m);
  EXPECT_THAT(VideoFilesOf(RunOn(*engine_, spec)).at(0), HasSubstr(" F7:1 "));
  spec.video_file->playback_fps = 12.5;
  EXPECT_THAT(VideoFilesOf(RunOn(*engine_, spec)).at(0), HasSubstr(" F25:2 "));
}

TEST_F(VideoEngineTest, CountsWhatIsAskedForAgain) {
  GenerateSpec one = SmallVideo(), other = SmallVideo();
  EXPECT_EQ(ContentOf(one), ContentOf(other));
  other.picture.video->motion_bucket_id = 5;
  EXPECT_NE(ContentOf(one), ContentOf(other));
}

// A budget between what decoding eight frames at once needs, and four; and the plans for it.
class VideoRoomTest : public ::testing::Test {
 protected:
  VideoRoomTest()
      : rig_({.models = {{.name = "video",
                          .checkpoint = golden::VideoCheckpoint(),
                          .buckets = {{128, 128, 8}},
                          .draws_videos = true,
                          .decode_chunk = 1}}},
             /*cache_dir=*/"", *backends::cpu::CpuBackend::Create()) {
    config_.allow_cold_requests = true;
    models_.pipeline = std::move(rig_.pipeline);
    models_.buckets = std::make_unique<BucketGraphs>(*models_.pipeline, rig_.graphs);
    const int64_t all = TotalOf(*PlanWith(8)), half = TotalOf(*PlanWith(4));
    EXPECT_GT(all, half);
    budget_.Open({.bytes = (all + half) / 2,
                  .configured = {},
                  .state_bytes = [](pipeline::Size, int) { return 0; }});
  }

  pipeline::SharedPlan PlanWith(int chunk) const {
    GenerateSpec spec = SmallVideo();
    spec.picture.bucket_policy = pipeline::BucketPolicy::kColdOk;
    spec.picture.video->decode_chunk_size = chunk;
    return models_.pipeline->Resolve(spec.picture, *spec.inputs).value();
  }
  GraphHandles HandlesOf(const pipeline::Plan& plan) const {
    return models_.pipeline->HandlesOf(plan, pipeline::ModelGraphs::IfUnknown::kBuild).value();
  }
  int64_t TotalOf(const pipeline::Plan& plan) {
    MemoryTally tally;
    tally.AddState(models_.pipeline->StateBytes(plan.executed_size, plan.rows));
    for (const compiler::GraphHandle& graph : HandlesOf(plan)) {
      tally.Add(compiler::GraphStore::IdOf(graph), rig_.graphs.Predict(graph).value());
    }
    return tally.prediction().total();
  }
  absl::Status CheckFits(const pipeline::Plan& plan) {
    return admission_.CheckFits(plan, HandlesOf(plan), /*evict_unused_since=*/0,
                                [] { return true; });
  }

  Config config_;
  pipeline::Rig rig_;
  Models models_;
  MemoryBudget budget_;
  Admission admission_{config_, models_, rig_.graphs, budget_};
};

TEST_F(VideoRoomTest, NamesTheChunkThatFits) {
  const pipeline::SharedPlan all = PlanWith(8);
  const absl::Status refused = CheckFits(*all);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("with decode_chunk_size 4 it would fit")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_THAT(GetFacts(refused), ::testing::Contains(ErrorFact{"decode_chunk_size", "4"}));
  EXPECT_OK(CheckFits(*PlanWith(4)));
  // It is known from now on, before anything is built.
  EXPECT_THAT(admission_.CheckCold(*all),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("decode_chunk_size 4")));
  EXPECT_OK(admission_.CheckCold(*PlanWith(4)));
  // Once more, from a request that waited beside it: the chunk is said once.
  const absl::Status again = CheckFits(*all);
  EXPECT_EQ(again.message(), admission_.CheckCold(*all).message());
}

TEST_F(VideoRoomTest, NamesTheChunkThatFitsForThoseThatWereTriedToo) {
  budget_.Open({.bytes = (TotalOf(*PlanWith(4)) + TotalOf(*PlanWith(2))) / 2,
                .configured = {},
                .state_bytes = [](pipeline::Size, int) { return 0; }});
  EXPECT_THAT(CheckFits(*PlanWith(8)), StatusIs(absl::StatusCode::kResourceExhausted,
                                                HasSubstr("with decode_chunk_size 2")));
  EXPECT_THAT(GetFacts(admission_.CheckCold(*PlanWith(4))),
              ::testing::Contains(ErrorFact{"decode_chunk_size", "2"}));
}

// Threads that encode, and a job whose video becomes a file of eight frames.
class VideoEncoderTest : public VideoRoomTest {
 protected:
  std::shared_ptr<Job> JobFor(image::VideoFormat format) {
    GenerateSpec spec = SmallVideo();
    spec.video_file = {.format = format, .embed_parameters = false};
    return std::make_shared<Job>(1, PlanWith(8), std::move(spec), sink_, absl::InfinitePast());
  }
  static std::vector<image::Image> Frame(int number) {
    image::Image frame{128, 128, std::vector<uint8_t>(size_t{128} * 128 * 3)};
    for (size_t i = 0; i < frame.rgb.size(); ++i) {
      frame.rgb[i] = static_cast<uint8_t>(i * (number + 3) / 7);
    }
    return {frame};
  }
  // As one thread writes it.
  static std::string FileOf(image::VideoFormat format) {
    auto writer =
        image::MakeVideoWriter(format, {.width = 128, .height = 128, .frames = 8}).value();
    for (int i = 0; i < 8; ++i) EXPECT_OK(writer->Add(Frame(i)));
    return writer->Finish().value();
  }

  const std::shared_ptr<testing::RecordingSink> sink_ = std::make_shared<testing::RecordingSink>();
  const std::shared_ptr<PictureBytes> bytes_ = std::make_shared<PictureBytes>(1 << 30, [] {});
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  ThreadWatches watches_{SystemClock()};
  absl::Notification complete_;
  PictureEncoder encoder_{
      /*threads=*/3,
      EncodeImage,
      {.is_wanted = [](const Job&) { return true; },
       .fail = [](Job&, const absl::Status& status) { ADD_FAILURE() << status; },
       .complete = [this](Job&) { complete_.Notify(); }},
      bytes_,
      watches_,
      metrics_,
      SystemClock()};
};

TEST_F(VideoEncoderTest, FramesOfAFileStayInOrder) {
  const std::shared_ptr<Job> job = JobFor(image::VideoFormat::kY4m);
  for (int i = 0; i < 8; ++i) encoder_.AddFrames(job, 0, 7, Frame(i), i);
  complete_.WaitForNotification();
  std::string file;
  for (const Image& part : Only<Image>(sink_->events())) file += part.bytes;
  EXPECT_EQ(file, FileOf(image::VideoFormat::kY4m));
  EXPECT_EQ(MetricOf(registry_, metrics::kImages), 8);
  EXPECT_EQ(MetricOf(registry_, metrics::kPixels), 8 * 128 * 128);
}

// All frames of a file as one chunk; `is_wanted` is asked before each, by one thread. Returns when
// nothing is left of it.
class VideoFramesTest : public VideoEncoderTest {
 protected:
  void Encode(image::VideoFormat format, const std::function<bool()>& is_wanted) {
    const std::shared_ptr<Job> job = JobFor(format);
    std::vector<image::Image> frames;
    for (int i = 0; i < 8; ++i) frames.push_back(Frame(i).front());
    PictureEncoder encoder(/*threads=*/1, EncodeImage,
                           {.is_wanted = [&](const Job&) { return is_wanted(); },
                            .fail = [](Job&, const absl::Status& status) { FAIL() << status; },
                            .complete = [this](Job&) { completed_ = true; }},
                           bytes_, frame_watches_, metrics_, clock_);
    encoder.AddFrames(job, 0, 7, std::move(frames), 0);
  }
  static std::vector<image::VideoFormat> Formats() {
    std::vector<image::VideoFormat> formats = {
        image::VideoFormat::kApng};                             // encodes as frames come
    const image::VideoFormat webm = image::VideoFormat::kWebm;  // encodes at the end
    if (image::TypeOf(webm).is_built_in) formats.push_back(webm);
    return formats;
  }
  // Times that a job is asked for: once, before each frame as it is added, and as it is encoded.
  static int MostAsked(image::VideoFormat format) {
    return format == image::VideoFormat::kWebm ? 1 + 8 + 8 : 1 + 8;
  }

  ::latentd::testing::FakeClock clock_;
  ThreadWatches frame_watches_{clock_};
  bool completed_ = false;
};

TEST_F(VideoFramesTest, EachHasAMinute) {
  for (const image::VideoFormat format : Formats()) {
    int asked = 0;
    Encode(format, [&] {
      EXPECT_THAT(frame_watches_.Overdue(), ::testing::IsEmpty()) << asked;
      clock_.Advance(ThreadWatch::kLimit - absl::Seconds(1));
      ++asked;
      return true;
    });
    EXPECT_EQ(asked, MostAsked(format));
    EXPECT_TRUE(std::exchange(completed_, false));
  }
}

TEST_F(VideoFramesTest, NoneFollowsTheEndOfTheirJob) {
  for (const image::VideoFormat format : Formats()) {
    int asked = 0;
    const int last = MostAsked(format) - 3;
    Encode(format, [&] { return ++asked < last; });
    // Once more behind the error; frames that are added together are asked for all the same.
    EXPECT_EQ(asked, 1 + (format == image::VideoFormat::kWebm ? last : MostAsked(format)));
    EXPECT_FALSE(completed_);
  }
  EXPECT_THAT(Only<Image>(sink_->events()), SizeIs(0));
  EXPECT_EQ(bytes_->results(), 0);
}

TEST_F(VideoEncoderTest, AnOverlayCountsOnceForTheImagesThatShareIt) {
  const std::shared_ptr<Job> job = JobFor(image::VideoFormat::kY4m);
  const image::Image image = Frame(0).front();
  const auto overlay = std::make_shared<const image::Overlay>(
      image, std::vector<uint8_t>(size_t{128} * 128, 255), image::Box{0, 0, 128, 128});
  absl::Notification counted;
  const auto encode = [&](const Job&, int index, uint64_t seed, const image::Image&,
                          const image::RunParts&) -> absl::StatusOr<Image> {
    counted.WaitForNotification();
    return Image{.index = index, .seed = seed};
  };
  {
    PictureEncoder encoder(/*threads=*/1, encode,
                           {.is_wanted = [](const Job&) { return true; },
                            .fail = [](Job&, const absl::Status& status) { FAIL() << status; },
                            .complete = [](Job&) {}},
                           bytes_, watches_, metrics_, SystemClock());
    for (int i = 0; i < 3; ++i) {
      DrawnPicture drawn(image);
      drawn.overlay = overlay;
      encoder.Add(job, i, 7, std::move(drawn));
    }
    EXPECT_EQ(bytes_->results(), static_cast<int64_t>(3 * image.rgb.size() + overlay->bytes()));
    counted.Notify();
  }
  EXPECT_EQ(bytes_->results(), 0);
}

TEST_F(VideoEncoderTest, AFileCountsWhileItGrows) {
  const std::shared_ptr<Job> job = JobFor(image::VideoFormat::kWebp);
  int64_t held = 0;
  for (int i = 0; i < 7; ++i) {
    encoder_.AddFrames(job, 0, 7, Frame(i), i);
    while (bytes_->unencoded() > 0) std::this_thread::yield();
    EXPECT_GT(bytes_->results(), held);
    held = bytes_->results();
  }
  EXPECT_THAT(Only<Image>(sink_->events()), SizeIs(0));
  encoder_.Drop(*job);
  while (bytes_->results() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace latentd::engine
