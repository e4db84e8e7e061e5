// The parsers behind ParsePrompt, a file for each syntax.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/text.h"
#include "core/prompts/parse.h"

namespace latentd::prompts {

absl::StatusOr<std::vector<Piece>> ParseA1111(absl::string_view text);
absl::StatusOr<std::vector<Piece>> ParseComfyUi(absl::string_view text);
absl::StatusOr<std::vector<Piece>> ParseCompel(absl::string_view text);

inline absl::Status NestedTooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("nests more than ", kMaxNesting, " brackets in each other"));
}

// `found`: the text that asks for it.
inline absl::Status Refused(absl::string_view found, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("has \"", Excerpt(found), "\": ", why));
}

}  // namespace latentd::prompts
