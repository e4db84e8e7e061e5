#include "client/options/arguments.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/options/address.h"
#include "client/words/suggestions.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/duration_text.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

constexpr size_t kHelpColumn = 34;

absl::Status Wrong(absl::string_view option, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, ": ", message));
}

template <typename Predicate>
const Option* FindIf(const std::vector<OptionGroup>& groups, const Predicate& is_wanted) {
  for (const OptionGroup& group : groups) {
    for (const Option& option : group.options) {
      if (is_wanted(option)) return &option;
    }
  }
  return nullptr;
}

const Option* Find(const std::vector<OptionGroup>& groups, absl::string_view name) {
  return FindIf(groups, [name](const Option& option) { return option.name == name; });
}

const Option* FindLetter(const std::vector<OptionGroup>& groups, char letter) {
  return FindIf(groups, [letter](const Option& option) { return option.letter == letter; });
}

// `argument` as it was typed, `name` without its dashes.
absl::Status NoOption(const std::vector<OptionGroup>& groups, absl::string_view argument,
                      absl::string_view name) {
  std::vector<std::string> known;
  for (const OptionGroup& group : groups) {
    for (const Option& option : group.options) known.push_back(option.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no option ", Excerpt(argument),
                                                 DidYouMean(NearestOption(name, known))));
}

// Reads the arguments one by one.
class Parser {
 public:
  Parser(const std::vector<OptionGroup>& groups, const std::vector<std::string>& arguments)
      : groups_(groups), arguments_(arguments) {}

  absl::StatusOr<std::vector<std::string>> Parse() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (argument == "--") break;
      if (!absl::StartsWith(argument, "-") || argument == "-") {
        others_.push_back(argument);
        continue;
      }
      const bool is_long = absl::StartsWith(argument, "--");
      RETURN_IF_ERROR(is_long ? Apply(argument) : ApplyLetters(argument));
    }
    others_.insert(others_.end(), arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                   arguments_.end());
    return others_;
  }

 private:
  absl::Status Apply(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Option* option = Find(groups_, name);
    if (option == nullptr) return NoOption(groups_, argument.substr(0, equals), name);
    if (equals != std::string::npos) return Give(*option, argument.substr(equals + 1));
    return option->value.empty() ? Give(*option, "true") : GiveNext(*option);
  }

  // "-o" with its value behind it, or switches together.
  absl::Status ApplyLetters(absl::string_view argument) {
    const absl::string_view name = argument.substr(1, argument.find('=') - 1);
    // With one dash too few it would be -o with the value "utput".
    if (IsForeignOption(name) || (name.size() > 1 && Find(groups_, name) != nullptr)) {
      return NoOption(groups_, absl::StrCat("-", name), name);
    }
    for (argument.remove_prefix(1); !argument.empty();) {
      const absl::string_view letter = argument.substr(0, 1);
      const Option* option = FindLetter(groups_, letter[0]);
      if (option == nullptr) return NoOption(groups_, absl::StrCat("-", letter), letter);
      argument.remove_prefix(1);
      if (!option->value.empty()) return GiveRest(*option, argument);
      RETURN_IF_ERROR(Give(*option, "true"));
    }
    return absl::OkStatus();
  }

  absl::Status GiveRest(const Option& option, absl::string_view rest) {
    if (rest.empty()) return GiveNext(option);
    absl::ConsumePrefix(&rest, "=");
    return Give(option, std::string(rest));
  }

  absl::Status GiveNext(const Option& option) {
    if (next_ < arguments_.size()) return Give(option, arguments_[next_++]);
    return Wrong(option.name, absl::StrCat("needs a value, ", option.value));
  }

  absl::Status Give(const Option& option, const std::string& value) {
    absl::Status applied = CheckFirst(option, value);
    if (applied.ok()) applied = option.apply(value);
    return applied.ok() ? applied : Wrong(option.name, applied.message());
  }

  // An option that is given again says the same.
  absl::Status CheckFirst(const Option& option, const std::string& value) {
    if (option.repeats) return absl::OkStatus();
    const auto [first, is_first] = given_.emplace(option.name, value);
    if (is_first || first->second == value) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("is given twice, as '", Excerpt(first->second),
                                                   "' and as '", Excerpt(value), "'"));
  }

  const std::vector<OptionGroup>& groups_;
  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
  std::vector<std::string> others_;
  std::map<std::string, std::string> given_;  // values, by option
};

void Describe(const Option& option, std::string& text) {
  const std::string letter =
      option.letter == '\0' ? "    " : absl::StrCat("-", std::string(1, option.letter), ", ");
  std::string left =
      absl::StrCat("  ", letter, "--", option.name, option.value.empty() ? "" : " ", option.value);
  for (const absl::string_view line : absl::StrSplit(option.help, '\n')) {
    left.resize(std::max(kHelpColumn, left.size() + 2), ' ');
    absl::StrAppend(&text, left, line, "\n");
    left.clear();
  }
}

}  // namespace

Option WithLetter(char letter, Option option) {
  option.letter = letter;
  return option;
}

Option ChoiceOption(std::string name, std::string value, std::string help,
                    std::vector<std::string> choices,
                    std::function<void(const std::string&)> take) {
  const auto apply = [choices, take = std::move(take)](const std::string& text) {
    ASSIGN_OR_RETURN(const std::string choice, ToChoice(text, choices));
    take(choice);
    return absl::OkStatus();
  };
  Option option = {std::move(name), std::move(value), std::move(help), apply};
  option.choices = std::move(choices);
  return option;
}

absl::StatusOr<std::vector<std::string>> ParseArguments(const std::vector<OptionGroup>& groups,
                                                        const std::vector<std::string>& arguments) {
  return Parser(groups, arguments).Parse();
}

std::string DescribeOptions(const std::vector<OptionGroup>& groups) {
  std::string text;
  for (const OptionGroup& group : groups) {
    absl::StrAppend(&text, "\n", group.title, "\n");
    for (const Option& option : group.options) Describe(option, text);
  }
  return text;
}

std::function<absl::Status(const std::string&)> SetString(std::string& target) {
  return [&target](const std::string& text) {
    target = text;
    return text.empty() ? absl::InvalidArgumentError("must not be empty") : absl::OkStatus();
  };
}

std::function<absl::Status(const std::string&)> SetSwitch(bool& target) {
  return [&target](const std::string& text) {
    if (text != "true" && text != "false") return absl::InvalidArgumentError("is true or false");
    target = text == "true";
    return absl::OkStatus();
  };
}

std::function<absl::Status(const std::string&)> SetAddress(std::string& target) {
  return [&target](const std::string& text) {
    target = text;
    return CheckAddress(text);
  };
}

std::function<absl::Status(const std::string&)> SetDuration(absl::Duration& target) {
  return [&target](const std::string& text) {
    const std::optional<absl::Duration> duration = ParseDurationText(text);
    target = duration.value_or(absl::ZeroDuration());
    if (target > absl::ZeroDuration()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "must be a duration, such as 60s, 1m30s or 60 (seconds), not '", Excerpt(text), "'"));
  };
}

}  // namespace latentd::client
