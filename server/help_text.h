// What --help prints.
#pragma once

#include <string>

namespace latentd::server {

std::string HelpText();

}  // namespace latentd::server
