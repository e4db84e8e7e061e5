#include "core/compiler/graph_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace latentd::compiler {
namespace {

TEST(GraphLabel, SaysWhatAGraphIsFor) {
  EXPECT_EQ((GraphLabel{"base", "unet", "step", 256, 320, 2}).ToText(),
            "base unet step 256x320 rows 2");
  EXPECT_EQ((GraphLabel{"base", "text_encoder"}).ToText(), "base text_encoder rows 1");
  EXPECT_EQ((GraphLabel{"base", "vae_decoder", "", 64, 64, 1, true}).ToText(),
            "base vae_decoder 64x64 rows 1 fallback");
  EXPECT_EQ(
      (GraphLabel{"video", "vae_decoder", "", 64, 32, 1, false, device::DType::kF32, 7}).ToText(),
      "video vae_decoder 64x32x7 rows 1");
  EXPECT_EQ((GraphLabel{.component = "text_encoder", .dtype = device::DType::kBF16}).ToText(),
            "text_encoder rows 1 bf16");
}

TEST(GraphLabel, ReadsItsOwnText) {
  for (const GraphLabel& label :
       {GraphLabel{"base", "unet", "step", 256, 320, 2}, GraphLabel{"refiner", "unet", "request"},
        GraphLabel{"base", "text_encoder"}, GraphLabel{"base", "vae_decoder", "", 64, 64, 1, true},
        GraphLabel{"base", "vae_encoder", "", 64, 64, 1, false, device::DType::kF16},
        GraphLabel{"base", "unet", "step", 64, 64, 2, false, device::DType::kF8E4M3},
        GraphLabel{"base", "unet", "step_2_chunks_32_ranks_shallow_controlled", 64, 64, 2},
        GraphLabel{"base", "unet", std::string(96, 'p'), 64, 64, 2},
        GraphLabel{"video", "unet", "step", 64, 64, 2, false, device::DType::kBF16, 25}}) {
    EXPECT_EQ(GraphLabel::FromText(label.ToText()), label) << label.ToText();
  }
}

// The text comes out of files that any user may have written.
TEST(GraphLabel, ReadsNothingElse) {
  for (const char* text : {"",
                           " ",
                           "rows",
                           "rows 1",
                           "base unet",
                           "unet rows 1",
                           "base unet rows",
                           "base unet rows x",
                           "base unet step step rows 1",
                           "base unet step 1x2x3x4 rows 1",
                           "base unet step 1x2x1 rows 1",
                           "base unet step 1x2x rows 1",
                           "base unet 12xabc rows 1",
                           "base unet rows 1 fallback fallback",
                           "base unet rows 1 f32",
                           "base unet rows 1 i64",
                           "base unet rows 1 bf16 fallback",
                           "base unet rows 1 bf16 bf16",
                           "base unet rows 1 ",
                           " unet rows 1",
                           "base unet rows 01",
                           "Unet rows 1",
                           "une\nt rows 1",
                           "base unet rows 99999999999999999999",
                           "a_name_of_more_than_thirty_two_letters rows 1"}) {
    EXPECT_EQ(GraphLabel::FromText(text), std::nullopt) << text;
  }
  EXPECT_EQ(GraphLabel::FromText("base unet " + std::string(97, 'p') + " rows 1"), std::nullopt);
  EXPECT_EQ(GraphLabel::FromText(std::string(33, 'b') + " unet rows 1"), std::nullopt);
  EXPECT_EQ(GraphLabel::FromText("base " + std::string(33, 'u') + " rows 1"), std::nullopt);
}

}  // namespace
}  // namespace latentd::compiler
