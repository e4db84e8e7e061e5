#include "server/process/lifetime/health.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "core/engine/api/serving.h"

namespace latentd::server::process {
namespace {

// Reasons quote what files and drivers say, which may take several lines.
std::string OneLine(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\r", " "}, {"\n", " "}});
}

std::string Explain(const engine::ServerStatus& status) {
  switch (status.state) {
    case engine::State::kLoading:
      return "loading";
    case engine::State::kWarming:
      return absl::StrCat("warming: ", status.graphs_done, " of ", status.graphs_total, " graphs");
    case engine::State::kDraining:
      return "draining";
    case engine::State::kFailed:
      return absl::StrCat("failed: ", status.reason);
    case engine::State::kReady:
    case engine::State::kDegraded:
      break;
  }
  return absl::StrCat("no bucket is ready: ", status.reason);
}

std::string Explain(const engine::OverdueUnit& unit) {
  return absl::StrCat("a unit of work hangs: it has run for ", absl::FormatDuration(unit.running),
                      ", and ", absl::FormatDuration(unit.limit), " is the limit");
}

std::string Explain(const OverdueThread& thread) {
  return absl::StrCat("the thread ", thread.name, " hangs: ", thread.activity, " for ",
                      absl::FormatDuration(thread.running), ", and ",
                      absl::FormatDuration(thread.limit), " is the limit");
}

std::string Explain(const engine::Hangs& hangs) {
  if (hangs.unit.has_value()) return Explain(*hangs.unit);
  return hangs.threads.empty() ? "" : Explain(hangs.threads.front());
}

}  // namespace

std::string Health::WhyNotAlive() const {
  {
    absl::MutexLock lock(&mutex_);
    if (!fault_.empty()) return fault_;
  }
  return Explain(find_hangs_());
}

std::string Health::WhyNotReady() const {
  absl::MutexLock lock(&mutex_);
  return draining_ ? "draining" : why_not_ready_;
}

void Health::Follow(const engine::ServerStatus& status) {
  std::string why_not = engine::CanServe(status) ? "" : OneLine(Explain(status));
  absl::MutexLock lock(&mutex_);
  why_not_ready_ = std::move(why_not);
  if (!status.device_fault.empty()) {
    fault_ = absl::StrCat("the device has failed: ", OneLine(status.device_fault));
  }
}

void Health::BeginDrain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

}  // namespace latentd::server::process
