// Scales by block as factors of a UNet's modules. The demo's UNet has transformers in
// down_blocks.1 and 2 (one each, of one and two layers), in the middle, and in up_blocks.0 and 1
// (two each).
#include "core/pipeline/plan/block_scales.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/core/pipeline/ip_adapter_folder.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Scales = std::vector<BlockScale>;

class BlockScalesTest : public ::testing::Test {
 protected:
  std::vector<double> Attentions(const Scales& scales) {
    const auto factors = AttentionScales(IpAdapterFolder::Unet(), scales, "scales", warnings_);
    EXPECT_OK(factors);
    return factors.value_or(std::vector<double>());
  }
  std::string Refusal(const Scales& scales) {
    const auto factors = AttentionScales(IpAdapterFolder::Unet(), scales, "scales", warnings_);
    std::string text;
    for (const FieldViolation& violation : GetFieldViolations(factors.status())) {
      absl::StrAppend(&text, violation.field, ": ", violation.description, "\n");
    }
    return text;
  }

  std::vector<std::string> warnings_;
};

// In the order of an evaluation: down 1, twice down 2, twice the middle, then up.
TEST_F(BlockScalesTest, AreThoseOfEachLayersTransformer) {
  EXPECT_THAT(Attentions({{"up.block_0", {0, 0.5}}}),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0));
  EXPECT_THAT(Attentions({{"down.block_2", {2}}, {"mid", {3}}, {"up", {4}}}),
              ElementsAre(0, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(Attentions({{"down", {-1}}}), ElementsAre(-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(warnings_, IsEmpty());
}

// The order of the list counts for nothing.
TEST_F(BlockScalesTest, OfABlockCountBeforeThoseOfItsSide) {
  const BlockScale side{"up", {4, 5}}, block{"up.block_1", {6}};
  const auto wanted = ElementsAre(0, 0, 0, 0, 0, 4, 4, 5, 5, 6, 6);
  EXPECT_THAT(Attentions({side, block}), wanted);
  EXPECT_THAT(Attentions({block, side}), wanted);
}

TEST_F(BlockScalesTest, OfNoBlockOfTheUnetAreRefused) {
  EXPECT_EQ(Refusal({{"mid", {1}}, {"down.block_3", {1}}}),
            "scales[1].block: the model's UNet has no block down.block_3; those with attention to "
            "text are down.block_1 (1 transformer), down.block_2 (1 transformer), mid (1 "
            "transformer), up.block_0 (2 transformers), up.block_1 (2 transformers)\n");
  EXPECT_EQ(Refusal({{"up.block_1", {1, 2, 3}}}),
            "scales[0].values: must be one number, or 2 for the transformers of up.block_1, are "
            "3\n");
  EXPECT_THAT(Refusal({{"down", {1, 2}}}), HasSubstr("transformers of down.block_1, are 2"));
  EXPECT_THAT(Refusal({{"mid", {1, 2}}, {"up.block_9", {1}}}), HasSubstr("scales[1].block"));
  EXPECT_THAT(warnings_, IsEmpty());
}

// As diffusers passes over them.
TEST_F(BlockScalesTest, OfABlockWithoutAttentionHaveNoEffect) {
  EXPECT_THAT(Attentions({{"down.block_0", {1, 2, 3}}, {"mid", {1}}}),
              ElementsAre(0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("scales[0] has no effect: down.block_0")));
}

TEST(BlockNames, AreThoseOfDiffusersTrees) {
  for (const char* name : {"down", "mid", "up", "down.block_0", "up.block_12"}) {
    EXPECT_TRUE(IsBlockName(name)) << name;
  }
  for (const char* name : {"", "mid.block_0", "up.block_", "up.block_x", "up.block_01",
                           "up_block_0", "up.block_0.1", "down_blocks.1", "up.block_123", "Up"}) {
    EXPECT_FALSE(IsBlockName(name)) << name;
  }
  EXPECT_EQ(TextOf({{"up.block_0", {0, 0.5}}, {"mid", {-1}}}), "up.block_0=0/0.5+mid=-1");
}

}  // namespace
}  // namespace latentd::pipeline
