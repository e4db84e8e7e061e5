#include "server/generation/generation.h"

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/engine/api/serving.h"
#include "server/generation/conversion/request_conversion.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/kept_streams.h"
#include "server/generation/request_metrics.h"
#include "server/tracing/trace_parent.h"

namespace latentd::server::generation {
namespace {

constexpr absl::Duration kLongestDeadline = absl::Hours(24 * 365);

// A larger request is in memory twice while it is read, and counted once it has been admitted: one
// of them is read at a time, whatever the number of threads.
constexpr int64_t kMostBesideOthers = int64_t{1} << 20;
ABSL_CONST_INIT absl::Mutex large_request(absl::kConstInit);

std::string MakeRequestId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// Empty where the server chooses.
std::string RequestedSize(const pipeline::PictureSpec& picture) {
  if (!picture.width || !picture.height) return "";
  const int frames = picture.video ? picture.video->num_frames.value_or(1) : 1;
  return SizeText(pipeline::Size{*picture.width, *picture.height, frames});
}

// The engine's findings, without those about fields that are already known to be bad.
void AddViolations(const std::vector<FieldViolation>& more,
                   std::vector<FieldViolation>& violations) {
  const size_t known = violations.size();
  for (const FieldViolation& violation : more) {
    const auto same = [&](const FieldViolation& other) { return other.field == violation.field; };
    if (std::none_of(violations.begin(), violations.begin() + known, same)) {
      violations.push_back(violation);
    }
  }
}

// Bytes that answers repeat of a request: its texts and lists, not its files.
int64_t EchoBytes(const latent::v1::GenerateRequest& request) {
  size_t listed = 0;
  for (const latent::v1::Control& control : request.controls()) listed += control.image().size();
  for (const latent::v1::IpAdapter& one : request.ip_adapters()) {
    listed += one.image().size() + one.image_embeds().data().size();
    for (const std::string& image : one.more_images()) listed += image.size();
  }
  return static_cast<int64_t>(request.ByteSizeLong() - listed - request.image().size() -
                              request.mask_image().size() - request.latents().size() -
                              request.prompt_embeds().data().size() -
                              request.pooled_prompt_embeds().data().size() -
                              request.negative_prompt_embeds().data().size() -
                              request.negative_pooled_prompt_embeds().data().size());
}

std::string TraceIdOf(const Client& client) {
  const auto parent = tracing::ParseTraceParent(client.trace_parent);
  return parent ? parent->trace_id : "";
}

// True of calls that take up another's work.
bool IsResume(absl::string_view method) {
  return method == kResumeMethod || method == kResumeVideoMethod;
}

std::optional<tracing::CallTrace> BeginTrace(const CallEnvironment& environment,
                                             const Client& client, absl::string_view method,
                                             Results results) {
  if (environment.spans == nullptr) return std::nullopt;
  tracing::CallTrace::Call call = {std::string(method), !IsResume(method), client.trace_state};
  if (results == Results::kVideos) call.service = "latent.v1.VideoGeneration";
  return tracing::CallTrace::Begin(tracing::ParseTraceParent(client.trace_parent), std::move(call),
                                   environment.clock);
}

}  // namespace

Generation::Generation(CallEnvironment environment, Client client, absl::string_view method,
                       Results results)
    : ActiveCall(environment),
      deadline_(client.deadline),
      caller_(client.caller),
      results_(results),
      trace_(BeginTrace(environment, client, method, results)) {
  record_.method = std::string(method);
  record_.trace_id = trace_ ? trace_->trace_id() : TraceIdOf(client);
  record_.peer = std::move(client.peer);
  record_.arrived = environment.clock.Monotonic();
}

absl::Status Generation::TryEnter() {
  absl::Status entered = CatchOutOfMemory([&] { Enter(); });
  if (!entered.ok()) TryAccount(entered);
  return entered;
}

absl::Status Generation::Submit(ReceivedRequest& request) {
  request_.Receive(request);
  const absl::Cleanup let_go = [this] { request_.LetGo(); };
  const auto submit = [&] { return CatchOutOfMemory([&] { return TrySubmit(request); }); };
  if (request.size() <= kMostBesideOthers) return submit();
  absl::MutexLock lock(&large_request);
  return submit();
}

absl::Status Generation::TrySubmit(ReceivedRequest& request) {
  // By itself: the engine counts its own refusals.
  absl::StatusOr<engine::GenerateSpec> spec = CatchOutOfMemory([&] { return Read(request); });
  if (!spec.ok()) {
    CountRefused(environment_.engine.metrics(), spec.status());
    return WithLimits(spec.status(), environment_.engine, caller_, results_);
  }
  const absl::StatusOr<uint64_t> handle = SubmitSpec(*std::move(spec));
  if (!handle.ok()) return WithLimits(handle.status(), environment_.engine, caller_, results_);
  bool unwanted = false;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = *handle;
    unwanted = client_gone_ || failed_;
  }
  if (unwanted) LeaveWork();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Generation::SubmitSpec(engine::GenerateSpec spec) {
  const std::shared_ptr<KeptStream> kept = this->kept();
  if (kept == nullptr) {
    const std::shared_ptr<engine::EventSink> sink(shared_from_this(), this);
    return environment_.engine.Submit(std::move(spec), sink);
  }
  const auto handle = CatchOutOfMemory([&]() -> absl::StatusOr<uint64_t> {
    RETURN_IF_ERROR(kept->Attach(this, 0, MakeReader()));
    return environment_.engine.Submit(std::move(spec), kept);
  });
  if (handle.ok()) {
    kept->SetHandle(*handle);
    environment_.kept.Accept(*kept);
  } else {
    environment_.kept.Refuse(*kept);
    kept->Detach(this, /*to_the_end=*/false);
    kept->OnEvent(engine::Failed{handle.status()});  // a call of ResumeStream may read by now
  }
  return handle;
}

std::shared_ptr<const KeptStream::Reader> Generation::MakeReader() {
  return std::make_shared<const KeptStream::Reader>(
      [call = std::shared_ptr<Generation>(shared_from_this(), this)](
          SharedEvent event, absl::Time came) { call->OnShared(std::move(event), came); });
}

std::shared_ptr<KeptStream> Generation::kept() const {
  absl::MutexLock lock(&mutex_);
  return kept_;
}

absl::Status Generation::Resume(absl::FunctionRef<ReadResume> read) {
  return CatchOutOfMemory([&] { return TryResume(read); });
}

absl::Status Generation::TryResume(absl::FunctionRef<ReadResume> read) {
  Resumption asked;
  const absl::Status was_read = read(asked);
  NoteId(asked.request_id);
  RETURN_IF_ERROR(was_read);
  ASSIGN_OR_RETURN(const std::shared_ptr<KeptStream> kept,
                   environment_.kept.Find(caller_, asked.request_id, results_));
  KeptStream::Place place = {asked.pictures, asked.bytes};
  if (results_ == Results::kVideos) place = kept->PlaceOf(asked.bytes);
  const Outbox::Position position = {place.pictures, static_cast<size_t>(place.bytes)};
  {
    absl::MutexLock lock(&mutex_);
    outbox_.emplace(record_.id, kept->output, position);
    kept_ = kept;
  }
  const absl::Status attached = kept->Attach(this, position.pictures, MakeReader());
  if (attached.ok()) return attached;
  // The client cannot have the rest of the stream: the name is free to begin again.
  environment_.kept.Drop(*kept);
  return WithFacts(attached, {{"request_id", asked.request_id}});
}

absl::StatusOr<engine::GenerateSpec> Generation::Read(ReceivedRequest& received) {
  ParsedRequest parsed;
  const latent::v1::GenerateRequest& request = parsed.request;
  request_.BeginReading();
  const absl::Status read = received.Parse(parsed);
  NoteId(request.request_id());
  RETURN_IF_ERROR(engine::CheckServing(environment_.engine.status()));
  RETURN_IF_ERROR(read);
  const int64_t echo_bytes = EchoBytes(request);
  const bool resumable = request.resumable() || (parsed.video && parsed.video->resumable());
  ConvertedRequest converted = ToSpec(std::move(parsed));
  converted.spec.caller = caller_;
  request_.DropReceived();
  if (resumable && !CanBeResumed()) {
    converted.violations.push_back({"resumable", "is for GenerateStream and GenerateVideo only"});
  }
  if (!converted.violations.empty()) {
    AddViolations(environment_.engine.Validate(converted.spec), converted.violations);
    return InvalidFields(converted.violations);
  }
  converted.spec.max_response_bytes = MaxPictureBytes(echo_bytes);
  converted.spec.picture.takes_previews = TakesPreviews();
  converted.spec.deadline = MonotonicDeadline();
  {
    absl::MutexLock lock(&mutex_);
    converted.spec.request_id = record_.id;
    record_.size = RequestedSize(converted.spec.picture);
    if (trace_) trace_->NoteRequest(converted.spec);
    outbox_.emplace(converted.spec.request_id, converted.spec.output);
  }
  if (resumable) RETURN_IF_ERROR(OpenKept(converted.spec));
  return std::move(converted.spec);
}

absl::Status Generation::OpenKept(const engine::GenerateSpec& spec) {
  ASSIGN_OR_RETURN(std::shared_ptr<KeptStream> kept,
                   environment_.kept.Open(caller_, spec.request_id, spec.output, results_));
  absl::MutexLock lock(&mutex_);
  kept_ = std::move(kept);
  return absl::OkStatus();
}

absl::Time Generation::MonotonicDeadline() const {
  const absl::Duration left = deadline_ - environment_.clock.Wall();
  // No deadline arrives as a date some hundred years ahead.
  if (left > kLongestDeadline) return absl::InfiniteFuture();
  return environment_.clock.Monotonic() + left;
}

// The client's own, where it can be one: a request that is refused leaves a log line too.
void Generation::NoteId(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  const bool own = !request_id.empty() && IsRequestId(request_id);
  record_.id = own ? request_id : MakeRequestId();
}

std::string Generation::request_id() const {
  absl::MutexLock lock(&mutex_);
  return record_.id;
}

void Generation::NoteHttpStatus(int code) {
  absl::MutexLock lock(&mutex_);
  record_.http_status = code;
}

void Generation::OnEvent(engine::Event event) {
  AdvanceAfter([&] {
    Add(std::make_shared<const engine::Event>(std::move(event)), environment_.clock.Monotonic());
  });
}

void Generation::OnShared(SharedEvent event, absl::Time came) {
  AdvanceAfter([&] {
    if (event == nullptr) throw std::bad_alloc();
    Add(std::move(event), came);
  });
}

void Generation::Add(SharedEvent event, absl::Time came) {
  absl::MutexLock lock(&mutex_);
  Note(*event, came);
  outbox_->Add(std::move(event), came);
}

void Generation::AdvanceAfter(absl::FunctionRef<void()> change) {
  const absl::Status advanced = CatchOutOfMemory([&] {
    change();
    Advance();
  });
  if (!advanced.ok()) Fail(advanced);
}

void Generation::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    failed_ = true;
    if (outbox_) outbox_->Fail(status);
  }
  const absl::Status ended = CatchOutOfMemory([&] {
    Advance();
    LeaveWork();
  });
  if (!ended.ok()) Cancel();
}

std::optional<OutgoingEvent> Generation::NextEvent() {
  std::optional<OutgoingEvent> event = outbox_->Next();
  if (kept_ != nullptr) kept_->NoteSent(this, outbox_->sent_pictures());
  return event;
}

void Generation::Note(const engine::Event& event, absl::Time came) {
  record_.Note(event, environment_.clock.Monotonic());
  if (trace_) trace_->Note(event, came);
  if (const auto* image = std::get_if<engine::Image>(&event)) KeepUnread(image->unread);
}

void Generation::ClientGone() {
  {
    absl::MutexLock lock(&mutex_);
    client_gone_ = true;
    deadline_passed_ = deadline_ <= absl::Now() + engine::kDeadlineSlack;
    if (outbox_ && kept_) outbox_->Fail(absl::CancelledError());
    if (outbox_) outbox_->Close();
  }
  LeaveWork();
}

void Generation::LeaveWork() {
  std::optional<uint64_t> handle;
  std::shared_ptr<KeptStream> kept;
  {
    absl::MutexLock lock(&mutex_);
    handle = handle_;
    kept = kept_;
  }
  if (kept != nullptr) {
    kept->Detach(this, /*to_the_end=*/false);
  } else if (handle) {
    environment_.engine.Cancel(*handle);
  }
}

void Generation::Done(const absl::Status& status) {
  // In any case: a drain waits for it.
  const absl::Cleanup leave = [this] { Leave(); };
  TryAccount(status);
  std::shared_ptr<KeptStream> kept;
  bool to_the_end = false;
  {
    absl::MutexLock lock(&mutex_);
    kept = std::move(kept_);
    to_the_end = !client_gone_ && !failed_;
  }
  if (kept != nullptr) kept->Detach(this, to_the_end);
}

void Generation::TryAccount(const absl::Status& status) {
  CatchOutOfMemory([&] { Account(status); }).IgnoreError();
}

void Generation::Account(const absl::Status& status) {
  const absl::Time now = environment_.clock.Monotonic();
  CallRecord record;
  absl::StatusCode code = status.code();
  {
    absl::MutexLock lock(&mutex_);
    code = EndCode(status);
    record = record_;
    // A request is counted once, by the call that asked for it.
    if (!IsResume(record.method)) {
      CountEnded(environment_.engine.metrics(),
                 {record.method, code, handle_.has_value(), record.bucket, now - record.arrived});
    }
    SendSpans(status, code, now);
  }
  // The engine's loop may have an event for the call, and writing to the log may block.
  record.WriteLogLine(status, code, now);
}

absl::StatusCode Generation::EndCode(const absl::Status& status) const {
  if (!client_gone_) return status.code();
  return deadline_passed_ ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
}

void Generation::SendSpans(const absl::Status& status, absl::StatusCode code,
                           absl::Time now) const {
  if (!trace_) return;
  environment_.spans->Add(trace_->Spans({record_.id, code, ReasonText(status, code), now}));
}

void Generation::CancelIfUnread(absl::Time now, absl::Duration limit) {
  {
    absl::MutexLock lock(&mutex_);
    if (!outbox_ || now - outbox_->oldest_picture() < limit) return;
  }
  Cancel();
}

int64_t Generation::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  return outbox_ ? outbox_->held_bytes() : 0;
}

}  // namespace latentd::server::generation
