#include "core/image/exif.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "core/image/metadata.h"
#include "core/image/pixels/byte_order.h"

namespace latentd::image {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;

// Types of values (TIFF 6.0, section 2), and 16, of BigTIFF.
enum Type : uint32_t {
  kByte = 1,
  kAscii,
  kShort,
  kLong,
  kRational,
  kSignedByte,
  kUndefined,
  kSignedShort,
  kSignedLong,
  kSignedRational,
  kFloat,
  kDouble,
  kDirectory,
  kLong8 = 16,
};

// Bytes of a value; 0 for a type that is none.
uint64_t SizeOf(uint32_t type) {
  constexpr std::array<uint8_t, 17> kSizes = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

std::optional<int> Quotient(int64_t numerator, int64_t denominator) {
  if (denominator == 0 || numerator % denominator != 0) return std::nullopt;
  const int64_t quotient = numerator / denominator;
  if (quotient < 0 || quotient > 8) return std::nullopt;
  return static_cast<int>(quotient);
}

std::optional<int> Whole(double value) {
  if (!(value >= 0 && value <= 8) || value != std::floor(value)) return std::nullopt;
  return static_cast<int>(value);
}

int64_t Signed(uint32_t number) { return static_cast<int32_t>(number); }

// The first number of those in `data`, where it is whole and may be an orientation. Letters and
// bytes without a meaning are none, whatever digits they spell.
std::optional<int> FirstNumber(uint32_t type, absl::string_view data, ByteOrder order) {
  const Bytes bytes(data, order);
  switch (type) {
    case kShort:
    case kSignedShort:
      return Quotient(bytes.U16(0), 1);
    case kLong:
    case kSignedLong:
    case kDirectory:
      return Quotient(bytes.U32(0), 1);
    case kSignedByte:
      return Quotient(static_cast<uint8_t>(data.front()), 1);
    case kLong8:
      return Quotient(static_cast<int64_t>(bytes.U64(0)), 1);
    case kRational:
      return Quotient(bytes.U32(0), bytes.U32(4));
    case kSignedRational:
      return Quotient(Signed(bytes.U32(0)), Signed(bytes.U32(4)));
    case kFloat:
      return Whole(std::bit_cast<float>(bytes.U32(0)));
    case kDouble:
      return Whole(std::bit_cast<double>(bytes.U64(0)));
    default:
      return std::nullopt;
  }
}

// The first directory of a TIFF.
class Directory {
 public:
  Directory(absl::string_view tiff, ByteOrder order)
      : tiff_(tiff), order_(order), file_(tiff, order), begin_(file_.U32(4)) {}

  // Nothing where the tag is not there; 0 where its value says nothing.
  std::optional<int> FindOrientation() {
    const uint32_t entries = file_.U16(begin_);
    for (uint32_t i = 0; i < entries && !at_end_; ++i) {
      const size_t entry = begin_ + 2 + i * kEntryBytes;
      if (entry + kEntryBytes > tiff_.size()) break;
      const absl::string_view data = ValuesOf(entry);
      if (!data.empty() && file_.U16(entry) == kOrientationTag) {
        return FirstNumber(file_.U16(entry + 2), data, order_).value_or(0);
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kEntryBytes = 12, kInEntry = 4;

  // Empty where the entry is passed over, as each after the first of a tag is that has values.
  absl::string_view ValuesOf(size_t entry) {
    const uint32_t tag = file_.U16(entry);
    if (known_.contains(tag)) return {};
    const uint64_t size = SizeOf(file_.U16(entry + 2)) * file_.U32(entry + 4);
    const absl::string_view data =
        size <= kInEntry ? tiff_.substr(entry + 8, size) : ValuesElsewhere(entry, size);
    if (!data.empty()) known_.insert(tag);
    return data;
  }

  // Values that do not fit into an entry lie elsewhere in the file. A directory ends with an entry
  // whose values lie beyond the file's end; and once the sizes of such values sum to more than the
  // file has, all that follow are passed over.
  absl::string_view ValuesElsewhere(size_t entry, uint64_t size) {
    elsewhere_ += size;
    if (elsewhere_ > tiff_.size()) return {};
    const absl::string_view data = Part(tiff_, file_.U32(entry + 8), size);
    at_end_ = data.size() < size;
    return at_end_ ? absl::string_view() : data;
  }

  absl::string_view tiff_;
  ByteOrder order_;
  Bytes file_;
  size_t begin_;
  absl::flat_hash_set<uint32_t> known_;  // tags
  uint64_t elsewhere_ = 0;
  bool at_end_ = false;
};

// Nothing where there is no tag, and 0 where it or the whole EXIF says nothing.
std::optional<int> FindInExif(absl::string_view exif) {
  constexpr absl::string_view kPrefix("Exif\0\0", 6);
  for (int i = 0; i < 2; ++i) absl::ConsumePrefix(&exif, kPrefix);  // some programs write two
  if (exif.empty()) return std::nullopt;
  if (exif.size() < 8) return 0;
  const ByteOrder order = exif.front() == 'I' ? ByteOrder::kLittle : ByteOrder::kBig;
  constexpr std::array<absl::string_view, 5> kBegins = {
      absl::string_view("II*\0", 4), absl::string_view("MM\0*", 4),
      // Wrong, and read all the same.
      absl::string_view("II\0*", 4), absl::string_view("MM*\0", 4), absl::string_view("MM\0+", 4)};
  if (std::find(kBegins.begin(), kBegins.end(), exif.substr(0, 4)) == kBegins.end()) return 0;
  return Directory(exif, order).FindOrientation();
}

// Finds the orientation in XMP, as an attribute or an element.
std::optional<int> FindInXmp(absl::string_view xmp) {
  constexpr absl::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != absl::string_view::npos; at = xmp.find(kName, at)) {
    at += kName.size();
    absl::string_view value = xmp.substr(at);
    if (!absl::ConsumePrefix(&value, "=\"") && !absl::ConsumePrefix(&value, ">")) continue;
    if (!value.empty() && absl::ascii_isdigit(static_cast<unsigned char>(value.front()))) {
      return value.front() - '0';
    }
  }
  return std::nullopt;
}

bool SwapsSides(Orientation orientation) { return orientation >= Orientation::kLeftTop; }

}  // namespace

Orientation OrientationOf(absl::string_view bytes) {
  const Metadata metadata = ReadMetadata(bytes);
  std::optional<int> value;
  if (metadata.exif) value = FindInExif(*metadata.exif);
  if (!value) value = FindInXmp(metadata.xmp);
  return value && 1 <= *value && *value <= 8 ? static_cast<Orientation>(*value)
                                             : Orientation::kTopLeft;
}

Dimensions Turned(Dimensions size, Orientation orientation) {
  if (SwapsSides(orientation)) std::swap(size.width, size.height);
  return size;
}

Image Turned(Image image, Orientation orientation) {
  using enum Orientation;
  if (orientation == kTopLeft) return image;
  const bool mirrors_x = orientation == kTopRight || orientation == kBottomRight ||
                         orientation == kRightBottom || orientation == kLeftBottom;
  const bool mirrors_y = orientation == kBottomRight || orientation == kBottomLeft ||
                         orientation == kRightTop || orientation == kRightBottom;
  const Dimensions size = Turned(Dimensions{image.width, image.height}, orientation);
  Image turned{size.width, size.height, {}};
  turned.rgb.resize(image.rgb.size());
  uint8_t* to = turned.rgb.data();
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x, to += 3) {
      const int column = SwapsSides(orientation) ? y : x, row = SwapsSides(orientation) ? x : y;
      const size_t from_x = mirrors_x ? image.width - 1 - column : column;
      const size_t from_y = mirrors_y ? image.height - 1 - row : row;
      std::copy_n(image.rgb.data() + 3 * (from_y * image.width + from_x), 3, to);
    }
  }
  return turned;
}

}  // namespace latentd::image
