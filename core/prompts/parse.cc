#include "core/prompts/parse.h"

#include "core/prompts/syntaxes.h"

namespace latentd::prompts {

absl::string_view NameOf(Syntax syntax) {
  switch (syntax) {
    case Syntax::kNone:
      break;
    case Syntax::kA1111:
      return "A1111";
    case Syntax::kComfyUi:
      return "ComfyUI";
    case Syntax::kCompel:
      return "Compel";
  }
  return "none";
}

absl::StatusOr<std::vector<Piece>> ParsePrompt(absl::string_view text, Syntax syntax) {
  switch (syntax) {
    case Syntax::kNone:
      break;
    case Syntax::kA1111:
      return ParseA1111(text);
    case Syntax::kComfyUi:
      return ParseComfyUi(text);
    case Syntax::kCompel:
      return ParseCompel(text);
  }
  return std::vector<Piece>{{std::string(text)}};
}

}  // namespace latentd::prompts
