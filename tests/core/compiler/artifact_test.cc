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

std::string Sample() { return WriteArtifact({"key text\n", "graph text\n", "plan\0bytes"}); }

TEST(Artifact, GivesBackItsParts) {
  for (const Artifact& parts :
       {Artifact{"key", "graph", "plan"}, Artifact{"", "", ""}, Artifact{"k", "", "p"}}) {
    const std::string bytes = WriteArtifact(parts);
    ASSERT_OK_AND_ASSIGN(const Artifact parsed, ParseArtifact(bytes));
    EXPECT_EQ(parsed.key, parts.key);
    EXPECT_EQ(parsed.graph, parts.graph);
    EXPECT_EQ(parsed.plan, parts.plan);
  }
}

// The layout that artifact.h documents, byte by byte.
TEST(Artifact, HasTheDocumentedLayout) {
  const std::string bytes = WriteArtifact({"K", "GG", "PPP"});
  ASSERT_EQ(bytes.size(), 48u + 6);
  EXPECT_EQ(bytes.substr(0, 8), "latentgr");
  EXPECT_EQ(bytes.substr(8, 24), std::string("\1\0\0\0"
                                             "\1\0\0\0"
                                             "\2\0\0\0\0\0\0\0"
                                             "\3\0\0\0\0\0\0\0",
                                             24));
  EXPECT_EQ(bytes.substr(48), "KGGPPP");
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
  for (size_t i = 16; i < 32; ++i) bytes[i] = '\xff';
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
  bytes[8] = 2;
  EXPECT_THAT(ParseArtifact(bytes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("format 2, this program reads 1")));
}

}  // namespace
}  // namespace latentd::compiler
