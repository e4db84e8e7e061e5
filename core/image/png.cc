#include "core/image/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"

namespace latentd::image {
namespace {

constexpr char kSignature[] = "\x89PNG\r\n\x1A\n";

// What libpng last complained of, for the message.
struct Complaint {
  char text[96] = "";
  bool out_of_memory = false;
};

void OnError(png_structp png, png_const_charp message) {
  auto* complaint = static_cast<Complaint*>(png_get_error_ptr(png));
  std::strncpy(complaint->text, message, sizeof(complaint->text) - 1);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

// libpng's texts do not tell a lack of memory from a damaged file.
void* Allocate(png_structp png, png_alloc_size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<Complaint*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void Free(png_structp, void* memory) { std::free(memory); }

// Runs `body` and says whether libpng got through it. `body` must own nothing: an error jumps out
// of it without destroying anything.
bool Guarded(png_structp png, absl::FunctionRef<void()> body) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  body();
  return true;
}

absl::Status Damaged(const Complaint& complaint) {
  if (complaint.out_of_memory) return OutOfMemoryError("no memory to read a PNG");
  return absl::InvalidArgumentError(
      absl::StrCat("the PNG is damaged or cut short: ", complaint.text));
}

class PngReader {
 public:
  explicit PngReader(absl::string_view bytes)
      : rest_(bytes),
        png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &complaint_, OnError, OnWarning,
                                      &complaint_, Allocate, Free)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  absl::StatusOr<Dimensions> ReadSize() {
    if (info_ == nullptr) return OutOfMemoryError("no memory to read a PNG");
    if (!Guarded(png_, [this] { ReadHeader(); })) return Damaged(complaint_);
    RETURN_IF_ERROR(CheckSize(width_, height_));
    return Dimensions{static_cast<int>(width_), static_cast<int>(height_)};
  }

  absl::StatusOr<Image> Read() {
    RETURN_IF_ERROR(ReadSize().status());
    if (!Guarded(png_, [this] { ChooseConversions(); })) return Damaged(complaint_);
    std::vector<uint8_t> pixels(row_bytes_ * height_);
    std::vector<png_bytep> rows(height_);
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row_bytes_;
    const bool read = Guarded(png_, [&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, nullptr);
    });
    if (!read) return Damaged(complaint_);
    return Image{static_cast<int>(width_), static_cast<int>(height_), std::move(pixels)};
  }

 private:
  void ReadHeader() {
    // Sizes are checked by CheckSize, which says more.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Nothing but the pixels counts: profiles and texts are not even unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_read_fn(png_, this, [](png_structp png, png_bytep to, size_t count) {
      static_cast<PngReader*>(png_get_io_ptr(png))->Take(to, count);
    });
    png_read_info(png_, info_);
    png_get_IHDR(png_, info_, &width_, &height_, &bit_depth_, &color_type_, nullptr, nullptr,
                 nullptr);
  }

  void Take(png_bytep to, size_t count) {
    if (count > rest_.size()) png_error(png_, "it ends too early");
    std::memcpy(to, rest_.data(), count);
    rest_.remove_prefix(count);
  }

  bool IsWideGrey() const { return color_type_ == PNG_COLOR_TYPE_GRAY && bit_depth_ == 16; }

  // Everything to 8-bit RGB; of 16 bits the upper 8, as Pillow does it, but for grey, which Pillow
  // clamps.
  void ChooseConversions() {
    png_set_expand(png_);
    if (IsWideGrey()) {
      png_set_scale_16(png_);
    } else {
      png_set_strip_16(png_);
    }
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
    if (row_bytes_ != size_t{3} * width_) png_error(png_, "it has an unexpected layout");
  }

  absl::string_view rest_;
  Complaint complaint_;
  png_structp png_;
  png_infop info_;
  png_uint_32 width_ = 0;
  png_uint_32 height_ = 0;
  int bit_depth_ = 0;
  int color_type_ = 0;
  size_t row_bytes_ = 0;
};

}  // namespace

bool IsPng(absl::string_view bytes) { return absl::StartsWith(bytes, kSignature); }

absl::StatusOr<Dimensions> ReadPngDimensions(absl::string_view bytes) {
  return PngReader(bytes).ReadSize();
}

absl::StatusOr<Image> DecodePng(absl::string_view bytes) { return PngReader(bytes).Read(); }

}  // namespace latentd::image
