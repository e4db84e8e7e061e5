#include "client/words/suggestions.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "core/base/text/edit_distance.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

struct ForeignName {
  const char* name;
  const char* option;    // option of a command
  const char* say = "";  // empty: --option
};

constexpr char kPositional[] = "PROMPT, which stands by itself: latent generate \"a red star\"";

// Names of options in other tools that draw, or that call servers.
constexpr ForeignName kForeignOptions[] = {
    {"steps", "num-inference-steps"},
    {"step", "num-inference-steps"},
    {"num-steps", "num-inference-steps"},
    {"sample-steps", "num-inference-steps"},
    {"sampling-steps", "num-inference-steps"},
    {"ddim-steps", "num-inference-steps"},
    {"size", "width", "--width and --height"},
    {"resolution", "width", "--width and --height"},
    {"W", "width"},
    {"H", "height"},
    {"negative", "negative-prompt"},
    {"neg", "negative-prompt"},
    {"neg-prompt", "negative-prompt"},
    {"cfg", "guidance-scale"},
    {"cfg-scale", "guidance-scale"},
    {"guidance", "guidance-scale"},
    {"scale", "guidance-scale"},
    {"sampler", "scheduler"},
    {"sampler-name", "scheduler"},
    {"sampling-method", "scheduler"},
    {"denoising-strength", "strength"},
    {"denoise", "strength"},
    {"batch", "num-images-per-prompt"},
    {"batch-size", "num-images-per-prompt"},
    {"batch-count", "num-images-per-prompt"},
    {"count", "num-images-per-prompt"},
    {"num-images", "num-images-per-prompt"},
    {"n-iter", "num-images-per-prompt"},
    {"n-samples", "num-images-per-prompt"},
    {"init", "image"},
    {"init-image", "image"},
    {"init-img", "image"},
    {"input", "image"},
    {"mask-image", "mask"},
    {"inpaint-mask", "mask"},
    {"i", "image"},
    {"out", "output"},
    {"outdir", "output"},
    {"output-dir", "output"},
    {"file", "output"},
    {"filename", "output"},
    {"overwrite", "force"},
    {"f", "force"},
    {"silent", "quiet"},
    {"deadline", "timeout"},
    {"max-time", "timeout"},
    {"t", "timeout"},
    {"prompts", "prompt-file"},
    {"prompts-file", "prompt-file"},
    {"from-file", "prompt-file"},
    {"prompt", "prompt-file", kPositional},
    {"p", "prompt-file", kPositional},
    {"checkpoint", "model", "--base of latentd, whose checkpoint it is"},
    {"ckpt", "model", "--base of latentd, whose checkpoint it is"},
    {"base", "model", "--base of latentd, whose checkpoint it is"},
    {"lora", "adapter", "--adapter, by its name below latentd's --adapters"},
    {"loras", "adapter", "--adapter, by its name below latentd's --adapters"},
    {"host", "server"},
    {"address", "server"},
    {"addr", "server"},
    {"url", "server"},
    {"endpoint", "server"},
    {"port", "server"},
    {"ca", "tls-ca"},
    {"cacert", "tls-ca"},
    {"cert", "tls-cert"},
    {"key", "tls-key"},
    {"size", "bucket"},
    {"watch", "wait"},
    {"follow", "watch"},
    {"f", "watch"},
    {"w", "watch"},
    {"v", "version"},
};

// The words of other tools for our commands.
constexpr ForeignName kForeignCommands[] = {
    {"draw", "generate"},
    {"txt2img", "generate"},
    {"img2img", "generate"},
    {"paint", "generate"},
    {"create", "generate"},
    {"image", "generate"},
    {"run", "generate"},
    {"info", "capabilities"},
    {"schedulers", "capabilities"},
    {"ping", "health"},
    {"ready", "health"},
    {"cache", "graphs"},
    {"completions", "completion"},
};

std::string Normal(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

// The shortest of those that begin so.
std::string Beginning(absl::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  for (const std::string& name : known) {
    if (!absl::StartsWith(name, typed)) continue;
    if (best.empty() || name.size() < best.size()) best = name;
  }
  return best;
}

std::string MostAlike(absl::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  size_t least = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = EditDistance(typed, Normal(name));
    if (distance >= std::min(least, name.size())) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::string HavingWord(absl::string_view typed, const std::vector<std::string>& known) {
  for (const std::string& name : known) {
    for (const absl::string_view word : absl::StrSplit(Normal(name), absl::ByAnyChar("-_"))) {
      if (word == typed) return name;
    }
  }
  return "";
}

const ForeignName* FindForeign(absl::string_view typed, absl::Span<const ForeignName> names,
                               const std::vector<std::string>& known) {
  for (const ForeignName& foreign : names) {
    if (typed == foreign.name && absl::c_linear_search(known, foreign.option)) return &foreign;
  }
  return nullptr;
}

}  // namespace

std::string NearestName(absl::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kFewestLetters = 2;  // fewer letters are like any name
  const std::string name = Normal(typed);
  if (name.size() < kFewestLetters) return "";
  for (const auto& find : {&Beginning, &MostAlike, &HavingWord}) {
    if (std::string found = find(name, known); !found.empty()) return found;
  }
  return "";
}

std::string NearestOption(absl::string_view typed, const std::vector<std::string>& known) {
  const bool is_letter = typed.size() == 1;
  const std::string name = is_letter ? std::string(typed) : Normal(typed);
  const ForeignName* foreign = FindForeign(name, kForeignOptions, known);
  if (foreign != nullptr && *foreign->say != '\0') return foreign->say;
  const std::string near = foreign != nullptr ? foreign->option : NearestName(name, known);
  return near.empty() ? "" : absl::StrCat("--", near);
}

bool IsForeignOption(absl::string_view name) {
  return name.size() > 1 && absl::c_any_of(kForeignOptions, [name](const ForeignName& foreign) {
           return name == foreign.name;
         });
}

std::string NearestCommand(absl::string_view typed, const std::vector<std::string>& known) {
  const ForeignName* foreign = FindForeign(Normal(typed), kForeignCommands, known);
  return foreign != nullptr ? foreign->option : NearestName(typed, known);
}

std::string DidYouMean(absl::string_view meant) {
  return meant.empty() ? "" : absl::StrCat(": did you mean ", meant, "?");
}

absl::StatusOr<std::string> ToChoice(const std::string& text,
                                     const std::vector<std::string>& choices) {
  const auto found = absl::c_find_if(
      choices, [&](const std::string& each) { return Normal(each) == Normal(text); });
  if (found != choices.end()) return *found;
  const std::vector<std::string> but_last(choices.begin(), choices.end() - 1);
  return absl::InvalidArgumentError(absl::StrCat("must be ", absl::StrJoin(but_last, ", "), " or ",
                                                 choices.back(), ", not '", Excerpt(text), "'",
                                                 DidYouMean(NearestName(text, choices))));
}

}  // namespace latentd::client
