#include "client/commands/completion.h"

#include <functional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace latentd::client {
namespace {

bool TakesFile(const Option& option) { return option.value == "FILE"; }

std::string LetterOf(const Option& option) { return std::string(1, option.letter); }

// Half a sentence: the first line of its help.
std::string HelpOf(const Option& option) { return option.help.substr(0, option.help.find('\n')); }

// Calls `visit` with each command and each verb, and what is typed for it: "graphs list".
void ForEach(const std::vector<CommandShape>& commands,
             const std::function<void(const std::string&, const CommandShape&)>& visit) {
  for (const CommandShape& command : commands) {
    visit(command.name, command);
    for (const CommandShape& verb : command.verbs) {
      visit(absl::StrCat(command.name, " ", verb.name), verb);
    }
  }
}

std::vector<std::string> NamesOf(const std::vector<CommandShape>& commands) {
  std::vector<std::string> names;
  for (const CommandShape& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> WordsOf(const CommandShape& command) {
  std::vector<std::string> words = command.words;
  absl::c_copy(NamesOf(command.verbs), std::back_inserter(words));
  return words;
}

std::string BashWords(const std::vector<std::string>& words) {
  return absl::StrCat("COMPREPLY=($(compgen -W \"", absl::StrJoin(words, " "), "\" -- \"$word\"))");
}

// A case that matches behind an option which takes a value.
std::string BashValue(const std::string& command, const Option& option) {
  std::string pattern = absl::StrCat("\"", command, " --", option.name, "\"");
  if (option.letter != '\0') {
    absl::StrAppend(&pattern, " | \"", command, " -", LetterOf(option), "\"");
  }
  const std::string values = TakesFile(option)         ? "compopt -o default"
                             : !option.choices.empty() ? BashWords(option.choices)
                                                       : ":";
  return absl::StrCat("    ", pattern, ") ", values, "; return ;;\n");
}

std::string BashOptions(const std::string& command, const CommandShape& shape) {
  std::vector<std::string> words = WordsOf(shape);
  for (const Option& option : shape.options) words.push_back(absl::StrCat("--", option.name));
  return absl::StrCat("    \"", command, "\") ", BashWords(words), " ;;\n");
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshOption(const Option& option) {
  std::string action;
  if (!option.value.empty()) {
    const std::string values = TakesFile(option) ? "_files"
                               : option.choices.empty()
                                   ? ""
                                   : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
    action = absl::StrCat(":", ZshText(option.value), ":", values);
  }
  const std::string help = absl::StrCat("[", ZshText(HelpOf(option)), "]", action, "'");
  const std::string many = option.repeats ? "*" : "";
  const std::string equals = option.value.empty() ? "" : "=";
  std::string lines = absl::StrCat("'", many, "--", option.name, equals, help);
  if (option.letter != '\0') {
    absl::StrAppend(&lines, " '-", LetterOf(option), option.value.empty() ? "" : "+", help);
  }
  return lines;
}

std::string ZshNames(const std::vector<CommandShape>& commands) {
  std::vector<std::string> rows;
  for (const CommandShape& command : commands) {
    rows.push_back(absl::StrCat("'", command.name, ":", ZshText(command.summary), "'"));
  }
  return absl::StrJoin(rows, " ");
}

std::string ZshCommand(const CommandShape& shape) {
  std::string specs;
  for (const Option& option : shape.options) {
    absl::StrAppend(&specs, " \\\n        ", ZshOption(option));
  }
  const std::string words = shape.words.empty()
                                ? "'*: :_files'"
                                : absl::StrCat("'*: :(", absl::StrJoin(shape.words, " "), ")'");
  return absl::StrCat("_arguments -s -S", specs, " \\\n        ", words);
}

// "about the command of this name, and not yet about one of its verbs"
std::string FishBehind(const std::vector<std::string>& command, const CommandShape& shape) {
  std::string condition = absl::StrCat(
      "__fish_seen_subcommand_from ", absl::StrJoin(command, "; and __fish_seen_subcommand_from "));
  if (shape.verbs.empty()) return condition;
  return absl::StrCat(condition, "; and not __fish_seen_subcommand_from ",
                      absl::StrJoin(NamesOf(shape.verbs), " "));
}

std::string FishOption(const std::string& condition, const Option& option) {
  std::string line = absl::StrCat("complete -c latent -n ", Quoted(condition), " -l ", option.name);
  if (option.letter != '\0') absl::StrAppend(&line, " -s ", LetterOf(option));
  if (TakesFile(option)) {
    absl::StrAppend(&line, " -r -F");
  } else if (!option.value.empty()) {
    absl::StrAppend(&line, " -x");
    if (!option.choices.empty()) {
      absl::StrAppend(&line, " -a ", Quoted(absl::StrJoin(option.choices, " ")));
    }
  }
  return absl::StrCat(line, " -d ", Quoted(HelpOf(option)), "\n");
}

std::string FishCommand(const std::vector<std::string>& command, const CommandShape& shape) {
  const std::string condition = FishBehind(command, shape);
  std::string lines;
  for (const CommandShape& verb : shape.verbs) {
    absl::StrAppend(&lines, "complete -c latent -n ", Quoted(condition), " -a ", verb.name, " -d ",
                    Quoted(verb.summary), "\n");
  }
  if (!shape.words.empty()) {
    absl::StrAppend(&lines, "complete -c latent -n ", Quoted(condition), " -a ",
                    Quoted(absl::StrJoin(shape.words, " ")), "\n");
  }
  for (const Option& option : shape.options) absl::StrAppend(&lines, FishOption(condition, option));
  for (const CommandShape& verb : shape.verbs) {
    std::vector<std::string> behind = command;
    behind.push_back(verb.name);
    absl::StrAppend(&lines, FishCommand(behind, verb));
  }
  return lines;
}

}  // namespace

std::string BashCompletion(const std::vector<CommandShape>& commands) {
  std::string values, options, groups;
  ForEach(commands, [&](const std::string& typed, const CommandShape& shape) {
    for (const Option& option : shape.options) {
      if (!option.value.empty()) absl::StrAppend(&values, BashValue(typed, option));
    }
    absl::StrAppend(&options, BashOptions(typed, shape));
    if (shape.verbs.empty()) return;
    absl::StrAppend(&groups, "    ", typed, ") [ \"$COMP_CWORD\" -lt 3 ] || command=\"", typed,
                    " ${COMP_WORDS[2]}\" ;;\n");
  });
  return absl::StrCat(R"(# Completes `latent` in bash: source <(latent completion bash)
_latent() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  # Of --name=VALUE bash makes three words.
  if [ "$word" = "=" ]; then word=; elif [ "$before" = "=" ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [ "$COMP_CWORD" -lt 2 ]; then
    )",
                      BashWords(NamesOf(commands)), "\n    return\n  fi\n  case $command in\n",
                      groups, "  esac\n  case \"$command $before\" in\n", values,
                      "  esac\n  case $command in\n", options,
                      "  esac\n}\ncomplete -F _latent latent\n");
}

std::string ZshCompletion(const std::vector<CommandShape>& commands) {
  std::string cases;
  for (const CommandShape& command : commands) {
    if (command.verbs.empty()) {
      absl::StrAppend(&cases, "    ", command.name, ") ", ZshCommand(command), " ;;\n");
      continue;
    }
    absl::StrAppend(&cases, "    ", command.name, ")\n      if (( CURRENT == 2 )); then\n",
                    "        names=(", ZshNames(command.verbs),
                    ")\n        _describe verb names\n        return\n      fi\n",
                    "      shift words\n      (( CURRENT-- ))\n      case $words[1] in\n");
    for (const CommandShape& verb : command.verbs) {
      absl::StrAppend(&cases, "      ", verb.name, ") ", ZshCommand(verb), " ;;\n");
    }
    absl::StrAppend(&cases, "      esac ;;\n");
  }
  return absl::StrCat(R"(#compdef latent
# Completes `latent` in zsh: source <(latent completion zsh), behind compinit; or put it into a folder
# of $fpath as _latent.
_latent() {
  local -a names
  if (( CURRENT == 2 )); then
    names=()",
                      ZshNames(commands), R"()
    _describe command names
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
)",
                      cases, R"(  esac
}
if [ "$funcstack[1]" = _latent ]; then _latent "$@"; else compdef _latent latent; fi
)");
}

std::string FishCompletion(const std::vector<CommandShape>& commands) {
  std::string lines =
      "# Completes `latent` in fish: latent completion fish | source\ncomplete -c latent -f\n";
  for (const CommandShape& command : commands) {
    absl::StrAppend(&lines, "complete -c latent -n __fish_use_subcommand -a ", command.name, " -d ",
                    Quoted(command.summary), "\n");
  }
  for (const CommandShape& command : commands) {
    absl::StrAppend(&lines, FishCommand({command.name}, command));
  }
  return lines;
}

}  // namespace latentd::client
