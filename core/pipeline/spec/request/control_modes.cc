#include "core/pipeline/spec/request/control_modes.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace latentd::pipeline {
namespace {

// In the order of the numbers, each the first of those that share one: hed is scribble too, canny
// any lines, and normal a map of normals.
constexpr absl::string_view kControlModes[] = {"openpose", "depth",   "hed",  "canny",
                                               "normal",   "segment", "tile", "repaint"};

}  // namespace

std::string NameOfControlMode(int mode) {
  const auto index = static_cast<size_t>(mode);
  return index < std::size(kControlModes) ? std::string(kControlModes[index]) : absl::StrCat(mode);
}

std::vector<std::string> NamesOfControlModes(int count) {
  std::vector<std::string> names;
  for (int mode = 0; mode < count; ++mode) names.push_back(NameOfControlMode(mode));
  return names;
}

std::string ControlModesText(int count) {
  std::vector<std::string> all;
  for (int mode = 0; mode < count; ++mode) {
    const std::string name = NameOfControlMode(mode);
    all.push_back(name == absl::StrCat(mode) ? name : absl::StrCat(mode, " (", name, ")"));
  }
  return absl::StrJoin(all, ", ");
}

}  // namespace latentd::pipeline
