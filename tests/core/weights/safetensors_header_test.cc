#include "core/weights/containers/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace latentd::weights {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::string WithMetadata(const std::string& metadata) {
  return absl::StrCat(R"({"__metadata__":)", metadata,
                      R"(,"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})");
}

TEST(SafetensorsHeaderTest, HandsOutTheMetadata) {
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsHeader header,
      ParseSafetensorsHeader(
          WithMetadata(R"({"modelspec.architecture":"stable-diffusion-xl-v1-base","format":"pt"})"),
          "x"));
  EXPECT_THAT(header.metadata,
              UnorderedElementsAre(Pair("modelspec.architecture", "stable-diffusion-xl-v1-base"),
                                   Pair("format", "pt")));
  EXPECT_THAT(header.entries, SizeIs(1));
}

TEST(SafetensorsHeaderTest, HasNoneWhereTheFileHasNone) {
  for (const char* metadata : {"{}", "null"}) {
    ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header,
                         ParseSafetensorsHeader(WithMetadata(metadata), "x"));
    EXPECT_THAT(header.metadata, IsEmpty());
  }
}

// As the safetensors package has it.
TEST(SafetensorsHeaderTest, OfAKeyThatComesTwiceTheLastValueCounts) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header,
                       ParseSafetensorsHeader(WithMetadata(R"({"a":"b","a":"c"})"), "x"));
  EXPECT_THAT(header.metadata, UnorderedElementsAre(Pair("a", "c")));
}

TEST(SafetensorsHeaderTest, LeavesLongValuesOut) {
  const std::string longest(kMaxMetadataValueBytes, 'x');
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsHeader header,
      ParseSafetensorsHeader(WithMetadata(absl::StrCat(R"({"thumbnail":")", longest, R"(y","a":")",
                                                       longest, R"(","b":"c"})")),
                             "x"));
  EXPECT_THAT(header.metadata, UnorderedElementsAre(Pair("a", longest), Pair("b", "c")));
}

// Without it a LoRA would have another scale.
TEST(SafetensorsHeaderTest, KeepsTheConfigurationOfALoraOrRefusesTheFile) {
  const auto parse = [](size_t bytes) {
    return ParseSafetensorsHeader(
        WithMetadata(absl::StrCat(R"({"lora_adapter_metadata":")", std::string(bytes, 'x'),
                                  R"(","a":")", std::string(100, 'y'), R"("})")),
        "x");
  };
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, parse(kMaxMetadataBytes * 2));
  EXPECT_EQ(header.metadata.at("lora_adapter_metadata").size(), kMaxMetadataBytes * 2);
  EXPECT_TRUE(header.metadata.contains("a"));
  EXPECT_OK(parse(kMaxLoraConfigBytes));
  EXPECT_THAT(parse(kMaxLoraConfigBytes + 1),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::HasSubstr("lora_adapter_metadata")));
}

TEST(SafetensorsHeaderTest, BoundsAllOfIt) {
  std::string metadata = "{";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&metadata, i == 0 ? "" : ",", "\"", 1000 + i, "\":\"", std::string(1020, 'x'),
                    "\"");
  }
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header,
                       ParseSafetensorsHeader(WithMetadata(metadata + "}"), "x"));
  EXPECT_THAT(header.metadata, SizeIs(kMaxMetadataBytes / 1024));
  EXPECT_TRUE(header.metadata.contains("1000"));
  EXPECT_FALSE(header.metadata.contains("1999"));
}

}  // namespace
}  // namespace latentd::weights
