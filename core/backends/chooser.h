// How a backend comes by the kernels of a graph's shapes: while it makes a plan, each is found or
// chosen, and written down; while it reads one, each is looked up there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/findings.h"

namespace latentd::backends {

// Choices by shape, for all shapes of a graph: part of its plan.
using Choices = std::map<std::string, std::string>;

// A choice, as bytes, and what choosing it took. One that is not `lasting` was made without looking
// closely, and is good for one plan: the next that has the shape chooses again.
struct Choice {
  std::string bytes;
  std::optional<KernelWork> work = std::nullopt;
  bool lasting = true;
};

// Thread-safe: of threads that ask for one shape, one chooses.
class Chooser {
 public:
  static Chooser Choosing(Findings& findings, Choices& made) { return {&findings, made}; }
  static Chooser LookingUp(Choices& given) { return {nullptr, given}; }

  // Returns the result of `load` for the shape's choice: a StatusOr, from a string. `choose` gives
  // StatusOr<Choice>; it is asked too where `load` refuses a finding, so that no useless finding
  // stays. INVALID_ARGUMENT: the plan has no choice for the shape.
  template <typename Choose, typename Load>
  auto Get(const std::string& shape, const Choose& choose, const Load& load) const
      -> decltype(load(std::string())) {
    if (const std::optional<std::string> known = Known(shape)) return load(*known);
    if (findings_ == nullptr) return Missing(shape);
    const Findings::Turn turn = findings_->WaitForTurn(shape);
    if (const std::optional<std::string> known = Known(shape)) return load(*known);
    if (const std::optional<std::string> found = findings_->Find(shape)) {
      auto loaded = load(*found);
      if (loaded.ok()) Note(shape, *found);
      if (!IsRefusal(loaded.status())) return loaded;
      findings_->Refuse(shape, *found, loaded.status());
    }
    absl::StatusOr<Choice> chosen = choose();
    if (!chosen.ok()) return std::move(chosen).status();
    const std::string choice = Keep(shape, *std::move(chosen));
    auto loaded = load(choice);
    if (loaded.ok()) Note(shape, choice);
    return loaded;
  }

 private:
  Chooser(Findings* findings, Choices& choices) : findings_(findings), choices_(choices) {}
  static absl::Status Missing(const std::string& shape);
  // True if the choice is at fault, not a machine that had no memory or has failed.
  static bool IsRefusal(const absl::Status& loaded);
  std::optional<std::string> Known(const std::string& shape) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const std::string& shape, const std::string& choice) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps the choice as a finding; returns the one that counts now.
  std::string Keep(const std::string& shape, Choice chosen) const;

  Findings* const findings_;  // null: looking up
  mutable absl::Mutex mutex_;
  Choices& choices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::backends
