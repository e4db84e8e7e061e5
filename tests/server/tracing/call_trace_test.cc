#include "server/tracing/call_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/escaping.h"
#include "tests/server/tracing/span_text.h"
#include "tests/support/fake_clock.h"

namespace latentd::server::tracing {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;
using engine::Stage;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::Property;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";

// Whose two times have nothing to do with each other, as those of a machine.
class TwoClocks : public testing::FakeClock {
 public:
  absl::Time Wall() const override { return Monotonic() + absl::Hours(24 * 365 * 50); }
};

class CallTraceTest : public ::testing::Test {
 protected:
  CallTrace Begin(CallTrace::Call call = {.method = "GenerateStream"}, bool sampled = true) {
    return *CallTrace::Begin(TraceParent{kTrace, kParent, sampled}, std::move(call), clock_);
  }

  // So many seconds after the call came.
  absl::Time At(double seconds) const { return arrived_ + absl::Seconds(seconds); }

  void Note(CallTrace& trace, const engine::Event& event, double came = 0) const {
    trace.Note(event, At(came));
  }
  void NoteUnit(CallTrace& trace, Stage stage, double begin, double end, int step = 0,
                int image = 0, const std::string& model = "base") const {
    Note(trace, engine::Progress{image, stage, step, 4, model, {{At(begin), At(end)}}}, end);
  }
  void NoteImage(CallTrace& trace, double begin, double end, int image = 0) const {
    Note(trace, engine::Image{.index = image, .encoded = {At(begin), At(end)}}, end);
  }

  std::vector<Span> End(const CallTrace& trace, double now) const {
    return trace.Spans({.request_id = "id", .now = At(now)});
  }
  // "queue 0-1", in seconds after the call came, of all but the call's own.
  std::vector<std::string> Work(const CallTrace& trace, double now = 100) const {
    std::vector<std::string> texts;
    const std::vector<Span> spans = End(trace, now);
    for (size_t i = 1; i < spans.size(); ++i) {
      texts.push_back(absl::StrCat(NameOf(spans[i]), " ", Second(spans[i].start_time_unix_nano()),
                                   "-", Second(spans[i].end_time_unix_nano())));
    }
    return texts;
  }
  double Second(uint64_t unix_nanos) const {
    return absl::ToDoubleSeconds(absl::FromUnixNanos(static_cast<int64_t>(unix_nanos)) -
                                 arrived_wall_);
  }

  TwoClocks clock_;
  const absl::Time arrived_ = clock_.Monotonic(), arrived_wall_ = clock_.Wall();
};

TEST_F(CallTraceTest, StepsSayHowManyTwoDevicesShared) {
  CallTrace trace = Begin();
  for (int step = 1; step <= 3; ++step) {
    engine::Progress progress{0, Stage::kSteps, step, 4, "base", {{At(step), At(step + 1)}}};
    progress.is_split = step != 2;
    Note(trace, progress);
  }
  NoteUnit(trace, Stage::kSteps, 7, 9, 4, 0, "refiner");
  const std::vector<Span> spans = End(trace, 100);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(AttributesOf(spans[1])["latentd.steps"], "3");
  EXPECT_EQ(AttributesOf(spans[1])["latentd.split_steps"], "2");
  EXPECT_EQ(AttributesOf(spans[2]).count("latentd.split_steps"), 0u);
}

TEST_F(CallTraceTest, WorkNamesItsDeviceWhereThereAreSeveral) {
  CallTrace trace = Begin();
  for (const Stage stage : {Stage::kText, Stage::kSteps, Stage::kDecode}) {
    engine::Progress progress{0, stage, 1, 1, "base", {{At(1), At(2)}}};
    progress.device = "1";
    Note(trace, progress);
  }
  NoteUnit(trace, Stage::kSteps, 7, 9, 4, 0, "refiner");  // a single device has no name
  const std::vector<Span> spans = End(trace, 100);
  ASSERT_EQ(spans.size(), 5u);
  for (const size_t i : {1, 2, 3}) EXPECT_EQ(AttributesOf(spans[i])["latentd.device"], "1") << i;
  EXPECT_EQ(AttributesOf(spans[0]).count("latentd.device"), 0u);
  EXPECT_EQ(AttributesOf(spans[4]).count("latentd.device"), 0u);
}

TEST_F(CallTraceTest, APictureOfBaseAndRefinerIsATreeOfItsWork) {
  CallTrace trace = Begin();
  Note(trace, engine::Queued{}, 0.5);
  Note(trace, engine::Queued{}, 0.75);
  Note(trace, engine::Started{{64, 32}}, 1);
  NoteUnit(trace, Stage::kText, 1, 2);
  NoteUnit(trace, Stage::kImage, 2, 3);
  for (int step = 1; step <= 3; ++step) NoteUnit(trace, Stage::kSteps, 2 + step, 3 + step, step);
  NoteUnit(trace, Stage::kText, 6, 7, 3, 0, "refiner");
  NoteUnit(trace, Stage::kSteps, 7, 9, 4, 0, "refiner");
  NoteUnit(trace, Stage::kDecode, 9, 10, 4, 0, "refiner");
  NoteImage(trace, 10, 11);
  Note(trace, engine::Completed{}, 11);
  EXPECT_THAT(Work(trace),
              ElementsAre("queue 0-1", "text base 1-2", "image 0 2-3", "steps base 0 3-6",
                          "text refiner 6-7", "steps refiner 0 7-9", "decode 0 9-10",
                          "encode_file 0 10-11"));
  const std::vector<Span> spans = End(trace, 12);
  EXPECT_EQ(AttributesOf(spans[4])["latentd.steps"], "3");
  EXPECT_EQ(AttributesOf(spans[6])["latentd.steps"], "1");
  const Span& call = spans[0];
  EXPECT_EQ(call.name(), "latent.v1.ImageGeneration/GenerateStream");
  EXPECT_EQ(call.kind(), Span::SERVER);
  EXPECT_EQ(absl::BytesToHexString(call.parent_span_id()), kParent);
  EXPECT_EQ(Second(call.start_time_unix_nano()), 0);
  EXPECT_EQ(Second(call.end_time_unix_nano()), 12);
  EXPECT_THAT(
      AttributesOf(call),
      ElementsAre(Pair("latentd.height", "32"), Pair("latentd.images", "1"),
                  Pair("latentd.request_id", "id"), Pair("latentd.steps", "4"),
                  Pair("latentd.width", "64"), Pair("rpc.grpc.status_code", "0"),
                  Pair("rpc.method", "GenerateStream"),
                  Pair("rpc.service", "latent.v1.ImageGeneration"), Pair("rpc.system", "grpc")));
  EXPECT_EQ(call.status().code(), otlp::Status::UNSET);
}

TEST_F(CallTraceTest, SpansOfWorkAreBelowTheCalls) {
  CallTrace trace = Begin();
  Note(trace, engine::Queued{});
  NoteUnit(trace, Stage::kText, 1, 2);
  NoteImage(trace, 3, 4);
  std::vector<Span> spans = End(trace, 5);
  EXPECT_THAT(spans, Each(Property(&Span::trace_id, absl::HexStringToBytes(kTrace))));
  EXPECT_THAT(spans, Each(Property(&Span::flags, 1)));
  std::set<std::string> ids;
  for (const Span& span : spans) {
    EXPECT_EQ(span.span_id().size(), 8u);
    EXPECT_TRUE(ids.insert(span.span_id()).second);
    if (&span == spans.data()) continue;
    EXPECT_EQ(span.parent_span_id(), spans[0].span_id());
    EXPECT_EQ(span.kind(), Span::INTERNAL);
  }
}

TEST_F(CallTraceTest, EachPictureHasItsOwn) {
  CallTrace trace = Begin();
  for (int image = 0; image < 2; ++image) {
    NoteUnit(trace, Stage::kSteps, 1, 2, 1, image);
    NoteUnit(trace, Stage::kSteps, 2, 3 + image, 2, image);
    NoteUnit(trace, Stage::kDecode, 5 + image, 6 + image, 2, image);
    NoteImage(trace, 7, 8, image);
  }
  EXPECT_THAT(Work(trace), ElementsAre("steps base 0 1-3", "decode 0 5-6", "encode_file 0 7-8",
                                       "steps base 1 1-4", "decode 1 6-7", "encode_file 1 7-8"));
  EXPECT_EQ(AttributesOf(End(trace, 9)[0])["latentd.images"], "2");
}

TEST_F(CallTraceTest, WhatWasNotDoneHasNone) {
  EXPECT_THAT(Work(Begin()), IsEmpty());  // refused
  CallTrace trace = Begin();
  Note(trace, engine::Progress{0, Stage::kText, 0, 4}, 1);  // as another picture had it done
  EXPECT_THAT(Work(trace), IsEmpty());
}

TEST_F(CallTraceTest, ACallThatEndsEarlyEndsWhatItHas) {
  CallTrace waits = Begin();
  Note(waits, engine::Queued{});
  EXPECT_THAT(Work(waits, 3), ElementsAre("queue 0-3"));
  CallTrace trace = Begin();
  Note(trace, engine::Queued{});
  Note(trace, engine::Started{}, 1);
  NoteUnit(trace, Stage::kSteps, 1, 5, 1);
  NoteUnit(trace, Stage::kSteps, 6, 7, 2);
  NoteUnit(trace, Stage::kDecode, 8, 9, 2);
  EXPECT_THAT(Work(trace, 3), ElementsAre("queue 0-1", "steps base 0 1-3", "decode 0 3-3"));
}

TEST_F(CallTraceTest, NothingBeginsBeforeTheCall) {
  CallTrace trace = Begin();
  NoteUnit(trace, Stage::kText, -2, 1);
  NoteUnit(trace, Stage::kSteps, -2, -1, 1);
  EXPECT_THAT(Work(trace), ElementsAre("text base 0-1", "steps base 0 0-0"));
}

TEST_F(CallTraceTest, ACallThatReadsWhatAnotherAskedForHasNoWork) {
  CallTrace trace = Begin({.method = "ResumeStream", .has_work = false});
  Note(trace, engine::Queued{});
  NoteUnit(trace, Stage::kSteps, 1, 2, 1);
  NoteImage(trace, 3, 4);
  EXPECT_THAT(Work(trace), IsEmpty());
  EXPECT_THAT(AttributesOf(End(trace, 5)[0]),
              IsSupersetOf({Pair("latentd.images", "1"), Pair("latentd.steps", "4")}));
}

TEST_F(CallTraceTest, AFailureSaysWhy) {
  const CallTrace trace = Begin();
  const Span call = trace.Spans(
      {.code = absl::StatusCode::kUnavailable, .message = "UNAVAILABLE \xFF", .now = At(1)})[0];
  EXPECT_EQ(call.status().code(), otlp::Status::ERROR);
  EXPECT_EQ(call.status().message(), "UNAVAILABLE \\xff");
  EXPECT_EQ(AttributesOf(call)["rpc.grpc.status_code"], "14");
  EXPECT_THAT(AttributesOf(call), Each(::testing::Not(Pair("latentd.width", ::testing::_))));
}

TEST_F(CallTraceTest, TheSizeIsWhatWasAskedFor) {
  CallTrace trace = Begin();
  engine::GenerateSpec spec;
  spec.picture.width = 300;
  spec.picture.height = 180;
  trace.NoteRequest(spec);
  Note(trace, engine::Started{{320, 192}});
  EXPECT_THAT(AttributesOf(End(trace, 1)[0]),
              IsSupersetOf({Pair("latentd.width", "300"), Pair("latentd.height", "180")}));
}

TEST_F(CallTraceTest, WithoutACallersTraceItBeginsOne) {
  const auto first = CallTrace::Begin(std::nullopt, {.method = "Generate"}, clock_);
  const auto second = CallTrace::Begin(std::nullopt, {.method = "Generate"}, clock_);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->trace_id().size(), 32u);
  EXPECT_NE(first->trace_id(), second->trace_id());
  const Span call = End(*first, 1)[0];
  EXPECT_EQ(absl::BytesToHexString(call.trace_id()), first->trace_id());
  EXPECT_EQ(call.parent_span_id(), "");
}

TEST_F(CallTraceTest, WhatTheCallerDoesNotRecordHasNone) {
  EXPECT_FALSE(CallTrace::Begin(TraceParent{kTrace, kParent, false}, {}, clock_));
  EXPECT_EQ(Begin().trace_id(), kTrace);
}

TEST_F(CallTraceTest, TheCallersStateIsPassedOnUnlessItIsTooLong) {
  const std::string longest(512, 'a');
  for (const auto& [state, passed] : std::vector<std::pair<std::string, std::string>>{
           {"congo=t61rcWkgMzE,rojo=1", "congo=t61rcWkgMzE,rojo=1"},
           {longest, longest},
           {longest + "a", ""},
           {"a=\xFF", ""}}) {
    CallTrace trace = Begin({.method = "Generate", .trace_state = state});
    Note(trace, engine::Queued{});
    EXPECT_THAT(End(trace, 1), Each(Property(&Span::trace_state, passed)));
  }
  const auto own =
      CallTrace::Begin(std::nullopt, {.method = "Generate", .trace_state = "a=b"}, clock_);
  EXPECT_EQ(End(*own, 1)[0].trace_state(), "");
}

}  // namespace
}  // namespace latentd::server::tracing
