// Scripts that complete what is typed of `latent` in a shell, from the tables of its options.
#pragma once

#include <string>
#include <vector>

#include "client/commands/command_shape.h"

namespace latentd::client {

// Each is one function or list of its shell, which knows the commands, their verbs, their options
// and the values of those that have a list, and completes files where an option takes one.
std::string BashCompletion(const std::vector<CommandShape>& commands);
std::string ZshCompletion(const std::vector<CommandShape>& commands);
std::string FishCompletion(const std::vector<CommandShape>& commands);

}  // namespace latentd::client
