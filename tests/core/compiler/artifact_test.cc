#include "core/compiler/artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/cache/entry_file.h"
#include "core/graph/text.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

Artifact Sample() {
  Artifact artifact;
  artifact.key = KeyOf(SiluGraph(4), FakeBackend(), {});
  artifact.label.model = "base";
  artifact.label.component = "part";
  artifact.graph = std::make_shared<const graph::Graph>(SiluGraph(4));
  artifact.plan = {std::string("plan\0bytes", 10),
                   700,
                   80,
                   {{.recipe = 3, .form = "packed", .bytes = 9, .scratch_bytes = 5},
                    {.recipe = 300, .form = "", .bytes = size_t{1} << 40}}};
  artifact.compile_time = absl::Milliseconds(1500);
  return artifact;
}

void ExpectEqual(const Artifact& actual, const Artifact& wanted) {
  EXPECT_EQ(actual.key, wanted.key);
  EXPECT_EQ(actual.label, wanted.label);
  EXPECT_EQ(ToText(*actual.graph), ToText(*wanted.graph));
  EXPECT_EQ(actual.plan, wanted.plan);
  EXPECT_EQ(actual.compile_time, wanted.compile_time);
}

TEST(Artifact, GivesBackItsPartsAndItsBytes) {
  Artifact bare = Sample();
  bare.plan = {};
  bare.compile_time = absl::ZeroDuration();
  for (const Artifact& artifact : {Sample(), bare}) {
    const std::string file = WriteArtifact(artifact);
    ASSERT_OK_AND_ASSIGN(const ArtifactPointer parsed, ParseArtifact(file));
    ExpectEqual(*parsed, artifact);
    EXPECT_EQ(WriteArtifact(*parsed), file);
    EXPECT_GT(MemoryBytes(artifact), artifact.plan.bytes.size());
  }
}

// The layout that artifact.h documents, byte by byte.
TEST(Artifact, HasTheDocumentedLayout) {
  Artifact artifact = Sample();
  artifact.plan = {"PPPP", 0x102, 3, {{.recipe = 7, .form = "FF", .bytes = 5, .scratch_bytes = 6}}};
  artifact.compile_time = absl::Microseconds(0x203);
  const std::string graph = ToText(*artifact.graph);
  ASSERT_LT(graph.size(), 256u);
  const std::string payload = WritePayload(artifact);
  EXPECT_EQ(payload, std::string("latentgr"
                                 "\4\0\0\0"
                                 "\20\0\0\0",
                                 16) +
                         static_cast<char>(graph.size()) + std::string(7, '\0') +
                         std::string("\4\0\0\0\0\0\0\0"
                                     "\3\2\0\0\0\0\0\0"
                                     "\2\1\0\0\0\0\0\0"
                                     "\3\0\0\0\0\0\0\0"
                                     "\1\0\0\0"
                                     "\7\0\0\0"
                                     "\2\0\0\0"
                                     "\5\0\0\0\0\0\0\0"
                                     "\6\0\0\0\0\0\0\0"
                                     "FF",
                                     62) +
                         "base part rows 1" + graph + "PPPP");
  EXPECT_EQ(WriteArtifact(artifact),
            cache::EncodeHead(cache::Kind::kArtifact, artifact.key.ToText(), payload) + payload);
}

TEST(Artifact, SaysWhatItIsWithoutItsGraph) {
  ASSERT_OK_AND_ASSIGN(const PayloadHead head, ParsePayloadHead(WritePayload(Sample())));
  EXPECT_EQ(head.label->component, "part");
  EXPECT_EQ(head.compile_time, absl::Milliseconds(1500));
}

TEST(Artifact, AnyChangedBitOfAFileIsDamage) {
  const std::string file = WriteArtifact(Sample());
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    EXPECT_THAT(ParseArtifact(changed), StatusIs(absl::StatusCode::kDataLoss, _)) << "byte " << i;
  }
}

TEST(Artifact, AnyCutOrExtensionIsDamage) {
  const std::string file = WriteArtifact(Sample());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(ParseArtifact(absl::string_view(file).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss, _))
        << size;
  }
  EXPECT_THAT(ParseArtifact(file + '\0'), StatusIs(absl::StatusCode::kDataLoss, _));
  EXPECT_THAT(ParseArtifact(file + file), StatusIs(absl::StatusCode::kDataLoss, _));
}

// The checksum is right: an attacker who writes a file can write that too.
TEST(Artifact, AnyCutOrExtensionOfAPayloadIsDamage) {
  const std::string payload = WritePayload(Sample());
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_THAT(ParsePayload(Sample().key, payload.substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss, _))
        << size;
  }
  EXPECT_THAT(ParsePayload(Sample().key, payload + '\0'),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("do not add up")));
}

TEST(Artifact, LengthsAndCountsThatOverflowAreDamage) {
  const std::string payload = WritePayload(Sample());
  for (const auto& [from, to] :
       std::vector<std::pair<size_t, size_t>>{{12, 16}, {16, 24}, {24, 32}, {56, 60}, {64, 68}}) {
    std::string changed = payload;
    for (size_t i = from; i < to; ++i) changed[i] = '\xff';
    EXPECT_THAT(ParsePayload(Sample().key, changed),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("do not add up")))
        << from;
  }
}

TEST(Artifact, NoiseIsDamage) {
  std::mt19937 random(9);
  for (int round = 0; round < 1000; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (round % 2 == 0 && noise.size() >= 12)
      noise.replace(0, 12, std::string("latentgr\4\0\0\0", 12));
    EXPECT_THAT(ParseArtifact(noise), StatusIs(absl::StatusCode::kDataLoss, _));
    EXPECT_THAT(ParsePayload(Sample().key, noise), StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

TEST(Artifact, AGraphThatIsNoneIsDamage) {
  std::string payload = WritePayload(Sample());
  payload.replace(payload.find("latentd graph"), 5, "noise");
  EXPECT_THAT(ParsePayload(Sample().key, payload),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("its graph")));
}

TEST(Artifact, AnotherFormatIsNamedAndNoDamage) {
  std::string payload = WritePayload(Sample());
  payload[8] = 2;
  const auto is_named =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("format 2 of artifacts"));
  EXPECT_THAT(ParsePayload(Sample().key, payload), is_named);
  EXPECT_THAT(ParsePayloadHead(payload), is_named);
}

TEST(Artifact, AnEntryOfAnotherKindIsDamage) {
  const std::string payload = WritePayload(Sample());
  const std::string key = Sample().key.ToText();
  EXPECT_THAT(ParseArtifact(cache::EncodeHead(cache::Kind::kPackedWeight, key, payload) + payload),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another kind")));
}

TEST(Artifact, OtherPortsAreDamage) {
  EXPECT_OK(CheckSamePorts(SiluGraph(4), SiluGraph(4)));
  EXPECT_THAT(CheckSamePorts(SiluGraph(4), SiluGraph(5)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inputs or outputs")));
}

}  // namespace
}  // namespace latentd::compiler
