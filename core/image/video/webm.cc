#include "core/image/video/webm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/file_text.h"
#include "core/image/video/ebml.h"
#include "core/image/video/frame_rate.h"
#include "core/image/video/yuv.h"

namespace latentd::image {
namespace {

// Elements' names, as RFC 9559 has them.
enum Id : uint32_t {
  kEbml = 0x1A45DFA3,
  kEbmlVersion = 0x4286,
  kEbmlReadVersion = 0x42F7,
  kEbmlMaxIdLength = 0x42F2,
  kEbmlMaxSizeLength = 0x42F3,
  kDocType = 0x4282,
  kDocTypeVersion = 0x4287,
  kDocTypeReadVersion = 0x4285,
  kSegment = 0x18538067,
  kSeekHead = 0x114D9B74,
  kSeek = 0x4DBB,
  kSeekId = 0x53AB,
  kSeekPosition = 0x53AC,
  kInfo = 0x1549A966,
  kTimestampScale = 0x2AD7B1,
  kDuration = 0x4489,
  kMuxingApp = 0x4D80,
  kWritingApp = 0x5741,
  kTracks = 0x1654AE6B,
  kTrackEntry = 0xAE,
  kTrackNumber = 0xD7,
  kTrackUid = 0x73C5,
  kTrackType = 0x83,
  kFlagLacing = 0x9C,
  kDefaultDuration = 0x23E383,
  kLanguage = 0x22B59C,
  kCodecId = 0x86,
  kVideo = 0xE0,
  kFlagInterlaced = 0x9A,
  kPixelWidth = 0xB0,
  kPixelHeight = 0xBA,
  kColour = 0x55B0,
  kMatrixCoefficients = 0x55B1,
  kBitsPerChannel = 0x55B2,
  kChromaSubsamplingHorz = 0x55B3,
  kChromaSubsamplingVert = 0x55B4,
  kChromaSitingHorz = 0x55B7,
  kChromaSitingVert = 0x55B8,
  kRange = 0x55B9,
  kTransferCharacteristics = 0x55BA,
  kPrimaries = 0x55BB,
  kCues = 0x1C53BB6B,
  kCuePoint = 0xBB,
  kCueTime = 0xB3,
  kCueTrackPositions = 0xB7,
  kCueTrack = 0xF7,
  kCueClusterPosition = 0xF1,
  kCluster = 0x1F43B675,
  kTimestamp = 0xE7,
  kSimpleBlock = 0xA3,
  kTags = 0x1254C367,
  kTag = 0x7373,
  kTargets = 0x63C0,
  kSimpleTag = 0x67C8,
  kTagName = 0x45A3,
  kTagString = 0x4487,
};

constexpr uint64_t kTrack = 1;
constexpr int64_t kMilliseconds = 1000;  // a second: the clock of all times
constexpr double kKeyFrameSeconds = 5;
constexpr size_t kPositionBytes = 8;  // a position, so that none changes what it counts

// Frames from a key frame up to the next one.
struct Cluster {
  int64_t start = 0;  // ms
  std::string bytes;  // the element
};

std::string FileHeader() {
  return EbmlElement(
      kEbml, absl::StrCat(EbmlNumber(kEbmlVersion, 1), EbmlNumber(kEbmlReadVersion, 1),
                          EbmlNumber(kEbmlMaxIdLength, 4), EbmlNumber(kEbmlMaxSizeLength, 8),
                          EbmlElement(kDocType, "webm"), EbmlNumber(kDocTypeVersion, 4),
                          EbmlNumber(kDocTypeReadVersion, 2)));
}

// Numbers of ITU-T H.273 where there are such.
std::string Colour() {
  constexpr uint64_t kSmpte170m = 6, kLimited = 1, kSrgbTransfer = 13, kBt709Primaries = 1;
  constexpr uint64_t kHalved = 1, kBetween = 2;
  return EbmlElement(
      kColour,
      absl::StrCat(
          EbmlNumber(kMatrixCoefficients, kSmpte170m), EbmlNumber(kBitsPerChannel, 8),
          EbmlNumber(kChromaSubsamplingHorz, kHalved), EbmlNumber(kChromaSubsamplingVert, kHalved),
          EbmlNumber(kChromaSitingHorz, kBetween), EbmlNumber(kChromaSitingVert, kBetween),
          EbmlNumber(kRange, kLimited), EbmlNumber(kTransferCharacteristics, kSrgbTransfer),
          EbmlNumber(kPrimaries, kBt709Primaries)));
}

std::string Cues(const std::vector<Cluster>& clusters, uint64_t first_position) {
  std::string points;
  uint64_t position = first_position;
  for (const Cluster& cluster : clusters) {
    const std::string place = absl::StrCat(
        EbmlNumber(kCueTrack, kTrack), EbmlNumber(kCueClusterPosition, position, kPositionBytes));
    points += EbmlElement(kCuePoint, absl::StrCat(EbmlNumber(kCueTime, cluster.start),
                                                  EbmlElement(kCueTrackPositions, place)));
    position += cluster.bytes.size();
  }
  return EbmlElement(kCues, points);
}

// The places of the elements that follow it, one behind the other, counted from its own beginning.
std::string SeekHead(const std::vector<std::pair<Id, size_t>>& elements, size_t own_bytes) {
  std::string seeks;
  uint64_t position = own_bytes;
  for (const auto& [id, bytes] : elements) {
    seeks += EbmlElement(kSeek, absl::StrCat(EbmlElement(kSeekId, BigEndian(id, 4)),
                                             EbmlNumber(kSeekPosition, position, kPositionBytes)));
    position += bytes;
  }
  return EbmlElement(kSeekHead, seeks);
}

class Webm : public VideoContainer {
 public:
  Webm(const VideoInfo& info, EncodeFrames encode)
      : info_(info), rate_(FrameRateOf(info.fps)), encode_(std::move(encode)) {}

  bool IsFinalAsAdded() const override { return false; }
  void Begin(std::string& /*file*/) const override {}

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    std::string planes;
    AppendYuv(frame, planes);
    return planes;
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    file.append(encoded.data(), encoded.size());
  }

  absl::Status End(std::string& file, BeforeFrame before_frame) const override {
    const Vp9Video video = {
        .width = info_.width,
        .height = info_.height,
        .rate = rate_.frames,
        .seconds = rate_.seconds,
        .quality = info_.quality,
        .key_frame_every = std::max(1, static_cast<int>(kKeyFrameSeconds * info_.fps))};
    ASSIGN_OR_RETURN(const std::vector<Vp9Frame> frames, encode_(video, file, before_frame));
    file = File(Clusters(frames));
    return absl::OkStatus();
  }

 private:
  std::string File(const std::vector<Cluster>& clusters) const {
    const std::string info = Info(), tracks = Tracks(), tags = Tags();
    std::vector<std::pair<Id, size_t>> elements = {{kInfo, info.size()}, {kTracks, tracks.size()}};
    if (!tags.empty()) elements.emplace_back(kTags, tags.size());
    elements.emplace_back(kCues, Cues(clusters, 0).size());
    const size_t head_bytes = SeekHead(elements, 0).size();
    size_t before = head_bytes, content = head_bytes;
    for (const auto& [id, bytes] : elements) content = before += bytes;
    for (const Cluster& cluster : clusters) content += cluster.bytes.size();
    std::string file =
        absl::StrCat(FileHeader(), EbmlHeader(kSegment, content), SeekHead(elements, head_bytes),
                     info, tracks, tags, Cues(clusters, before));
    file.reserve(file.size() + content - before);
    for (const Cluster& cluster : clusters) file += cluster.bytes;
    return file;
  }

  int64_t Start(int64_t frame) const { return StartOf(frame, rate_, kMilliseconds); }

  std::string Info() const {
    constexpr uint64_t kNanosecondsOfOne = 1'000'000;
    return EbmlElement(
        kInfo,
        absl::StrCat(EbmlNumber(kTimestampScale, kNanosecondsOfOne),
                     EbmlFloat(kDuration, static_cast<double>(Start(info_.frames))),
                     EbmlElement(kMuxingApp, "latentd"), EbmlElement(kWritingApp, "latentd")));
  }

  std::string Tracks() const {
    constexpr uint64_t kIsVideo = 1, kProgressive = 2, kNo = 0;
    const auto nanoseconds =
        static_cast<uint64_t>(std::llround(1e9 * rate_.seconds / rate_.frames));
    const std::string video = absl::StrCat(EbmlNumber(kFlagInterlaced, kProgressive),
                                           EbmlNumber(kPixelWidth, info_.width),
                                           EbmlNumber(kPixelHeight, info_.height), Colour());
    return EbmlElement(
        kTracks,
        EbmlElement(
            kTrackEntry,
            absl::StrCat(EbmlNumber(kTrackNumber, kTrack), EbmlNumber(kTrackUid, kTrack),
                         EbmlNumber(kTrackType, kIsVideo), EbmlNumber(kFlagLacing, kNo),
                         EbmlNumber(kDefaultDuration, nanoseconds), EbmlElement(kLanguage, "und"),
                         EbmlElement(kCodecId, "V_VP9"), EbmlElement(kVideo, video))));
  }

  std::string Tags() const {
    if (info_.parameters.empty()) return "";
    const std::string comment = EbmlElement(
        kSimpleTag, absl::StrCat(EbmlElement(kTagName, "COMMENT"),
                                 EbmlElement(kTagString, WithoutNul(info_.parameters))));
    return EbmlElement(kTags, EbmlElement(kTag, absl::StrCat(EbmlElement(kTargets, ""), comment)));
  }

  std::vector<Cluster> Clusters(const std::vector<Vp9Frame>& frames) const {
    std::vector<Cluster> clusters;
    for (size_t first = 0, end = 0; first < frames.size(); first = end) {
      for (end = first + 1; end < frames.size() && !frames[end].is_key;) ++end;
      clusters.push_back(ClusterOf(frames, first, end));
    }
    return clusters;
  }

  Cluster ClusterOf(const std::vector<Vp9Frame>& frames, size_t first, size_t end) const {
    constexpr char kKeyFrame = '\x80';
    const int64_t start = Start(static_cast<int64_t>(first));
    std::string content = EbmlNumber(kTimestamp, start);
    for (size_t i = first; i < end; ++i) {
      const auto after = static_cast<uint64_t>(Start(static_cast<int64_t>(i)) - start);
      const std::string header = absl::StrCat(EbmlSize(kTrack), BigEndian(after, 2),
                                              std::string(1, frames[i].is_key ? kKeyFrame : '\0'));
      absl::StrAppend(&content, EbmlHeader(kSimpleBlock, header.size() + frames[i].bytes.size()),
                      header, frames[i].bytes);
    }
    return {start, EbmlElement(kCluster, content)};
  }

  const VideoInfo info_;
  const FrameRate rate_;
  const EncodeFrames encode_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeWebm(const VideoInfo& info, EncodeFrames encode) {
  return std::make_unique<Webm>(info, std::move(encode));
}

}  // namespace latentd::image
