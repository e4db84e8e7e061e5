// The options that all commands have, and the errors that all of them print.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "client/options/connection.h"
#include "client/output/error_text.h"
#include "client/rpc/retry.h"

namespace latentd::client {

Option ServerOption(Connection& connection);
// The same of operators' commands, whose default is another.
Option AdminServerOption(Connection& connection);
Option HelpOption(Connection& connection);
Option JsonOption(bool& json);

// Sets how often a call is tried again: 0 or more.
std::function<absl::Status(const std::string&)> SetRetries(RetryPolicy& retries);

// Prints what is wrong and where help is.
ExitCode UsageError(const absl::Status& status, const std::string& command);

// The words among the arguments, when every option and the address are checked.
absl::StatusOr<std::vector<std::string>> ParseCommand(const std::vector<OptionGroup>& groups,
                                                      const std::vector<std::string>& arguments,
                                                      const Connection& connection);

// Prints what a failed call says. `connected`: whether the server had answered anything before.
ExitCode CallFailed(const grpc::Status& status, const Connection& connection, bool connected);

}  // namespace latentd::client
