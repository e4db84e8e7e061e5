#include "core/pipeline/spec/request/block_scale.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace latentd::pipeline {

bool IsBlockName(absl::string_view block) {
  if (block == "down" || block == "mid" || block == "up") return true;
  if (!absl::ConsumePrefix(&block, "down.block_") && !absl::ConsumePrefix(&block, "up.block_")) {
    return false;
  }
  const bool is_number =
      absl::c_all_of(block, [](unsigned char c) { return absl::ascii_isdigit(c); });
  return is_number && !block.empty() && block.size() <= 2 && (block == "0" || block[0] != '0');
}

std::string TextOf(absl::Span<const BlockScale> scales) {
  return absl::StrJoin(scales, "+", [](std::string* out, const BlockScale& scale) {
    absl::StrAppend(out, scale.block, "=", absl::StrJoin(scale.values, "/"));
  });
}

}  // namespace latentd::pipeline
