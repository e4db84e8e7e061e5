#include "core/engine/models/adapter_watch.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace latentd::engine {

void AdapterWatch::TellProblems() {
  if (!warn_) return;
  std::vector<std::string> news;
  {
    absl::MutexLock lock(&mutex_);
    std::set<std::string> problems;
    for (const pipeline::AdapterFacts& facts : catalogue_.List()) {
      if (facts.is_served()) continue;
      std::string text =
          absl::StrCat("the adapter ", facts.name, " is not served: ", facts.problem);
      if (!told_.contains(text)) news.push_back(text);
      problems.insert(std::move(text));
    }
    told_ = std::move(problems);
  }
  for (const std::string& text : news) warn_(text);
}

void AdapterWatch::LookIfDue() {
  const absl::Time now = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  if (now < next_ || waits_) return;
  next_ = now + kPeriod;
  thread_.Add([this] { Look(); });
  waits_ = true;
}

void AdapterWatch::Look() {
  const absl::Status looked = catalogue_.Look();
  if (!looked.ok() && warn_) {
    warn_(absl::StrCat("--adapters: what was found before counts: ", looked.message()));
  }
  catalogue_.ReadDigests(kBytesOfLook);
  TellProblems();
  absl::MutexLock lock(&mutex_);
  waits_ = false;
}

}  // namespace latentd::engine
