#include "core/image/jpeg.h"

#include <jerror.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

// After <cstdio>: it uses FILE without including it.
#include <jpeglib.h>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

// A picture of a camera has about ten. Each costs a pass over all pixels, so a small file could
// keep a thread busy for hours.
constexpr int kMaxScans = 64;

// libjpeg's error and progress callbacks with where to jump. libjpeg hands back pointers to its own
// parts, which stand first.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf target;
  char text[JMSG_LENGTH_MAX] = "";
  char warning[JMSG_LENGTH_MAX] = "";  // the first one
  bool ended = false;                  // the file has, before its end marker
};

[[noreturn]] void OnError(j_common_ptr codec) {
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  (*codec->err->format_message)(codec, errors->text);
  std::longjmp(errors->target, 1);
}

// Its rows come one scan after the other: a scan that is missing leaves them coarse.
bool NeedsAllScans(j_common_ptr codec) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(codec);
  return decoder->progressive_mode || decoder->comps_in_scan < decoder->num_components;
}

// Warnings are what libjpeg can go on after, with guessed pixels: Pillow goes on too, unless the
// file has ended and there are pixels left.
void OnMessage(j_common_ptr codec, int level) {
  if (level >= 0) return;
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  const int code = codec->err->msg_code;
  if (code == JWRN_JPEG_EOF) {
    if (NeedsAllScans(codec)) OnError(codec);
    errors->ended = true;
    return;
  }
  if (code == JWRN_HIT_MARKER && errors->ended) OnError(codec);
  if (errors->warning[0] == '\0') (*codec->err->format_message)(codec, errors->warning);
}

void OnProgress(j_common_ptr codec) {
  if (!codec->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  std::snprintf(errors->text, sizeof(errors->text), "it has more than %d scans", kMaxScans);
  std::longjmp(errors->target, 1);
}

jpeg_error_mgr* Prepare(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = OnError;
  errors.base.emit_message = OnMessage;
  errors.base.output_message = [](j_common_ptr) {};
  return &errors.base;
}

// Runs `body` and says whether libjpeg got through it. `body` must own nothing: an error jumps out
// of it without destroying anything.
bool Guarded(Errors& errors, absl::FunctionRef<void()> body) {
  if (setjmp(errors.target) != 0) return false;
  body();
  return true;
}

bool IsOutOfMemory(const Errors& errors) { return errors.base.msg_code == JERR_OUT_OF_MEMORY; }

absl::Status Damaged(const Errors& errors) {
  if (IsOutOfMemory(errors)) return OutOfMemoryError("no memory to read a JPEG");
  return absl::InvalidArgumentError(
      absl::StrCat("the JPEG is damaged or cut short: ", errors.text));
}

// a * b / 255, rounded.
uint8_t Scale(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

// One row of inverted CMYK (as all programs write it) to RGB, by PIL's formula.
void CmykToRgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) rgb[c] = Scale(cmyk[c], cmyk[3]);
  }
}

class JpegReader {
 public:
  explicit JpegReader(absl::string_view bytes) : bytes_(bytes) {
    codec_.err = Prepare(errors_);
    progress_.progress_monitor = OnProgress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&codec_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  absl::StatusOr<Dimensions> ReadSize() {
    if (!Guarded(errors_, [this] { ReadHeader(); })) return Damaged(errors_);
    RETURN_IF_ERROR(CheckSize(codec_.image_width, codec_.image_height));
    return Dimensions{static_cast<int>(codec_.image_width), static_cast<int>(codec_.image_height)};
  }

  absl::StatusOr<Image> Read(PassedOver& passed_over) {
    RETURN_IF_ERROR(ReadSize().status());
    Image image{static_cast<int>(codec_.image_width), static_cast<int>(codec_.image_height), {}};
    image.rgb.resize(size_t{3} * codec_.image_width * codec_.image_height);
    std::vector<uint8_t> cmyk(IsCmyk() ? size_t{4} * codec_.image_width : 0);
    if (!Guarded(errors_, [&] { ReadRows(image.rgb.data(), cmyk.data()); })) {
      return Damaged(errors_);
    }
    if (errors_.warning[0] != '\0') {
      passed_over.push_back(
          absl::StrCat("the JPEG is damaged, and so may be what is seen of it: ", errors_.warning));
    }
    const bool finished = Guarded(errors_, [this] { jpeg_finish_decompress(&codec_); });
    if (!finished || errors_.ended) {
      passed_over.emplace_back("the JPEG has no end marker behind its pixels");
    }
    return image;
  }

 private:
  bool IsCmyk() const { return codec_.num_components == 4; }

  void ReadHeader() {
    jpeg_create_decompress(&codec_);
    codec_.progress = &progress_;
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&codec_, TRUE);
  }

  void ReadRows(uint8_t* rgb, uint8_t* cmyk) {
    codec_.out_color_space = IsCmyk() ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      uint8_t* row = rgb + size_t{3} * codec_.output_width * codec_.output_scanline;
      uint8_t* target = IsCmyk() ? cmyk : row;
      if (jpeg_read_scanlines(&codec_, &target, 1) == 1 && IsCmyk()) {
        CmykToRgb(cmyk, static_cast<int>(codec_.output_width), row);
      }
    }
  }

  absl::string_view bytes_;
  Errors errors_;
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct codec_ = {};
};

// A destination for libjpeg: a buffer that grows, and that is this object's at any moment. The one
// of jpeg_mem_dest belongs to libjpeg until the image is finished, and the caller's pointer to a
// block that is freed already.
class GrowingBuffer {
 public:
  GrowingBuffer() {
    base_.init_destination = [](j_compress_ptr codec) { Of(codec)->Grow(codec); };
    base_.empty_output_buffer = [](j_compress_ptr codec) -> boolean {
      Of(codec)->Grow(codec);
      return TRUE;
    };
    base_.term_destination = [](j_compress_ptr) {};
  }
  ~GrowingBuffer() { std::free(bytes_); }
  GrowingBuffer(const GrowingBuffer&) = delete;
  GrowingBuffer& operator=(const GrowingBuffer&) = delete;

  jpeg_destination_mgr* manager() { return &base_; }
  absl::string_view written() const {
    return {reinterpret_cast<const char*>(bytes_), capacity_ - base_.free_in_buffer};
  }

 private:
  static constexpr size_t kFirstBytes = 4096;

  static GrowingBuffer* Of(j_compress_ptr codec) {
    return reinterpret_cast<GrowingBuffer*>(codec->dest);
  }

  // Only called when the buffer is full. libjpeg is told of a lack of memory, so this may jump.
  void Grow(j_compress_ptr codec) {
    const size_t capacity = capacity_ == 0 ? kFirstBytes : 2 * capacity_;
    auto* bytes = static_cast<JOCTET*>(std::realloc(bytes_, capacity));
    if (bytes == nullptr) ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
    bytes_ = bytes;
    base_.next_output_byte = bytes_ + capacity_;
    base_.free_in_buffer = capacity - capacity_;
    capacity_ = capacity;
  }

  jpeg_destination_mgr base_ = {};  // first, since libjpeg hands back a pointer to it
  JOCTET* bytes_ = nullptr;
  size_t capacity_ = 0;
};

class JpegWriter {
 public:
  JpegWriter() { codec_.err = Prepare(errors_); }
  ~JpegWriter() { jpeg_destroy_compress(&codec_); }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  absl::StatusOr<std::string> Write(const Image& image, int quality) {
    if (Guarded(errors_, [&] { Compress(image, quality); })) return std::string(buffer_.written());
    if (IsOutOfMemory(errors_)) return OutOfMemoryError("no memory to write a JPEG");
    return absl::InvalidArgumentError(absl::StrCat("libjpeg refuses: ", errors_.text));
  }

 private:
  void Compress(const Image& image, int quality) {
    jpeg_create_compress(&codec_);
    codec_.dest = buffer_.manager();
    codec_.image_width = image.width;
    codec_.image_height = image.height;
    codec_.input_components = 3;
    codec_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&codec_);
    jpeg_set_quality(&codec_, quality, /*force_baseline=*/TRUE);
    jpeg_start_compress(&codec_, /*write_all_tables=*/TRUE);
    while (codec_.next_scanline < codec_.image_height) {
      const size_t offset = size_t{3} * image.width * codec_.next_scanline;
      auto* row = const_cast<uint8_t*>(image.rgb.data() + offset);  // libjpeg only reads it
      jpeg_write_scanlines(&codec_, &row, 1);
    }
    jpeg_finish_compress(&codec_);
  }

  Errors errors_;
  GrowingBuffer buffer_;
  jpeg_compress_struct codec_ = {};
};

}  // namespace

bool IsJpeg(absl::string_view bytes) { return absl::StartsWith(bytes, "\xFF\xD8\xFF"); }

absl::StatusOr<Dimensions> ReadJpegDimensions(absl::string_view bytes) {
  return JpegReader(bytes).ReadSize();
}

absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes, PassedOver& passed_over) {
  return JpegReader(bytes).Read(passed_over);
}

absl::StatusOr<std::string> EncodeJpeg(const Image& image, int quality) {
  return JpegWriter().Write(image, quality);
}

}  // namespace latentd::image
