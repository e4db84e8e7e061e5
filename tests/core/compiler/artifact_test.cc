#include "core/compiler/artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

std::string Sample() {
  return WriteArtifact({"key text\n", "label", "graph text\n", absl::string_view("plan\0bytes", 10),
                        absl::Milliseconds(1500)});
}

TEST(Artifact, GivesBackItsParts) {
  for (const Artifact& parts : {Artifact{"key", "label", "graph", "plan", absl::Seconds(2)},
                                Artifact{"", "", "", "", absl::ZeroDuration()},
                                Artifact{"k", "", "g", "", absl::Microseconds(1)}}) {
    const std::string bytes = WriteArtifact(parts);
    ASSERT_OK_AND_ASSIGN(const Artifact parsed, ParseArtifact(bytes));
    EXPECT_EQ(parsed.key, parts.key);
    EXPECT_EQ(parsed.label, parts.label);
    EXPECT_EQ(parsed.graph, parts.graph);
    EXPECT_EQ(parsed.plan, parts.plan);
    EXPECT_EQ(parsed.compile_time, parts.compile_time);
  }
}

// The layout that artifact.h documents, byte by byte.
TEST(Artifact, HasTheDocumentedLayout) {
  const std::string bytes = WriteArtifact({"K", "LL", "GGG", "PPPP", absl::Microseconds(0x102)});
  ASSERT_EQ(bytes.size(), 64u + 10);
  EXPECT_EQ(bytes.substr(0, 8), "latentgr");
  EXPECT_EQ(bytes.substr(8, 40), std::string("\2\0\0\0"
                                             "\1\0\0\0"
                                             "\2\0\0\0\0\0\0\0"
                                             "\3\0\0\0\0\0\0\0"
                                             "\4\0\0\0\0\0\0\0"
                                             "\2\1\0\0\0\0\0\0",
                                             40));
  EXPECT_EQ(bytes.substr(64), "KLLGGGPPPP");
}

TEST(Artifact, AnyChangedBitIsDamage) {
  const std::string bytes = Sample();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_THAT(ParseArtifact(changed), StatusIs(absl::StatusCode::kDataLoss, _))
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(Artifact, AnyCutIsDamage) {
  const std::string bytes = Sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseArtifact(absl::string_view(bytes).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss, _))
        << size;
    EXPECT_THAT(ParseArtifact(absl::string_view(bytes).substr(bytes.size() - size)),
                StatusIs(absl::StatusCode::kDataLoss, _))
        << size;
  }
}

TEST(Artifact, AnyExtensionIsDamage) {
  EXPECT_THAT(ParseArtifact(Sample() + '\0'),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("do not add up")));
  EXPECT_THAT(ParseArtifact(Sample() + Sample()), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST(Artifact, LengthsThatOverflowAreDamage) {
  std::string bytes = Sample();
  for (size_t i = 16; i < 40; ++i) bytes[i] = '\xff';
  EXPECT_THAT(ParseArtifact(bytes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("do not add up")));
}

TEST(Artifact, NoiseIsDamage) {
  std::mt19937 random(9);
  for (int round = 0; round < 1000; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (round % 2 == 0 && noise.size() >= 8) noise.replace(0, 8, "latentgr");
    EXPECT_THAT(ParseArtifact(noise), StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

TEST(Artifact, AnotherFormatIsNamed) {
  std::string bytes = Sample();
  bytes[8] = 1;
  EXPECT_THAT(ParseArtifact(bytes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("format 1, this program reads 2")));
}

}  // namespace
}  // namespace latentd::compiler
