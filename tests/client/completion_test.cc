#include "client/commands/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "client/commands/commands.h"

namespace latentd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<CommandShape> All() {
  std::vector<CommandShape> shapes;
  for (const Command& command : Commands()) shapes.push_back(command.shape());
  return shapes;
}

void ForEachOption(const std::vector<CommandShape>& shapes,
                   const std::function<void(const Option&)>& visit) {
  for (const CommandShape& shape : shapes) {
    for (const Option& option : shape.options) visit(option);
    ForEachOption(shape.verbs, visit);
  }
}

TEST(CompletionTest, EveryShellKnowsEveryOptionAndChoice) {
  const std::string bash = BashCompletion(All()), zsh = ZshCompletion(All()),
                    fish = FishCompletion(All());
  int options = 0;
  ForEachOption(All(), [&](const Option& option) {
    ++options;
    EXPECT_THAT(bash, HasSubstr(absl::StrCat("--", option.name)));
    EXPECT_THAT(zsh, HasSubstr(absl::StrCat("--", option.name, option.value.empty() ? "[" : "=[")));
    EXPECT_THAT(fish, HasSubstr(absl::StrCat(" -l ", option.name, " ")));
    for (const std::string& script : {bash, zsh, fish}) {
      for (const std::string& choice : option.choices)
        EXPECT_THAT(script, HasSubstr(choice)) << option.name;
    }
  });
  EXPECT_GT(options, 100);
}

TEST(CompletionTest, VerbsHaveOptionsOfTheirOwn) {
  const CommandShape shape{
      "top", "", {}, {}, {{"one", "first", {{"alpha", "FILE", "a", nullptr}}}}};
  EXPECT_THAT(BashCompletion({shape}),
              HasSubstr("\"top one\") COMPREPLY=($(compgen -W \"--alpha\""));
  EXPECT_THAT(BashCompletion({shape}), HasSubstr("\"top one --alpha\") compopt -o default"));
  EXPECT_THAT(ZshCompletion({shape}), HasSubstr("'--alpha=[a]:FILE:_files'"));
  EXPECT_THAT(FishCompletion({shape}),
              HasSubstr("-n '__fish_seen_subcommand_from top; and __fish_seen_subcommand_from one' "
                        "-l alpha -r -F"));
}

TEST(CompletionTest, HelpIsQuoted) {
  const CommandShape shape{"one", "", {{"alpha", "", "it's [here]: two\nlines", nullptr}}};
  EXPECT_THAT(ZshCompletion({shape}), HasSubstr("'--alpha[it'\\''s \\[here\\]\\: two]'"));
  EXPECT_THAT(FishCompletion({shape}), HasSubstr("-d 'it'\\''s [here]: two'\n"));
  EXPECT_THAT(ZshCompletion({shape}), Not(HasSubstr("lines")));
}

// Two options of a command with one letter: the second would never be found.
TEST(CompletionTest, LettersAreOfOneOptionEach) {
  const std::function<void(const CommandShape&)> check = [&](const CommandShape& shape) {
    std::string letters;
    for (const Option& option : shape.options) {
      if (option.letter == '\0') continue;
      EXPECT_EQ(letters.find(option.letter), std::string::npos)
          << shape.name << " -" << option.letter;
      letters += option.letter;
    }
    for (const CommandShape& verb : shape.verbs) check(verb);
  };
  for (const CommandShape& shape : All()) check(shape);
}

}  // namespace
}  // namespace latentd::client
