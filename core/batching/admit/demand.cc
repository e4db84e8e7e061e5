#include "core/batching/admit/demand.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/algorithm/container.h"

namespace latentd::batching {
namespace {

// Callers that asked this lately share the device.
constexpr absl::Duration kActive = absl::Minutes(1);
constexpr size_t kMostCallers = 1024;
// Demand fades with this time constant: callers that begin to ask for much are known
// after seconds.
constexpr absl::Duration kFades = absl::Seconds(10);
constexpr absl::Duration kUnknownWork = kFades;  // as much as the device can do

double FadingOver(absl::Duration time) { return std::exp(-absl::FDivDuration(time, kFades)); }

}  // namespace

void Demand::Add(const std::string& caller, absl::Duration work, absl::Time now) {
  absl::erase_if(callers_, [&](const auto& other) { return other.second.last + kActive < now; });
  if (callers_.size() >= kMostCallers && !callers_.contains(caller)) return;
  Asked& asked = callers_.try_emplace(caller, Asked{.first = now, .last = now}).first->second;
  if (work == absl::ZeroDuration()) work = kUnknownWork;
  asked.work = asked.work * FadingOver(now - asked.last) + absl::ToDoubleSeconds(work);
  asked.last = now;
}

// Callers that ask for less than an equal part of what is left get what they ask for, the least
// first; the others share what is left then in equal parts.
double Demand::PartOf(const std::string& caller, absl::Time now) const {
  std::vector<double> others;
  for (const auto& [name, asked] : callers_) {
    if (name != caller) others.push_back(RateOf(asked, now));
  }
  absl::c_sort(others);
  double left = 1, sharing = static_cast<double>(others.size() + 1);
  for (const double rate : others) {
    if (rate >= left / sharing) break;
    left -= rate;
    --sharing;
  }
  return left / sharing;
}

// Over the time for which it is known; of a moment nothing can be said.
double Demand::RateOf(const Asked& asked, absl::Time now) {
  const double seconds = absl::ToDoubleSeconds(kFades) * (1 - FadingOver(now - asked.first));
  return asked.work * FadingOver(now - asked.last) / std::max(1.0, seconds);
}

}  // namespace latentd::batching
