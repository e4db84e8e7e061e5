#include "server/tracing/call_trace.h"

#include <algorithm>
#include <random>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::server::tracing {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

constexpr size_t kTraceIdBytes = 16, kSpanIdBytes = 8;
// Length up to which the standard has it passed on; more may be dropped.
constexpr size_t kMaxTraceState = 512;
constexpr size_t kMaxMessageBytes = 256;
constexpr uint32_t kSampled = 1;

// Not all 0, which is no id.
std::string RandomId(size_t size) {
  std::random_device random;
  std::string id;
  while (id.find_first_not_of('\0') == id.npos) {
    id.clear();
    while (id.size() < size) id.push_back(static_cast<char>(random() & 0xFF));
  }
  return id;
}

std::string Kept(std::string trace_state) {
  const bool kept = trace_state.size() <= kMaxTraceState &&
                    std::all_of(trace_state.begin(), trace_state.end(),
                                [](unsigned char c) { return absl::ascii_isprint(c); });
  return kept ? std::move(trace_state) : "";
}

void Set(Span& span, absl::string_view key, absl::string_view value) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(std::string(key));
  attribute.mutable_value()->set_string_value(std::string(value));
}

void Set(Span& span, absl::string_view key, int64_t value) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(std::string(key));
  attribute.mutable_value()->set_int_value(value);
}

}  // namespace

std::optional<CallTrace> CallTrace::Begin(const std::optional<TraceParent>& parent, Call call,
                                          const Clock& clock) {
  if (parent && !parent->sampled) return std::nullopt;
  const TraceParent own = {absl::BytesToHexString(RandomId(kTraceIdBytes)), "", true};
  call.trace_state = parent ? Kept(std::move(call.trace_state)) : "";
  return CallTrace(parent.value_or(own), std::move(call), clock);
}

CallTrace::CallTrace(const TraceParent& parent, Call call, const Clock& clock)
    : call_(std::move(call)),
      trace_id_(absl::HexStringToBytes(parent.trace_id)),
      parent_id_(absl::HexStringToBytes(parent.parent_id)),
      span_id_(RandomId(kSpanIdBytes)),
      arrived_(clock.Monotonic()),
      to_wall_(clock.Wall() - arrived_) {}

std::string CallTrace::trace_id() const { return absl::BytesToHexString(trace_id_); }

void CallTrace::NoteRequest(const engine::GenerateSpec& spec) {
  if (spec.picture.width && spec.picture.height)
    size_ = {*spec.picture.width, *spec.picture.height};
}

void CallTrace::Note(const engine::Event& event, absl::Time came) {
  if (std::holds_alternative<engine::Queued>(event)) {
    queued_ = true;
  } else if (const auto* started = std::get_if<engine::Started>(&event)) {
    started_ = came;
    if (size_ == pipeline::Size()) size_ = started->executed_size;
  } else if (const auto* progress = std::get_if<engine::Progress>(&event)) {
    NoteProgress(*progress);
  } else if (const auto* image = std::get_if<engine::Image>(&event)) {
    images_ += image->count();
    Extend(engine::NameOf(engine::Stage::kEncodeFile), image->index, "", image->encoded);
  }
}

void CallTrace::NoteProgress(const engine::Progress& progress) {
  total_steps_ = progress.total_steps;
  if (!progress.worked) return;
  const bool of_request = progress.stage == engine::Stage::kText;
  const bool is_step = progress.stage == engine::Stage::kSteps;
  const int image = of_request ? kOfRequest : progress.image_index;
  Work& work = Extend(engine::NameOf(progress.stage), image,
                      of_request || is_step ? progress.model : "", *progress.worked);
  work.device = progress.device;
  if (!is_step) return;
  const auto picture = static_cast<size_t>(image);
  if (steps_done_.size() <= picture) steps_done_.resize(picture + 1);
  work.steps += progress.step - std::exchange(steps_done_[picture], progress.step);
  work.split += progress.is_split ? 1 : 0;
}

CallTrace::Work& CallTrace::Extend(absl::string_view name, int image, absl::string_view model,
                                   const engine::Period& period) {
  const auto same = std::find_if(work_.begin(), work_.end(), [&](const Work& work) {
    return work.name == name && work.image == image && work.model == model;
  });
  if (same == work_.end()) return work_.emplace_back(Work{name, image, std::string(model), period});
  same->period.end = std::max(same->period.end, period.end);
  return *same;
}

std::vector<Span> CallTrace::Spans(const End& end) const {
  std::vector<Span> spans = {RootSpan(end)};
  if (!call_.has_work) return spans;
  if (queued_) spans.push_back(MakeSpan("queue", {arrived_, std::min(started_, end.now)}, end.now));
  for (const Work& work : work_) spans.push_back(WorkSpan(work, end.now));
  return spans;
}

Span CallTrace::MakeSpan(absl::string_view name, const engine::Period& period,
                         absl::Time end) const {
  const absl::Time begin = std::clamp(period.begin, arrived_, end);
  Span span;
  span.set_trace_id(trace_id_);
  span.set_span_id(RandomId(kSpanIdBytes));
  span.set_parent_span_id(span_id_);
  span.set_trace_state(call_.trace_state);
  span.set_flags(kSampled);
  span.set_name(std::string(name));
  span.set_kind(Span::INTERNAL);
  span.set_start_time_unix_nano(absl::ToUnixNanos(begin + to_wall_));
  span.set_end_time_unix_nano(absl::ToUnixNanos(std::clamp(period.end, begin, end) + to_wall_));
  return span;
}

Span CallTrace::RootSpan(const End& end) const {
  Span span =
      MakeSpan(absl::StrCat(call_.service, "/", call_.method), {arrived_, end.now}, end.now);
  span.set_span_id(span_id_);
  span.set_parent_span_id(parent_id_);
  span.set_kind(Span::SERVER);
  Set(span, "rpc.system", "grpc");
  Set(span, "rpc.service", call_.service);
  Set(span, "rpc.method", call_.method);
  Set(span, "rpc.grpc.status_code", static_cast<int64_t>(end.code));
  Set(span, "latentd.request_id", end.request_id);
  if (size_ != pipeline::Size()) {
    Set(span, "latentd.width", size_.width);
    Set(span, "latentd.height", size_.height);
  }
  if (total_steps_ > 0) Set(span, "latentd.steps", total_steps_);
  Set(span, "latentd.images", images_);
  if (end.code == absl::StatusCode::kOk) return span;
  span.mutable_status()->set_code(otlp::Status::ERROR);
  span.mutable_status()->set_message(Excerpt(end.message, kMaxMessageBytes));
  return span;
}

Span CallTrace::WorkSpan(const Work& work, absl::Time end) const {
  Span span = MakeSpan(work.name, work.period, end);
  if (work.image != kOfRequest) Set(span, "latentd.image", work.image);
  if (!work.model.empty()) Set(span, "latentd.model", work.model);
  if (work.steps > 0) Set(span, "latentd.steps", work.steps);
  if (work.split > 0) Set(span, "latentd.split_steps", work.split);
  if (!work.device.empty()) Set(span, "latentd.device", work.device);
  return span;
}

}  // namespace latentd::server::tracing
