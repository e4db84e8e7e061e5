// Command-line options as a table: parsed, described and completed from the same rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace latentd::client {

// --name VALUE or --name=VALUE; a switch (empty `value`) is --name, --name=true or --name=false.
// With a letter also -o VALUE or -oVALUE, and switches together: -qf.
struct Option {
  std::string name;
  std::string value;  // the value's name in --help: "N", "FILE"
  std::string help;   // lines
  // Takes the text; a switch gets "true" or "false". The status's message is put behind the
  // option's name.
  std::function<absl::Status(const std::string&)> apply;
  bool repeats = false;                   // may be given several times, and each counts
  char letter = '\0';                     // its short form; none: '\0'
  std::vector<std::string> choices = {};  // the values that there are, where they can be listed
};

// The option with a short form.
Option WithLetter(char letter, Option option);

// One that takes one of these words, however they are spelled (client/words/suggestions.h).
Option ChoiceOption(std::string name, std::string value, std::string help,
                    std::vector<std::string> choices, std::function<void(const std::string&)> take);

// Rows under a heading of --help.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

// Applies the options in order and returns the other arguments; those after "--" are never options.
// INVALID_ARGUMENT names the option that is wrong, one that is given twice with other values, too,
// and the one that may have been meant.
absl::StatusOr<std::vector<std::string>> ParseArguments(const std::vector<OptionGroup>& groups,
                                                        const std::vector<std::string>& arguments);

// The options part of --help.
std::string DescribeOptions(const std::vector<OptionGroup>& groups);

// For rows of the table.
std::function<absl::Status(const std::string&)> SetString(std::string& target);
std::function<absl::Status(const std::string&)> SetSwitch(bool& target);
// As CheckAddress (client/options/address.h).
std::function<absl::Status(const std::string&)> SetAddress(std::string& target);
// As ParseDurationText (core/base/text/duration_text.h); positive.
std::function<absl::Status(const std::string&)> SetDuration(absl::Duration& target);

}  // namespace latentd::client
