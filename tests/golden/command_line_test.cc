#include "tests/golden/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<Options> Parse(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseCommandLine(pointers);
}

TEST(CommandLine, TakesValuesAfterASpaceOrAnEqualsSign) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      Parse({"--cases", "a", "--checkpoint=b", "--backend=reference", "--full", "--only=tokens"}));
  EXPECT_EQ(options.cases, "a");
  EXPECT_EQ(options.checkpoint, "b");
  EXPECT_EQ(options.backend, "reference");
  EXPECT_TRUE(options.full);
  EXPECT_THAT(options.only, ElementsAre("tokens"));
}

TEST(CommandLine, RunsEverythingButWholeNetworksByDefault) {
  ASSERT_OK_AND_ASSIGN(const Options options, Parse({"--cases=a", "--checkpoint=b"}));
  EXPECT_THAT(options.only, ElementsAre("networks", "pictures", "tokens", "videos"));
  EXPECT_FALSE(options.full);
  EXPECT_THAT(options.skip_passes, IsEmpty());
  EXPECT_TRUE(options.Selects("star"));
}

TEST(CommandLine, SkipsAsManyPassesAsAreNamed) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      Parse({"--cases=a", "--only=networks", "--skip-pass=epilogues", "--skip-pass", "dead_code"}));
  EXPECT_THAT(options.skip_passes, ElementsAre("dead_code", "epilogues"));
}

TEST(CommandLine, TakesAPrecision) {
  ASSERT_OK_AND_ASSIGN(const Options plain, Parse({"--cases=a", "--only=networks"}));
  EXPECT_EQ(plain.precision, device::DType::kF32);
  ASSERT_OK_AND_ASSIGN(const Options low,
                       Parse({"--cases=a", "--only=networks", "--precision=bf16"}));
  EXPECT_EQ(low.precision, device::DType::kBF16);
  EXPECT_TRUE(low.IsInBf16());
  ASSERT_OK_AND_ASSIGN(const Options eight,
                       Parse({"--cases=a", "--only=networks", "--precision=fp8"}));
  EXPECT_EQ(eight.precision, device::DType::kF8E4M3);
  EXPECT_FALSE(eight.f8_convolutions);
  ASSERT_OK_AND_ASSIGN(const Options all,
                       Parse({"--cases=a", "--only=networks", "--precision=fp8_all"}));
  EXPECT_EQ(all.precision, device::DType::kF8E4M3);
  EXPECT_TRUE(all.f8_convolutions);
  EXPECT_TRUE(eight.IsInBf16());
  EXPECT_THAT(Parse({"--cases=a", "--precision=fp4"}),
              StatusIs(kInvalid, HasSubstr("fp32, bf16, fp16, fp8, fp8_all, tf32")));
}

TEST(CommandLine, Tf32IsFloat32OnAGpuAndNotExact) {
  ASSERT_OK_AND_ASSIGN(const Options tf32, Parse({"--cases=a", "--only=networks",
                                                  "--precision=tf32", "--backend=cuda"}));
  EXPECT_EQ(tf32.precision, device::DType::kF32);
  EXPECT_TRUE(tf32.tf32);
  EXPECT_FALSE(tf32.IsExact());
  ASSERT_OK_AND_ASSIGN(const Options plain, Parse({"--cases=a", "--only=networks"}));
  EXPECT_TRUE(plain.IsExact());
  EXPECT_THAT(Parse({"--cases=a", "--only=networks", "--precision=tf32"}),
              StatusIs(kInvalid, HasSubstr("--backend cuda")));
}

TEST(CommandLine, NamesWhatIsWrong) {
  EXPECT_THAT(Parse({"--cases=a", "--checkpoint=b", "--speed=9"}),
              StatusIs(kInvalid, HasSubstr("--speed")));
  EXPECT_THAT(Parse({"--cases=a", "--checkpoint=b", "--backend=tpu"}),
              StatusIs(kInvalid, HasSubstr("tpu")));
  EXPECT_THAT(Parse({"--cases=a", "--checkpoint=b", "--only=music"}),
              StatusIs(kInvalid, HasSubstr("music")));
  EXPECT_THAT(Parse({"--checkpoint=b", "--cases"}),
              StatusIs(kInvalid, HasSubstr("--cases needs a value")));
}

TEST(CommandLine, NeedsTheCheckpointForPicturesAndTokensOnly) {
  EXPECT_THAT(Parse({"--cases=a"}), StatusIs(kInvalid, HasSubstr("--checkpoint is missing")));
  EXPECT_OK(Parse({"--cases=a", "--only=networks"}));
}

}  // namespace
}  // namespace latentd::golden
