// A reader of Matroska files that knows nothing of their writer.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::image {

struct EbmlPart {
  uint64_t id = 0;            // with its marker bit
  absl::string_view content;  // the element's bytes behind its size
  size_t offset = 0;          // the element's, from the beginning of what was read
};

inline uint64_t NumberOf(absl::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

inline double FloatOf(absl::string_view bytes) {
  EXPECT_EQ(bytes.size(), 8u);
  return std::bit_cast<double>(NumberOf(bytes));
}

// Takes a number that says by the zeros it begins with how many bytes it has.
inline uint64_t TakeVint(absl::string_view& bytes, bool with_marker) {
  if (bytes.empty() || bytes[0] == 0) {
    ADD_FAILURE() << "no number";
    bytes = {};
    return 0;
  }
  const size_t count = std::countl_zero(static_cast<uint8_t>(bytes[0])) + 1;
  const uint64_t value = NumberOf(bytes.substr(0, count));
  bytes.remove_prefix(count);
  return with_marker ? value : value - (uint64_t{1} << (7 * count));
}

// Elements that fill `bytes` to the last one.
inline std::vector<EbmlPart> ReadEbml(absl::string_view bytes) {
  std::vector<EbmlPart> parts;
  for (absl::string_view rest = bytes; !rest.empty();) {
    EbmlPart part = {.offset = bytes.size() - rest.size()};
    part.id = TakeVint(rest, /*with_marker=*/true);
    const uint64_t size = TakeVint(rest, /*with_marker=*/false);
    EXPECT_LE(size, rest.size()) << std::hex << part.id;
    part.content = rest.substr(0, size);
    rest.remove_prefix(part.content.size());
    parts.push_back(part);
  }
  return parts;
}

// All of an element's content that have the name.
inline std::vector<absl::string_view> AllOf(absl::string_view content, uint64_t id) {
  std::vector<absl::string_view> all;
  for (const EbmlPart& part : ReadEbml(content)) {
    if (part.id == id) all.push_back(part.content);
  }
  return all;
}

// The only one, below the names before it.
inline absl::string_view OneOf(absl::string_view content, const std::vector<uint64_t>& path) {
  for (const uint64_t id : path) {
    const std::vector<absl::string_view> all = AllOf(content, id);
    EXPECT_EQ(all.size(), 1u) << std::hex << id;
    if (all.size() != 1) return "";
    content = all[0];
  }
  return content;
}

struct ReadBlock {
  int64_t time = 0;  // ms
  bool is_key = false;
  absl::string_view frame;
};

// Frames of a file of one track, in their order.
inline std::vector<ReadBlock> ReadBlocks(absl::string_view file) {
  constexpr uint64_t kSegment = 0x18538067, kCluster = 0x1F43B675, kTimestamp = 0xE7, kBlock = 0xA3;
  std::vector<ReadBlock> blocks;
  for (const absl::string_view cluster : AllOf(OneOf(file, {kSegment}), kCluster)) {
    const auto start = static_cast<int64_t>(NumberOf(OneOf(cluster, {kTimestamp})));
    for (absl::string_view block : AllOf(cluster, kBlock)) {
      EXPECT_EQ(TakeVint(block, /*with_marker=*/false), 1u);
      const auto after = static_cast<int16_t>(NumberOf(block.substr(0, 2)));
      EXPECT_EQ(block[2] & 0x7F, 0);  // no lacing, not invisible
      blocks.push_back({start + after, (block[2] & 0x80) != 0, block.substr(3)});
    }
  }
  return blocks;
}

}  // namespace latentd::image
