#include "tests/support/parts/suite_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <tuple>

namespace latentd::testing {
namespace {

// To make what a suite shares takes about as long as so many of its tests.
constexpr int kSetUpTests = 4;

}  // namespace

std::vector<std::string> SuitesOfPart(std::vector<Suite> suites, int part, int parts) {
  std::sort(suites.begin(), suites.end(), [](const Suite& a, const Suite& b) {
    return std::tie(b.tests, a.name) < std::tie(a.tests, b.name);
  });
  std::vector<int> work(static_cast<size_t>(parts));
  std::vector<std::string> own;
  for (const Suite& suite : suites) {
    const auto least = std::min_element(work.begin(), work.end());
    *least += suite.tests + kSetUpTests;
    if (least - work.begin() == part - 1) own.push_back(suite.name);
  }
  return own;
}

bool ReadPart(const std::string& text, int& part, int& parts) {
  char end = 0;
  return std::sscanf(text.c_str(), "%d/%d%c", &part, &parts, &end) == 2 && 1 <= part &&
         part <= parts;
}

std::string FilterOf(const std::vector<std::string>& suites, const std::string& filter) {
  const size_t minus = std::min(filter.find('-'), filter.size());
  const std::string chosen = filter.substr(0, minus);
  if (!chosen.empty() && chosen != "*") return filter;
  std::string all;
  for (const std::string& suite : suites) all += suite + ".*:";
  // An empty list would choose all.
  if (all.empty()) all = "none.none:";
  all.pop_back();
  return all + filter.substr(minus);
}

}  // namespace latentd::testing
