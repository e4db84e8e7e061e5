#include "core/cache/entry_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"

namespace latentd::cache {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::string FileOf(Kind kind, const std::string& key, const std::string& payload) {
  return EncodeHead(kind, key, payload) + payload;
}

TEST(EntryFileTest, GivesBackWhatWasWritten) {
  std::mt19937 random(7);
  for (const Kind kind : kKinds) {
    for (const size_t key_bytes : {0, 1, 4031, 4032, 4033, 20'000}) {
      for (const size_t payload_bytes : {0, 1, 4095, 4096, 4097}) {
        std::string key(key_bytes, 'k');
        std::string payload(payload_bytes, 'p');
        for (char& c : key) c = static_cast<char>(random());
        for (char& c : payload) c = static_cast<char>(random());
        const std::string file = FileOf(kind, key, payload);
        ASSERT_OK_AND_ASSIGN(const ParsedEntry entry, ParseEntry(file));
        EXPECT_EQ(entry.kind, kind);
        EXPECT_EQ(entry.key, key);
        EXPECT_EQ(entry.payload, payload);
        EXPECT_EQ((entry.payload.data() - file.data()) % kPayloadAlignment, 0u);
      }
    }
  }
}

// FORMAT.md's table, byte by byte: what is on disk today must be readable tomorrow.
TEST(EntryFileTest, HasTheDocumentedLayout) {
  const std::string file = FileOf(Kind::kTensorDigests, "key", "payload");
  EXPECT_EQ(file.substr(0, 8), "latentce");
  EXPECT_EQ(file.substr(8, 4), std::string("\1\0\0\0", 4));
  EXPECT_EQ(file.substr(12, 4), std::string("\2\0\0\0", 4));
  EXPECT_EQ(file.substr(16, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(file.substr(24, 8), std::string("\7\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(file.substr(64, 3), "key");
  EXPECT_EQ(file.substr(67, 4096 - 67), std::string(4096 - 67, '\0'));
  EXPECT_EQ(file.substr(4096), "payload");
  const auto little_endian = [](const Digest& digest) {
    std::string bytes;
    for (const uint64_t half : {digest.low, digest.high}) {
      for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(half >> (8 * i)));
    }
    return bytes;
  };
  EXPECT_EQ(file.substr(32, 16), little_endian(DigestOf("payload")));
  std::string head = file.substr(0, 4096);
  head.replace(48, 16, std::string(16, '\0'));
  EXPECT_EQ(file.substr(48, 16), little_endian(DigestOf(head)));
}

TEST(EntryFileTest, RefusesEveryFlippedBit) {
  std::string file = FileOf(Kind::kArtifact, "a key", "a payload");
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_THAT(ParseEntry(file), StatusIs(absl::StatusCode::kDataLoss, ::testing::_)) << bit;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_OK(ParseEntry(file));
}

TEST(EntryFileTest, RefusesEveryCut) {
  const std::string file = FileOf(Kind::kArtifact, "a key", "a payload");
  for (size_t size = 0; size < file.size(); ++size) {
    // A copy of that size, so that a read beyond it is seen by ASan.
    const std::string cut = file.substr(0, size);
    ASSERT_THAT(ParseEntry(cut), StatusIs(absl::StatusCode::kDataLoss, ::testing::_)) << size;
    ASSERT_THAT(ParseHead(cut), StatusIs(absl::StatusCode::kDataLoss, ::testing::_)) << size;
  }
}

TEST(EntryFileTest, RefusesWhatIsAppended) {
  const std::string file = FileOf(Kind::kArtifact, "a key", "a payload");
  EXPECT_THAT(ParseHead(file + '\0'),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("10 bytes of payload")));
}

TEST(EntryFileTest, SaysWhatIsWrong) {
  const std::string good = FileOf(Kind::kArtifact, "a key", "a payload");
  EXPECT_THAT(ParseEntry(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("at 0 bytes")));
  EXPECT_THAT(ParseEntry(std::string(4096, 'x')),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a cache entry")));
  std::string newer = good;
  newer[8] = 2;
  EXPECT_THAT(ParseEntry(newer), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of format 2")));
  std::string long_key = good;
  long_key[23] = '\x7f';
  EXPECT_THAT(ParseEntry(long_key), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("key")));
  std::string other_payload = good;
  other_payload.back() = '!';
  EXPECT_OK(ParseHead(other_payload));
  EXPECT_THAT(ParseEntry(other_payload),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the payload does not fit")));
}

TEST(EntryFileTest, RefusesAKindThatIsUnknownThoughTheChecksumFits) {
  const std::string file = FileOf(static_cast<Kind>(4), "a key", "a payload");
  EXPECT_THAT(ParseEntry(file), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of kind 4")));
}

}  // namespace
}  // namespace latentd::cache
