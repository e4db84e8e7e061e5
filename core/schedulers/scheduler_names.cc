#include "core/schedulers/scheduler_names.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/text/edit_distance.h"
#include "core/base/text/text.h"
#include "core/schedulers/config.h"

namespace latentd::schedulers {
namespace {

// The web UI's grid that is the sampler's own choice.
constexpr absl::string_view kAutomatic = "automatic";

// True if `name` is one of `names`, which have a space between two.
bool Names(absl::string_view names, absl::string_view name) {
  for (const absl::string_view each : absl::StrSplit(names, ' ', absl::SkipEmpty())) {
    if (each == name) return true;
  }
  return false;
}

bool IsClass(const SchedulerRow& row, absl::string_view name) {
  const std::string own = NormalName(row.scheduler->class_name);
  return !own.empty() && (name == own || name == absl::StripSuffix(own, "scheduler"));
}

std::optional<SchedulerChoice> FindWhole(absl::string_view name) {
  for (const SchedulerRow& row : SchedulerTable()) {
    if (row.name == name || Names(row.aliases, name)) return SchedulerChoice{&row};
  }
  for (const SchedulerRow& row : SchedulerTable()) {
    if (IsClass(row, name)) return SchedulerChoice{&row, nullptr, /*by_class=*/true};
  }
  return std::nullopt;
}

const GridRow* FindGrid(absl::string_view name) {
  for (const GridRow& row : GridTable()) {
    if (row.name == name || Names(row.aliases, name)) return &row;
  }
  return nullptr;
}

// How other programs' names of functions begin.
absl::string_view WithoutPrefix(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "sample_")) absl::ConsumePrefix(&name, "k_");
  return name;
}

// A name in two parts, at one of its underscores.
struct Parts {
  absl::string_view scheduler;
  absl::string_view grid;
};

std::vector<Parts> PartsOf(absl::string_view name) {
  std::vector<Parts> parts;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '_') parts.push_back({name.substr(0, i), name.substr(i + 1)});
  }
  return parts;
}

std::optional<SchedulerChoice> Find(absl::string_view name) {
  if (const auto whole = FindWhole(name)) return whole;
  for (const Parts& parts : PartsOf(name)) {
    auto choice = FindWhole(parts.scheduler);
    if (!choice) continue;
    choice->grid = FindGrid(parts.grid == kAutomatic ? choice->row->grid : parts.grid);
    if (choice->grid != nullptr) return choice;
    if (parts.grid == kAutomatic) return choice;
  }
  return std::nullopt;
}

// Why there is no such scheduler, or no such grid behind one; empty: it is not known.
absl::string_view WhyRefused(absl::string_view name) {
  for (const RefusedRow& row : RefusedSchedulers()) {
    if (Names(row.names, name)) return row.why;
    for (const Parts& parts : PartsOf(name)) {
      if (Names(row.names, parts.scheduler) && FindGrid(parts.grid) != nullptr) return row.why;
    }
  }
  for (const RefusedRow& row : RefusedGrids()) {
    for (const Parts& parts : PartsOf(name)) {
      if (FindWhole(parts.scheduler) && Names(row.names, parts.grid)) return row.why;
    }
  }
  return "";
}

// The scheduler's part of a name that ends in a grid.
Parts SplitGrid(absl::string_view name) {
  for (const Parts& parts : PartsOf(name)) {
    if (FindGrid(parts.grid) != nullptr) return parts;
  }
  return {name, ""};
}

// Up to three short names whose own or other spelling is most like it, the nearest first.
std::string Nearest(absl::string_view name) {
  constexpr size_t kMost = 3;
  const Parts typed = SplitGrid(name);
  std::vector<std::pair<size_t, std::string>> near;
  for (const SchedulerRow& row : SchedulerTable()) {
    std::vector<std::string> spellings = absl::StrSplit(row.aliases, ' ', absl::SkipEmpty());
    spellings.emplace_back(row.name);
    spellings.push_back(NormalName(row.scheduler->class_name));
    size_t least = std::max<size_t>(1, typed.scheduler.size() / 3) + 1;
    for (const std::string& spelling : spellings) {
      if (!spelling.empty()) least = std::min(least, EditDistance(typed.scheduler, spelling));
    }
    if (least > std::max<size_t>(1, typed.scheduler.size() / 3)) continue;
    near.emplace_back(least, absl::StrCat(row.name, typed.grid.empty() ? "" : "_", typed.grid));
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(std::min(near.size(), kMost));
  return absl::StrJoin(near, " or ",
                       [](std::string* text, const auto& each) { text->append(each.second); });
}

absl::Status Unknown(absl::string_view given, absl::string_view name) {
  std::vector<absl::string_view> grids;
  for (const GridRow& row : GridTable()) grids.push_back(row.name);
  const absl::string_view why = WhyRefused(name);
  const std::string near = why.empty() ? Nearest(name) : "";
  return absl::InvalidArgumentError(absl::StrCat(
      why.empty() ? "unknown scheduler " : "there is no scheduler ", Excerpt(given),
      why.empty() ? "" : " here: ", why, near.empty() ? "" : ": did you mean ", near,
      near.empty() ? "" : "?", "; supported are ", absl::StrJoin(SupportedSchedulers(), ", "),
      ", and behind most of them one of ", absl::StrJoin(grids, ", ")));
}

}  // namespace

std::string NormalName(absl::string_view name) {
  std::string text = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"++", "pp"}});
  for (char& c : text) {
    if (absl::string_view(" -/:,()+").find(c) != absl::string_view::npos) c = '_';
  }
  const std::vector<absl::string_view> words = absl::StrSplit(text, '_', absl::SkipEmpty());
  return absl::StrJoin(words, "_");
}

absl::StatusOr<SchedulerChoice> ChooseByName(absl::string_view name) {
  const std::string normal = NormalName(name);
  std::optional<SchedulerChoice> choice = Find(normal);
  if (!choice) choice = Find(WithoutPrefix(normal));
  if (!choice) return Unknown(name, WithoutPrefix(normal));
  if (choice->grid != nullptr && choice->row->scheduler->has_own_grid) {
    return absl::InvalidArgumentError(absl::StrCat(choice->row->name,
                                                   " has a grid of its own, and takes no ",
                                                   choice->grid->name, " behind it"));
  }
  return *choice;
}

}  // namespace latentd::schedulers
