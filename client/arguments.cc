#include "client/arguments.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace latentd::client {
namespace {

constexpr size_t kHelpColumn = 34;

absl::Status Wrong(absl::string_view option, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, ": ", message));
}

// gRPC takes a port that is too large modulo 65536, and a missing one to be 443.
bool IsAddress(absl::string_view text) {
  constexpr absl::string_view kUnix = "unix:";
  if (absl::StartsWith(text, kUnix)) return text.size() > kUnix.size();
  const size_t colon = text.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port >= 1 && port <= 65535;
}

const Option* Find(const std::vector<OptionGroup>& groups, absl::string_view name) {
  for (const OptionGroup& group : groups) {
    for (const Option& option : group.options) {
      if (option.name == name) return &option;
    }
  }
  return nullptr;
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
      const absl::Status applied = Apply(argument == "-h" ? "--help" : argument);
      if (!applied.ok()) return applied;
    }
    others_.insert(others_.end(), arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                   arguments_.end());
    return others_;
  }

 private:
  absl::Status Apply(const std::string& argument) {
    const size_t equals = argument.find('=');
    const size_t dashes = absl::StartsWith(argument, "--") ? 2 : 0;
    const std::string name =
        argument.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
    const Option* option = dashes == 2 ? Find(groups_, name) : nullptr;
    if (option == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no option ", argument.substr(0, equals)));
    }
    std::string value = equals == std::string::npos ? "true" : argument.substr(equals + 1);
    if (!option->value.empty() && equals == std::string::npos) {
      if (next_ == arguments_.size()) {
        return Wrong(name, absl::StrCat("needs a value, ", option->value));
      }
      value = arguments_[next_++];
    }
    absl::Status applied = CheckFirst(*option, value);
    if (applied.ok()) applied = option->apply(value);
    return applied.ok() ? applied : Wrong(name, applied.message());
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
  std::string left =
      absl::StrCat("  --", option.name, option.value.empty() ? "" : " ", option.value);
  for (const absl::string_view line : absl::StrSplit(option.help, '\n')) {
    left.resize(std::max(kHelpColumn, left.size() + 2), ' ');
    absl::StrAppend(&text, left, line, "\n");
    left.clear();
  }
}

}  // namespace

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
    if (IsAddress(text)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "must be HOST:PORT, with a port from 1 to 65535, or unix:PATH, not '", Excerpt(text), "'"));
  };
}

std::function<absl::Status(const std::string&)> SetDuration(absl::Duration& target) {
  return [&target](const std::string& text) {
    if (absl::ParseDuration(text, &target) && target > absl::ZeroDuration())
      return absl::OkStatus();
    return absl::InvalidArgumentError("must be a duration, such as 60s or 1m30s");
  };
}

}  // namespace latentd::client
