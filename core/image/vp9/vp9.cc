#include "core/image/vp9/vp9.h"

#include <vpx/vp8cx.h>
#include <vpx/vpx_encoder.h>

#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/memory_room.h"

namespace latentd::image {
namespace {

// A number of libvpx's from 0 to 9: a frame of 1024x576 takes some 40 ms of one thread.
constexpr int kSpeed = 5;

// Bytes that libvpx takes for one video: no less than it was seen to (1.12; 64x64 to 2048x2048).
int64_t EncoderBytes(const Vp9Video& video) {
  constexpr int64_t kAnySize = int64_t{16} << 20, kPixel = 77;
  return kAnySize + kPixel * video.width * video.height;
}

// libvpx's coarsest quantizer of any frame, 0 (the best) to 63.
unsigned QuantizerOf(int quality) {
  return static_cast<unsigned>(std::lround(63 * std::sqrt((100 - quality) / 100.0)));
}

absl::Status ErrorOf(vpx_codec_err_t error, const char* detail) {
  if (error == VPX_CODEC_OK) return absl::OkStatus();
  const std::string text = absl::StrCat("libvpx: ", vpx_codec_err_to_string(error),
                                        detail == nullptr ? "" : ": ", detail ? detail : "");
  if (error == VPX_CODEC_MEM_ERROR) return OutOfMemoryError(text);
  return absl::InternalError(text);
}

// Planes that lie in memory as Vp9Video says.
vpx_image_t ImageOf(const Vp9Video& video, absl::string_view frame) {
  auto* bytes = const_cast<unsigned char*>(  // libvpx reads them alone
      reinterpret_cast<const unsigned char*>(frame.data()));
  vpx_image_t image;
  vpx_img_wrap(&image, VPX_IMG_FMT_I420, video.width, video.height, /*stride_align=*/1, bytes);
  const int chroma_width = (video.width + 1) / 2, chroma_height = (video.height + 1) / 2;
  image.stride[VPX_PLANE_Y] = video.width;
  image.stride[VPX_PLANE_U] = image.stride[VPX_PLANE_V] = chroma_width;
  image.planes[VPX_PLANE_U] = bytes + size_t{1} * video.width * video.height;
  image.planes[VPX_PLANE_V] = image.planes[VPX_PLANE_U] + size_t{1} * chroma_width * chroma_height;
  image.cs = VPX_CS_BT_601;
  image.range = VPX_CR_STUDIO_RANGE;
  return image;
}

class Vp9Encoder {
 public:
  Vp9Encoder() = default;
  Vp9Encoder(const Vp9Encoder&) = delete;
  Vp9Encoder& operator=(const Vp9Encoder&) = delete;
  ~Vp9Encoder() {
    if (begun_) vpx_codec_destroy(&codec_);
  }

  absl::Status Begin(const Vp9Video& video) {
    vpx_codec_enc_cfg_t config;
    RETURN_IF_ERROR(ErrorOf(vpx_codec_enc_config_default(vpx_codec_vp9_cx(), &config, 0), nullptr));
    config.g_w = video.width;
    config.g_h = video.height;
    config.g_timebase = {.num = static_cast<int>(video.seconds),
                         .den = static_cast<int>(video.rate)};
    config.g_threads = 1;
    config.g_lag_in_frames = 0;  // in one pass it would change nothing
    config.rc_end_usage = VPX_Q;
    config.kf_max_dist = video.key_frame_every;
    RETURN_IF_ERROR(ErrorOf(vpx_codec_enc_init(&codec_, vpx_codec_vp9_cx(), &config, 0), nullptr));
    begun_ = true;
    RETURN_IF_ERROR(Set(VP8E_SET_CPUUSED, kSpeed));
    RETURN_IF_ERROR(Set(VP8E_SET_CQ_LEVEL, static_cast<int>(QuantizerOf(video.quality))));
    RETURN_IF_ERROR(Set(VP9E_SET_COLOR_SPACE, VPX_CS_BT_601));
    return Set(VP9E_SET_COLOR_RANGE, VPX_CR_STUDIO_RANGE);
  }

  // Null: there are no more frames, and the last ones come out. True if any came out.
  absl::StatusOr<bool> Encode(const vpx_image_t* image, int number, std::vector<Vp9Frame>& frames) {
    constexpr unsigned long kDuration = 1;  // NOLINT(google-runtime-int): libvpx's type
    RETURN_IF_ERROR(Check(
        vpx_codec_encode(&codec_, image, number, kDuration, /*flags=*/0, VPX_DL_GOOD_QUALITY)));
    bool any = false;
    vpx_codec_iter_t next = nullptr;
    while (const vpx_codec_cx_pkt_t* packet = vpx_codec_get_cx_data(&codec_, &next)) {
      if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
      const auto& frame = packet->data.frame;
      frames.push_back({.is_key = (frame.flags & VPX_FRAME_IS_KEY) != 0,
                        .bytes = std::string(static_cast<const char*>(frame.buf), frame.sz)});
      any = true;
    }
    return any;
  }

 private:
  absl::Status Check(vpx_codec_err_t error) {
    return ErrorOf(error, error == VPX_CODEC_OK ? nullptr : vpx_codec_error_detail(&codec_));
  }

  absl::Status Set(int control, int value) {
    return Check(vpx_codec_control_(&codec_, control, value));
  }

  vpx_codec_ctx_t codec_ = {};
  bool begun_ = false;
};

}  // namespace

absl::StatusOr<std::vector<Vp9Frame>> EncodeVp9(const Vp9Video& video, absl::string_view planes,
                                                absl::FunctionRef<absl::Status()> before_frame) {
  // One begins at a time, since room is what the machine has free: what an encoder takes is there
  // once it has had a frame.
  static absl::Mutex& begins = *new absl::Mutex;
  std::optional<absl::MutexLock> lock;
  lock.emplace(&begins);
  ASSIGN_OR_RETURN(const MemoryRoom room, MemoryRoom::Take(EncoderBytes(video), "an encoder of VP9",
                                                           MemoryRoom::Purpose::kEncodeVideo));
  Vp9Encoder encoder;
  RETURN_IF_ERROR(encoder.Begin(video));
  const size_t chroma = size_t{1} * ((video.width + 1) / 2) * ((video.height + 1) / 2);
  const size_t bytes = size_t{1} * video.width * video.height + 2 * chroma;
  const size_t count = planes.size() / bytes;
  std::vector<Vp9Frame> frames;
  frames.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(before_frame());
    const vpx_image_t image = ImageOf(video, planes.substr(i * bytes, bytes));
    RETURN_IF_ERROR(encoder.Encode(&image, static_cast<int>(i), frames).status());
    lock.reset();
  }
  for (bool any = true; any;) {
    ASSIGN_OR_RETURN(any, encoder.Encode(nullptr, static_cast<int>(count), frames));
  }
  if (frames.size() == count) return frames;
  return absl::InternalError(absl::StrCat("libvpx made ", frames.size(), " frames of ", count));
}

}  // namespace latentd::image
