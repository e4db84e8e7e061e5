// The output of --help.
#pragma once

#include <string>

namespace latentd::server::config {

std::string HelpText();

}  // namespace latentd::server::config
