#include "core/image/video/video_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "tests/core/image/refusing_heap.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;

const VideoInfo kSmall{.width = 9, .height = 7, .frames = 3, .parameters = "a star"};

TEST(VideoFormatTest, HasATypeOfFileForEach) {
  std::set<absl::string_view> names, extensions;
  for (const VideoFileType& type : VideoFileTypes()) {
    EXPECT_EQ(&TypeOf(type.format), &type);
    names.insert(type.name);
    extensions.insert(type.extension);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("apng", "avi", "raw", "webm", "webp", "y4m"));
  EXPECT_THAT(extensions, ::testing::ElementsAre("avi", "png", "rgb", "webm", "webp", "y4m"));
  EXPECT_EQ(TypeOf(VideoFormat::kWebp).mime_type, "image/webp");
  EXPECT_EQ(TypeOf(VideoFormat::kApng).mime_type, "image/apng");
  EXPECT_EQ(TypeOf(VideoFormat::kAvi).mime_type, "video/x-msvideo");
  EXPECT_EQ(TypeOf(VideoFormat::kY4m).mime_type, "video/x-yuv4mpeg");
  EXPECT_EQ(TypeOf(VideoFormat::kRaw).mime_type, "application/octet-stream");
  EXPECT_EQ(TypeOf(VideoFormat::kWebm).mime_type, "video/webm");
}

TEST(VideoFormatTest, SaysHowToBuildWhatIsNotBuiltIn) {
  VideoFileType type = TypeOf(VideoFormat::kWebm);
  type.is_built_in = true;
  EXPECT_OK(CheckBuiltIn(type));
  type.is_built_in = false;
  const absl::Status refused = CheckBuiltIn(type);
  EXPECT_THAT(refused, StatusIs(kFailed, HasSubstr("writes no webm")));
  EXPECT_THAT(refused, StatusIs(kFailed, HasSubstr("-DLATENTD_WEBM=ON")));
  EXPECT_EQ(GetReason(refused), "FORMAT_UNAVAILABLE");
}

// The others are in every build.
TEST(VideoFileTest, WritesWebmWhereItIsBuiltIn) {
  for (const VideoFileType& type : VideoFileTypes()) {
    EXPECT_TRUE(type.is_built_in || type.format == VideoFormat::kWebm) << type.name;
  }
  const VideoFileType& webm = TypeOf(VideoFormat::kWebm);
  EXPECT_EQ(MakeVideoWriter(VideoFormat::kWebm, kSmall).status(), CheckBuiltIn(webm));
}

TEST(VideoFileTest, RefusesAVideoThatItCannotHold) {
  const auto make = [](const auto& edit) {
    VideoInfo info = kSmall;
    edit(info);
    return MakeVideoWriter(VideoFormat::kRaw, info).status();
  };
  for (const double fps :
       {0.0, 0.999, -7.0, 1000.5, 1001.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(make([&](VideoInfo& info) { info.fps = fps; }),
                StatusIs(kInvalid, HasSubstr("1 to 1000 is needed")))
        << fps;
  }
  for (const int frames : {0, -1, kMaxVideoFrames + 1}) {
    EXPECT_THAT(make([&](VideoInfo& info) { info.frames = frames; }),
                StatusIs(kInvalid, HasSubstr("1 to 1000000 are needed")));
  }
  for (const int quality : {0, 101}) {
    EXPECT_THAT(make([&](VideoInfo& info) { info.quality = quality; }),
                StatusIs(kInvalid, HasSubstr("1 to 100 is needed")));
  }
  EXPECT_THAT(make([](VideoInfo& info) { info.width = 0; }), StatusIs(kInvalid, HasSubstr("0x7")));
  EXPECT_THAT(make([](VideoInfo& info) { info.height = 8193; }),
              StatusIs(kInvalid, HasSubstr("at most 8192 a side")));
  EXPECT_OK(make([](VideoInfo& info) { info.fps = 1000; }));
  EXPECT_OK(make([](VideoInfo& info) { info.fps = 1; }));
  EXPECT_THAT(MakeVideoWriter(static_cast<VideoFormat>(99), kSmall),
              StatusIs(kInvalid, HasSubstr("no video format 99")));
}

TEST(VideoFileTest, WritesRawFramesBehindEachOther) {
  std::string expected;
  for (const Image& frame : NumberedFrames(kSmall)) {
    expected.append(frame.rgb.begin(), frame.rgb.end());
  }
  EXPECT_EQ(WriteVideo(VideoFormat::kRaw, kSmall), expected);
}

class EachVideoFormat : public ::testing::TestWithParam<VideoFormat> {
 protected:
  static std::unique_ptr<VideoWriter> Make(const VideoInfo& info = kSmall) {
    return MakeVideoWriter(GetParam(), info).value();
  }
};

TEST_P(EachVideoFormat, GivesTheSameBytesHoweverFramesArrive) {
  const std::string one_by_one = WriteVideo(GetParam(), kSmall);
  const std::vector<Image> frames = NumberedFrames(kSmall);
  const auto backwards = [](int count, absl::FunctionRef<void(int)> part) {
    for (int i = count - 1; i >= 0; --i) part(i);
  };
  for (const size_t first : {0, 1, 2, 3}) {
    const std::unique_ptr<VideoWriter> writer = Make();
    ASSERT_OK(writer->Add(absl::MakeConstSpan(frames).first(first), backwards));
    ASSERT_OK(writer->Add(absl::MakeConstSpan(frames).subspan(first), backwards));
    EXPECT_EQ(writer->Finish().value(), one_by_one) << first;
  }
}

TEST_P(EachVideoFormat, LetsGoOfWhatIsFinal) {
  const std::vector<Image> frames = NumberedFrames(kSmall);
  const bool leads_with_its_size = GetParam() == VideoFormat::kWebp ||
                                   GetParam() == VideoFormat::kAvi ||
                                   GetParam() == VideoFormat::kWebm;
  const std::unique_ptr<VideoWriter> writer = Make();
  std::string file;
  for (const Image& frame : frames) {
    ASSERT_OK(writer->Add(frame));
    const size_t held = writer->held_bytes();
    const std::string taken = writer->Take();
    EXPECT_EQ(taken.size(), leads_with_its_size ? 0 : held);
    EXPECT_EQ(writer->held_bytes(), held - taken.size());
    EXPECT_GT(held, 0u);
    file += taken;
  }
  file += writer->Finish().value();
  EXPECT_EQ(file, WriteVideo(GetParam(), kSmall));
  EXPECT_EQ(writer->held_bytes(), 0u);
}

TEST_P(EachVideoFormat, WantsAllFramesAndNoMore) {
  const std::vector<Image> frames = NumberedFrames(kSmall);
  const std::unique_ptr<VideoWriter> writer = Make();
  EXPECT_THAT(writer->Finish(), StatusIs(kFailed, HasSubstr("0 of its 3 frames")));
  ASSERT_OK(writer->Add(absl::MakeConstSpan(frames).first(2)));
  EXPECT_THAT(writer->Finish(), StatusIs(kFailed, HasSubstr("2 of its 3 frames")));
  EXPECT_THAT(writer->Add(absl::MakeConstSpan(frames).first(2)),
              StatusIs(kFailed, HasSubstr("the video has 3 frames; 4 are added")));
  ASSERT_OK(writer->Add(frames[2]));
  EXPECT_THAT(writer->Add(frames[2]), StatusIs(kFailed, HasSubstr("4 are added")));
  EXPECT_EQ(writer->Finish().value(), WriteVideo(GetParam(), kSmall));
  EXPECT_THAT(writer->Finish(), StatusIs(kFailed, HasSubstr("is finished")));
  EXPECT_THAT(writer->Add(frames[2]), StatusIs(kFailed, HasSubstr("is finished")));
}

TEST_P(EachVideoFormat, AsksBeforeEachFrameAndGoesOnFromWhereItWasToldToEnd) {
  const std::vector<Image> frames = NumberedFrames(kSmall);
  const std::unique_ptr<VideoWriter> writer = Make();
  int asked = 0, goes_on = 1;
  const auto before_frame = [&]() -> absl::Status {
    return ++asked <= goes_on ? absl::OkStatus() : absl::CancelledError("enough");
  };
  EXPECT_THAT(writer->Add(frames, RunPartsHere, before_frame),
              StatusIs(absl::StatusCode::kCancelled, "enough"));
  asked = 0, goes_on = 3;
  ASSERT_OK(writer->Add(frames, RunPartsHere, before_frame));
  EXPECT_EQ(asked, 3);
  asked = 0, goes_on = 1;
  const bool encodes_at_the_end = GetParam() == VideoFormat::kWebm;
  if (encodes_at_the_end) {
    EXPECT_THAT(writer->Finish(before_frame), StatusIs(absl::StatusCode::kCancelled, "enough"));
  }
  EXPECT_EQ(asked, encodes_at_the_end ? 2 : 0);
  EXPECT_EQ(writer->Finish().value(), WriteVideo(GetParam(), kSmall));
}

TEST_P(EachVideoFormat, RefusesFramesOfAnotherSizeWithThoseBesideThem) {
  const std::vector<Image> frames = NumberedFrames(kSmall);
  const std::unique_ptr<VideoWriter> writer = Make();
  ASSERT_OK(writer->Add(frames[0]));
  for (const Image& wrong : {Gradient(7, 9), Gradient(9, 8), Gradient(8, 7)}) {
    EXPECT_THAT(writer->Add({frames[1], wrong}),
                StatusIs(kInvalid, HasSubstr("is added to a video of 9x7")));
  }
  EXPECT_THAT(writer->Add({9, 7, {1, 2, 3}}), StatusIs(kInvalid, HasSubstr("9x7 has 3 bytes")));
  EXPECT_THAT(writer->Add(Image()), StatusIs(kInvalid, HasSubstr("0x0")));
  ASSERT_OK(writer->Add(frames[1]));
  ASSERT_OK(writer->Add(frames[2]));
  EXPECT_EQ(writer->Finish().value(), WriteVideo(GetParam(), kSmall));
}

// Ends the program where a part throws.
void RunPartsThatMayNotThrow(int count, absl::FunctionRef<void(int)> part) noexcept {
  RunPartsHere(count, part);
}

// Adds frames three at a time, with no block of `limit` bytes to be had at first; the number of
// calls that failed for that.
int AddWithLittleMemory(absl::Span<const Image> frames, size_t limit, VideoWriter& writer) {
  int failed = 0;
  for (size_t i = 0; i < frames.size(); i += 3) {
    const absl::Span<const Image> three = frames.subspan(i, 3);
    absl::Status status;
    {
      const testing::RefusingHeap heap(limit);
      status = CatchOutOfMemory([&] { return writer.Add(three, RunPartsThatMayNotThrow); });
    }
    if (status.ok()) continue;
    ++failed;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(GetReason(status), "OUT_OF_MEMORY") << status;
    EXPECT_OK(writer.Add(three));
  }
  return failed;
}

TEST_P(EachVideoFormat, GoesOnAfterALackOfMemoryToEncode) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  const VideoInfo info{.width = 40, .height = 30, .frames = 9};
  const std::unique_ptr<VideoWriter> writer = Make(info);
  EXPECT_EQ(AddWithLittleMemory(NumberedFrames(info), size_t{1} << 10, *writer), 3);
  EXPECT_EQ(writer->Finish().value(), WriteVideo(GetParam(), info));
}

std::vector<VideoFormat> FormatsOfThisBuild() {
  std::vector<VideoFormat> formats;
  for (const VideoFileType& type : VideoFileTypes()) {
    if (type.is_built_in) formats.push_back(type.format);
  }
  return formats;
}

INSTANTIATE_TEST_SUITE_P(All, EachVideoFormat, ::testing::ValuesIn(FormatsOfThisBuild()));

// A format whose frames are a letter so many times, of which files hold `most` bytes.
class Letters : public VideoContainer {
 public:
  Letters(uint64_t most, size_t count) : most_(most), count_(count) {}

  uint64_t MostBytes() const override { return most_; }
  bool IsFinalAsAdded() const override { return false; }
  void Begin(std::string& file) const override { file = "<"; }
  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    return std::string(count_, static_cast<char>('a' + frame.rgb[0]));
  }
  void Append(int number, absl::string_view encoded, std::string& file) const override {
    file += static_cast<char>('0' + number);
    file.append(encoded.data(), encoded.size());
  }
  absl::Status End(std::string& file, BeforeFrame /*before_frame*/) const override {
    file += '>';
    file += std::string(200'000, '>');
    return absl::OkStatus();
  }

 private:
  const uint64_t most_;
  const size_t count_;
};

Image Letter(int number) { return {1, 1, std::vector<uint8_t>(3, static_cast<uint8_t>(number))}; }

VideoWriter LetterWriter(uint64_t most, size_t count = 10) {
  return VideoWriter(VideoFormat::kAvi, {.width = 1, .height = 1, .frames = 3},
                     std::make_unique<Letters>(most, count));
}

// The file of letters 0 to 2.
std::string LettersFile(size_t count = 10) {
  return absl::StrCat("<0", std::string(count, 'a'), "1", std::string(count, 'b'), "2",
                      std::string(count, 'c'), std::string(200'001, '>'));
}

TEST(VideoFileTest, RefusesToOutgrowItsFormat) {
  VideoWriter writer = LetterWriter(33);
  ASSERT_OK(writer.Add(Letter(0)));
  EXPECT_THAT(writer.Add({Letter(1), Letter(2)}),
              StatusIs(kInvalid, HasSubstr("1x1 with 3 frames is too large for avi")));
  ASSERT_OK(writer.Add(Letter(1)));
  EXPECT_THAT(writer.Add(Letter(2)), StatusIs(kInvalid, HasSubstr("too large for avi")));
}

TEST(VideoFileTest, TakesAsMuchAsItsFormatHolds) {
  VideoWriter writer = LetterWriter(34);
  ASSERT_OK(writer.Add({Letter(0), Letter(1)}));
  ASSERT_OK(writer.Add(Letter(2)));
  EXPECT_EQ(writer.Finish().value(), LettersFile());
}

TEST(VideoFileTest, GoesOnAfterALackOfMemoryToEnd) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  VideoWriter writer = LetterWriter(1000);
  ASSERT_OK(writer.Add({Letter(0), Letter(1), Letter(2)}));
  absl::Status status;
  {
    const testing::RefusingHeap heap(size_t{1} << 10);
    status = CatchOutOfMemory([&] { return writer.Finish().status(); });
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(writer.Finish().value(), LettersFile());
}

// The third frame finds no room in the file.
TEST(VideoFileTest, GoesOnAfterALackOfMemoryToGrow) {
  if (!testing::RefusingHeap::Works()) GTEST_SKIP() << "the sanitizer has a heap of its own";
  const std::vector<Image> frames = {Letter(0), Letter(1), Letter(2)};
  VideoWriter writer = LetterWriter(10'000, /*count=*/400);
  EXPECT_EQ(AddWithLittleMemory(frames, size_t{1} << 10, writer), 1);
  EXPECT_EQ(writer.Finish().value(), LettersFile(400));
}

}  // namespace
}  // namespace latentd::image
