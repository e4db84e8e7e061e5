// The options and words of a command, for completion.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/options/arguments.h"

namespace latentd::client {

struct CommandShape {
  std::string name;
  std::string summary;                   // half a sentence
  std::vector<Option> options;           // `apply` is empty: what it would set has gone
  std::vector<std::string> words = {};   // words that may stand behind the name
  std::vector<CommandShape> verbs = {};  // commands of its own, as `latent graphs` has
};

// The options as they are when the command runs.
inline std::vector<Option> WithoutTargets(std::vector<OptionGroup> groups) {
  std::vector<Option> options;
  for (OptionGroup& group : groups) {
    for (Option& option : group.options) {
      option.apply = nullptr;
      options.push_back(std::move(option));
    }
  }
  return options;
}

}  // namespace latentd::client
