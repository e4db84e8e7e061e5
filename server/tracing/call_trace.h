// The spans of one call: its own, and below it those of the work that the engine tells of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "server/tracing/span_sender.h"
#include "server/tracing/trace_parent.h"

namespace latentd::server::tracing {

// Not thread-safe.
class CallTrace {
 public:
  struct Call {
    std::string method;  // "GenerateStream"
    // True if the engine works for this call, and not for one before it.
    bool has_work = true;
    // Metadata "tracestate", which spans carry on where it is none too long; empty: none.
    std::string trace_state;
    std::string service = "latent.v1.ImageGeneration";
  };

  // Begins the trace of a call that arrives now: part of the caller's trace; without one, the
  // beginning of a trace of its own. Nothing where the caller does not record its trace.
  static std::optional<CallTrace> Begin(const std::optional<TraceParent>& parent, Call call,
                                        const Clock& clock);

  // As in TraceParent.
  std::string trace_id() const;

  // The size that is asked for, if it is.
  void NoteRequest(const engine::GenerateSpec& spec);
  void Note(const engine::Event& event, absl::Time came);

  struct End {
    std::string request_id;
    absl::StatusCode code = absl::StatusCode::kOk;  // as the client sees it
    std::string message;                            // why, where it is not OK
    absl::Time now;                                 // monotonic
  };
  // All of them, the call's first, each within it. REQUIRES: called once.
  std::vector<Span> Spans(const End& end) const;

 private:
  // Work of one name, image and model; the units of which it consists follow each other.
  struct Work {
    absl::string_view name;  // a literal
    int image;               // its index; kOfRequest: the whole request's
    std::string model;       // its name; empty: work of no model
    engine::Period period;
    int steps = 0;
    int split = 0;            // evaluations that two devices shared
    std::string device = {};  // the one that was at it; empty: the only one
  };
  static constexpr int kOfRequest = -1;

  CallTrace(const TraceParent& parent, Call call, const Clock& clock);

  void NoteProgress(const engine::Progress& progress);
  Work& Extend(absl::string_view name, int image, absl::string_view model,
               const engine::Period& period);
  Span MakeSpan(absl::string_view name, const engine::Period& period, absl::Time end) const;
  Span RootSpan(const End& end) const;
  Span WorkSpan(const Work& work, absl::Time end) const;

  const Call call_;
  const std::string trace_id_, parent_id_, span_id_;  // bytes
  const absl::Time arrived_;                          // monotonic
  const absl::Duration to_wall_;                      // from monotonic time
  bool queued_ = false;
  absl::Time started_ = absl::InfiniteFuture();
  std::vector<Work> work_;
  std::vector<int> steps_done_;  // by picture
  pipeline::Size size_;
  int images_ = 0, total_steps_ = 0;
};

}  // namespace latentd::server::tracing
