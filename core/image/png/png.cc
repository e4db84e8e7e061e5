#include "core/image/png/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/image/png/png_chunks.h"

namespace latentd::image {
namespace {

constexpr char kSignature[] = "\x89PNG\r\n\x1A\n";

// The last error or warning of libpng, for the message.
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

// A number of four bytes, the greatest first.
void AppendNumber(uint32_t number, std::string& to) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(number >> shift));
}

void AppendChunk(absl::string_view name, absl::string_view data, std::string& to) {
  AppendNumber(static_cast<uint32_t>(data.size()), to);
  absl::StrAppend(&to, name, data, absl::string_view("\0\0\0\0", 4));  // no checksum
}

std::string Header(const PngParts& parts) {
  std::string header;
  AppendNumber(parts.width, header);
  AppendNumber(parts.height, header);
  header.push_back(static_cast<char>(parts.bit_depth));
  header.push_back(static_cast<char>(parts.color_type));
  header.append(2, '\0');  // the only way to compress and to filter that there is
  header.push_back(parts.interlaced ? 1 : 0);
  return header;
}

// As many colours as there may be: those that are missing, or have less than three bytes, are
// black. That is what Pillow makes of it.
std::string Palette(const PngParts& parts) {
  const size_t bytes = size_t{3} << std::min<int>(parts.bit_depth, 8);
  std::string palette(parts.palette.substr(0, std::min(parts.palette.size() / 3 * 3, bytes)));
  palette.resize(bytes);
  return palette;
}

// The beginning of what libpng is given: the chunks that pixels are made of, and nothing else that
// it could stumble over. Transparency is none of them, since it is dropped.
std::string Beginning(const PngParts& parts) {
  std::string beginning = kSignature;
  AppendChunk("IHDR", Header(parts), beginning);
  if (parts.color_type == kPngPalette) AppendChunk("PLTE", Palette(parts), beginning);
  size_t bytes = 0;
  for (const absl::string_view data : parts.data) bytes += data.size();
  AppendNumber(static_cast<uint32_t>(bytes), beginning);
  return beginning += "IDAT";
}

class PngReader {
 public:
  explicit PngReader(const PngParts& parts)
      : parts_(parts),
        beginning_(Beginning(parts)),
        png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &complaint_, OnError, OnWarning,
                                      &complaint_, Allocate, Free)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
    source_.push_back(beginning_);
    source_.insert(source_.end(), parts.data.begin(), parts.data.end());
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  absl::StatusOr<Dimensions> ReadSize() {
    if (info_ == nullptr) return OutOfMemoryError("no memory to read a PNG");
    if (!Guarded(png_, [this] { ReadHeader(); })) return Damaged(complaint_);
    RETURN_IF_ERROR(CheckSize(parts_.width, parts_.height));
    return Dimensions{static_cast<int>(parts_.width), static_cast<int>(parts_.height)};
  }

  absl::StatusOr<Image> Read() {
    ASSIGN_OR_RETURN(const Dimensions size, ReadSize());
    if (!Guarded(png_, [this] { ChooseConversions(); })) return Damaged(complaint_);
    std::vector<uint8_t> pixels(row_bytes_ * parts_.height);
    std::vector<png_bytep> rows(parts_.height);
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row_bytes_;
    const bool read = Guarded(png_, [&] { png_read_image(png_, rows.data()); });
    if (!read && (complaint_.out_of_memory || !HasAllRows())) return Damaged(complaint_);
    return Image{size.width, size.height, std::move(pixels)};
  }

 private:
  void ReadHeader() {
    // Sizes are checked by CheckSize, which says more.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    png_set_read_fn(png_, this, [](png_structp png, png_bytep to, size_t count) {
      static_cast<PngReader*>(png_get_io_ptr(png))->Take(to, count);
    });
    png_read_info(png_, info_);
  }

  void Take(png_bytep to, size_t count) {
    while (count > 0) {
      if (next_ == source_.size()) png_error(png_, "it ends too early");
      absl::string_view& from = source_[next_];
      const size_t taken = std::min(count, from.size());
      std::copy_n(from.data(), taken, to);  // an empty chunk has no address
      from.remove_prefix(taken);
      if (from.empty()) ++next_;
      to += taken;
      count -= taken;
    }
  }

  // Then what libpng still complains of is what is behind the pixels: their checksum, the end.
  bool HasAllRows() const {
    constexpr int kPasses = 7;
    return parts_.interlaced ? png_get_current_pass_number(png_) >= kPasses
                             : png_get_current_row_number(png_) >= parts_.height;
  }

  bool IsWideGrey() const { return parts_.color_type == kPngGrey && parts_.bit_depth == 16; }

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
    if (row_bytes_ != size_t{3} * parts_.width) png_error(png_, "it has an unexpected layout");
  }

  const PngParts& parts_;
  const std::string beginning_;
  std::vector<absl::string_view> source_;  // unread rest of the file
  size_t next_ = 0;                        // in it
  Complaint complaint_;
  png_structp png_;
  png_infop info_;
  size_t row_bytes_ = 0;
};

}  // namespace

bool IsPng(absl::string_view bytes) { return absl::StartsWith(bytes, kSignature); }

absl::StatusOr<Dimensions> ReadPngDimensions(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const PngParts parts, ReadPngParts(bytes));
  return PngReader(parts).ReadSize();
}

absl::StatusOr<Image> DecodePng(absl::string_view bytes, PassedOver& passed_over) {
  ASSIGN_OR_RETURN(const PngParts parts, ReadPngParts(bytes));
  ASSIGN_OR_RETURN(Image image, PngReader(parts).Read());
  for (const std::string& what : parts.passed_over) {
    passed_over.push_back(absl::StrCat("the PNG: ", what));
  }
  return image;
}

}  // namespace latentd::image
