// Guesses of what was meant by a name that is none. Each thing has one name here: those that other
// tools give it are not taken, and the error says ours.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::client {

// The known one that is spelled most alike: it begins so, differs in few letters, or has it as one
// of its words ("karras": "use-karras-sigmas"). Case, - and _ make no difference. Empty: none does.
std::string NearestName(absl::string_view typed, const std::vector<std::string>& known);

// For an option without its dashes, where a command has these: "--num-inference-steps" for "steps",
// "--width and --height" for "size". Empty: nothing is near.
std::string NearestOption(absl::string_view typed, const std::vector<std::string>& known);

// True if other tools have an option of this name, of more than one letter.
bool IsForeignOption(absl::string_view name);

// The same as NearestOption for a command: "generate" for "txt2img".
std::string NearestCommand(absl::string_view typed, const std::vector<std::string>& known);

// ": did you mean --seed?"; empty where there is nothing to say.
std::string DidYouMean(absl::string_view meant);

// The choice that `text` names, whatever its case and with - for _. INVALID_ARGUMENT lists them,
// and says which is near.
absl::StatusOr<std::string> ToChoice(const std::string& text,
                                     const std::vector<std::string>& choices);

}  // namespace latentd::client
