// The token cases: what transformers' CLIPTokenizer makes of texts.
#pragma once

#include "tests/golden/command_line.h"
#include "tests/golden/report.h"

namespace latentd::golden {

// tokens/demo.json with the checkpoint's tokenizer, and tokens/clip.json with CLIP's own
// vocabulary. The distance is how many texts have other ids, or another number of dropped tokens; a
// case passes iff it is 0.
void RunTokenCases(const Options& options, Report& report);

}  // namespace latentd::golden
