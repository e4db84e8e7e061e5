#include "core/compiler/graph_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::compiler {
namespace {

TEST(GraphLabel, SaysWhatAGraphIsFor) {
  EXPECT_EQ((GraphLabel{"unet_base", "step", 256, 320, 2}).ToText(),
            "unet_base step 256x320 rows 2");
  EXPECT_EQ((GraphLabel{"text_encoder"}).ToText(), "text_encoder rows 1");
  EXPECT_EQ((GraphLabel{"vae_decoder", "", 64, 64, 1, true}).ToText(),
            "vae_decoder 64x64 rows 1 fallback");
  EXPECT_EQ((GraphLabel{.component = "text_encoder", .dtype = device::DType::kBF16}).ToText(),
            "text_encoder rows 1 bf16");
}

TEST(GraphLabel, ReadsItsOwnText) {
  for (const GraphLabel& label :
       {GraphLabel{"unet_base", "step", 256, 320, 2}, GraphLabel{"unet_base", "request"},
        GraphLabel{"text_encoder"}, GraphLabel{"vae_decoder", "", 64, 64, 1, true},
        GraphLabel{"vae_encoder", "", 64, 64, 1, false, device::DType::kF16}}) {
    EXPECT_EQ(GraphLabel::FromText(label.ToText()), label) << label.ToText();
  }
}

// The text comes out of files that any user may have written.
TEST(GraphLabel, ReadsNothingElse) {
  for (const char* text : {"",
                           " ",
                           "rows",
                           "rows 1",
                           "unet",
                           "unet rows",
                           "unet rows x",
                           "unet step step rows 1",
                           "unet step 1x2x3 rows 1",
                           "unet 12xabc rows 1",
                           "unet rows 1 fallback fallback",
                           "unet rows 1 f32",
                           "unet rows 1 i64",
                           "unet rows 1 bf16 fallback",
                           "unet rows 1 bf16 bf16",
                           "unet rows 1 ",
                           " unet rows 1",
                           "unet rows 01",
                           "Unet rows 1",
                           "une\nt rows 1",
                           "unet rows 99999999999999999999",
                           "a_name_of_more_than_thirty_two_letters rows 1"}) {
    EXPECT_EQ(GraphLabel::FromText(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace latentd::compiler
