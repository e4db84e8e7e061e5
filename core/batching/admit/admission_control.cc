#include "core/batching/admit/admission_control.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/status_macros.h"

namespace latentd::batching {
namespace {

// Less, and clients would spin; more is no forecast.
constexpr absl::Duration kShortestDelay = absl::Seconds(1);
constexpr absl::Duration kLongestDelay = absl::Hours(1);
// Part of the places that is kept free, at most, for clients that were told to come soon: they come
// in clusters.
constexpr double kKeptPart = 0.75;
// Clients are told to come when the queue would be as empty as they need if it took so many times
// as long as foreseen.
constexpr double kBacklogMargin = 1.5;

Entries Of(const std::string& caller, const Entries& entries) {
  Entries own;
  absl::c_copy_if(entries, std::back_inserter(own),
                  [&](const Entry* entry) { return entry->caller == caller; });
  return own;
}

Entries Together(const Entries& entries, const Entries& more) {
  Entries together = entries;
  together.insert(together.end(), more.begin(), more.end());
  return together;
}

int PositionOf(const Entry& entry, const Timetable& timetable) {
  return timetable.Positions()[absl::c_find(timetable.order, &entry) - timetable.order.begin()];
}

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

absl::Status PredictedOverrun(std::string message, absl::Duration predicted,
                              absl::Duration deadline, int position) {
  return WithFacts(
      WithReason(absl::DeadlineExceededError(message), "PREDICTED_OVERRUN"),
      {{"predicted_seconds", absl::StrFormat("%.1f", absl::ToDoubleSeconds(predicted))},
       {"deadline_seconds", absl::StrFormat("%.1f", absl::ToDoubleSeconds(deadline))},
       {"position", absl::StrCat(position)}});
}

// `bound` says what of the queue is full, `queued` and `limit` how full.
absl::Status QueueFull(std::string message, absl::string_view bound, const absl::AlphaNum& queued,
                       const absl::AlphaNum& limit) {
  return WithFacts(WithReason(absl::ResourceExhaustedError(message), "QUEUE_FULL"),
                   {{"bound", std::string(bound)},
                    {"queued", std::string(queued.Piece())},
                    {"limit", std::string(limit.Piece())}});
}

}  // namespace

bool IsNews(const Prospect& last, const Prospect& now) {
  const auto differs = [](absl::Duration a, absl::Duration b) {
    return absl::AbsDuration(a - b) > std::max(std::max(a, b) / 5, absl::Seconds(1));
  };
  return last.position != now.position || last.outlook.known != now.outlook.known ||
         differs(last.outlook.begins, now.outlook.begins) ||
         differs(last.outlook.ends, now.outlook.ends);
}

absl::StatusOr<Prospect> AdmissionControl::Check(Foresight& admitted, const Entries& asking,
                                                 uint64_t content, const Callers& callers,
                                                 const Costs& costs, absl::Time now) {
  const std::string& caller = asking.front()->caller;
  Question question{.admitted = admitted.entries(),
                    .before = admitted.At(now),
                    .asking = asking,
                    .callers = callers,
                    .costs = costs,
                    .devices = devices_,
                    .now = now,
                    .who = {absl::HashOf(caller), content}};
  RETURN_IF_ERROR(CheckLimits(question));
  const std::optional<ReturnMargin::Delay> told = reservations_.Take(question.who, now);
  question.comes_back = told.has_value();
  question.told = reservations_.Told(now);
  question.told.time /= limits_.devices;  // each device works on a part of it
  question.part = PartOf(question);
  const absl::Status fits = CheckFits(question);
  if (told) Learn(question, *told, fits.ok());
  RETURN_IF_ERROR(fits);
  busy_until_ = now + question.after.LastEnd();
  return Prospect{.position = PositionOf(question.first(), question.after),
                  .outlook = question.after.OfRequest(question.first().request)};
}

void AdmissionControl::LoseDevice() {
  if (limits_.devices == 1) return;
  limits_.pictures -= limits_.pictures / limits_.devices--;
}

absl::Status AdmissionControl::CheckFits(Question& question) {
  RETURN_IF_ERROR(CheckPlaces(question));
  question.after = question.Foresee(Together(question.admitted, question.asking));
  RETURN_IF_ERROR(CheckWait(question));
  return CheckDeadlines(question);
}

void AdmissionControl::Learn(const Question& question, const ReturnMargin::Delay& told, bool fits) {
  if (!fits) {
    margin_.LearnTooShort(told, question.overrun, AloneTime(question.asking, question.costs));
  } else if (question.admitted.empty() && question.now > busy_until_) {
    margin_.LearnTooLong(told, question.now - busy_until_);
  }
}

absl::Status AdmissionControl::CheckLimits(const Question& question) const {
  if (question.asking.size() > static_cast<size_t>(all_pictures_)) {
    const bool is_video = question.first().need.lane.frames > 1;
    return InvalidFields({{is_video ? "num_videos_per_prompt" : "num_images_per_prompt",
                           absl::StrCat("must be at most ", all_pictures_,
                                        ": this server's queue takes no more, and ",
                                        question.asking.size(), " are asked for")}});
  }
  if (question.first().bytes > limits_.bytes) {
    return InvalidFields({{"image", absl::StrCat("must have at most ", limits_.bytes,
                                                 " bytes, has ", question.first().bytes)}});
  }
  return absl::OkStatus();
}

// A client that comes when told has its place among those that are due, and was told by what its
// caller's part leaves; when it is told again, it is behind them.
absl::Status AdmissionControl::CheckPlaces(const Question& question) {
  RETURN_IF_ERROR(CheckCallersPlaces(question));
  RETURN_IF_ERROR(CheckAllPlaces(question));
  return CheckBytes(question);
}

// Counts the places of the caller's part.
int AdmissionControl::PlacesOfPart(const Question& question) const {
  constexpr double kRounding = 1e-6;  // a fifth of ten is two
  return std::max(1, static_cast<int>(limits_.pictures * question.part + kRounding));
}

absl::Status AdmissionControl::CheckCallersPlaces(const Question& question) {
  const Entries own = Of(question.first().caller, question.admitted);
  if (own.empty() || question.comes_back) return absl::OkStatus();
  const int count = static_cast<int>(question.asking.size());
  const int share = PlacesOfPart(question);
  const auto expected = [&](absl::Time until) {
    return reservations_.ExpectedPicturesOfCaller(question.now, until, question.who.caller);
  };
  const double wanted = static_cast<double>(own.size()) + count;
  if (wanted + PlacesKept(question, share, expected) <= share) return absl::OkStatus();
  const double told =
      margin_.factor() * reservations_.ToldOfCaller(question.now, question.who.caller).pictures;
  return TellToComeBack(
      question, TimeUntilPlacesAreFree(question, own, wanted + told - share, 0),
      QueueFull(absl::StrCat("this caller's part of the queue is full: ", own.size(), " of ", share,
                             " pictures are waiting or running, and this request asks for ", count,
                             " more"),
                share < limits_.pictures ? "caller" : "pictures", own.size(), share));
}

absl::Status AdmissionControl::CheckAllPlaces(const Question& question) {
  const int count = static_cast<int>(question.asking.size());
  const int taken = static_cast<int>(question.admitted.size());
  const double kept = question.comes_back ? 0 : PlacesKeptForAll(question);
  if (taken + count + kept <= limits_.pictures) return absl::OkStatus();
  const double told = margin_.factor() * question.told.pictures;
  return TellToComeBack(
      question,
      TimeUntilPlacesAreFree(question, question.admitted, taken + count - limits_.pictures + told,
                             0),
      QueueFull(absl::StrCat("the queue is full: ", taken, " of ", limits_.pictures,
                             " pictures are waiting or running, and this request asks for ", count,
                             " more"),
                "pictures", question.admitted.size(), static_cast<size_t>(limits_.pictures)));
}

// For a caller's requests no more than is left of its part: the others' parts are theirs.
double AdmissionControl::PlacesKeptForAll(const Question& question) {
  absl::flat_hash_map<uint64_t, double> taken;
  for (const Entry* entry : question.admitted) ++taken[absl::HashOf(entry->caller)];
  const double part = PlacesOfPart(question);
  const auto left = [&](uint64_t caller) {
    const auto found = taken.find(caller);
    return found == taken.end() ? part : std::max(0.0, part - found->second);
  };
  return PlacesKept(question, limits_.pictures, [&](absl::Time until) {
    return reservations_.ExpectedPictures(question.now, until, left);
  });
}

// For those who are due, and of those who come while this request may be here.
double AdmissionControl::PlacesKept(const Question& question, double places,
                                    absl::FunctionRef<double(absl::Time until)> expected) {
  const double soon = expected(question.now + question.before.LastEnd());
  return std::max(expected(question.now), std::min(soon, kKeptPart * places));
}

// Requests without inputs use none of the bytes.
absl::Status AdmissionControl::CheckBytes(const Question& question) {
  const size_t wanted = question.first().bytes;
  if (wanted == 0) return absl::OkStatus();
  size_t brought = 0;
  for (const Entry* entry : question.admitted) brought += entry->bytes;
  const size_t results = limits_.result_bytes ? limits_.result_bytes() : 0;
  const auto expected = [&](absl::Time until) {
    return reservations_.ExpectedBytes(question.now, until);
  };
  const double expected_bytes =
      question.comes_back ? 0 : PlacesKept(question, static_cast<double>(limits_.bytes), expected);
  const auto kept = static_cast<size_t>(expected_bytes);
  const auto over = [&](size_t held, size_t limit) {
    return held + kept + wanted - std::min(held + kept + wanted, limit);
  };
  const size_t bytes_over = over(brought, limits_.bytes);
  const size_t all_over = over(brought + results, limits_.bytes_with_results);
  if (bytes_over == 0 && all_over == 0) return absl::OkStatus();
  const size_t held = bytes_over > 0 ? brought : brought + results;
  const size_t limit = bytes_over > 0 ? limits_.bytes : limits_.bytes_with_results;
  const double told = margin_.factor() * question.told.bytes;
  // No forecast says when finished results are read.
  const double needed =
      std::min(static_cast<double>(brought),
               static_cast<double>(std::max(bytes_over, all_over)) - expected_bytes);
  return TellToComeBack(
      question, TimeUntilPlacesAreFree(question, question.admitted, 0, needed + told),
      QueueFull(absl::StrCat("the queue is full: ", held, " of ", limit, " bytes of ",
                             bytes_over > 0 ? "init images and latents"
                                            : "init images, latents and finished pictures",
                             " are held, and this request brings ", wanted, " more"),
                "bytes", held, limit));
}

absl::Duration AdmissionControl::TimeUntilPlacesAreFree(const Question& question,
                                                        const Entries& holders, double pictures,
                                                        double bytes) {
  const Entries& order = question.before.order;
  std::vector<std::pair<absl::Duration, size_t>> ends;  // and the bytes that go then
  for (size_t i = 0; i < order.size(); ++i) {
    if (!absl::c_linear_search(holders, order[i])) continue;
    ends.emplace_back(question.before.outlooks[i].ends * kForecastMargin, order[i]->bytes);
  }
  absl::c_sort(ends);
  for (const auto& [end, freed] : ends) {
    pictures -= 1;
    bytes -= static_cast<double>(freed);
    if (pictures <= 0 && bytes <= 0) return end;
  }
  if (ends.empty()) return absl::ZeroDuration();
  // More have been told to come than are here now, and take longer as their work is more.
  const double more = std::max(pictures / static_cast<double>(question.asking.size()),
                               bytes / std::max(1.0, static_cast<double>(question.first().bytes)));
  const absl::Duration left = AloneTime(holders, question.costs);
  if (left <= absl::ZeroDuration()) return ends.back().first;
  const absl::Duration own = AloneTime(question.asking, question.costs);
  return ends.back().first * (1 + more * absl::FDivDuration(own, left));
}

// Clients that come when told wait for those that are here, others also for those that are to come.
absl::Status AdmissionControl::CheckWait(const Question& question) {
  const absl::Duration begins = question.after.OfRequest(question.first().request).begins;
  absl::Duration wait =
      std::max(begins - ReadyIn(question.first(), question.now), absl::ZeroDuration());
  if (!question.comes_back && wait > absl::ZeroDuration()) {
    wait += reservations_.ExpectedTime(question.now, question.now + wait) / limits_.devices;
  }
  if (wait <= limits_.wait) return absl::OkStatus();
  return TellToComeBack(
      question, DelayBehindAll(question, begins * kBacklogMargin - limits_.wait),
      QueueFull(absl::StrCat("the request would wait for ", Seconds(wait),
                             " before it begins, and this server lets none wait longer than ",
                             Seconds(limits_.wait)),
                "time", absl::StrFormat("%.1f", absl::ToDoubleSeconds(wait)),
                absl::StrFormat("%.1f", absl::ToDoubleSeconds(limits_.wait))));
}

absl::Status AdmissionControl::CheckDeadlines(Question& question) {
  const absl::Duration before = TimeOfThoseBefore(question);
  const absl::Duration over_part = TimeOverPart(question);
  const absl::Duration overrun = std::max(Lateness(question, kForecastMargin, before), over_part);
  question.overrun = overrun;
  if (overrun <= absl::ZeroDuration()) return absl::OkStatus();
  const Need& need = question.first().need;
  // A cost that was guessed from other sizes is measured as soon as that disturbs no other request.
  if (question.admitted.empty() && !question.costs.HasMeasured(need.ahead)) {
    return absl::OkStatus();
  }
  const absl::Duration delay = DelayBehindAll(
      question, std::max(Lateness(question, kBacklogMargin, absl::ZeroDuration()), over_part));
  if (question.first().deadline == absl::InfiniteFuture()) {
    return TellToComeBack(
        question, delay,
        QueueFull("the queue is full: others would miss their deadlines if this request came too",
                  "deadlines", question.admitted.size(), limits_.pictures));
  }
  const int position = PositionOf(question.first(), question.after);
  const Timetable alone = question.Foresee(question.asking);
  const absl::Duration needed = alone.OfRequest(question.first().request).ends * kForecastMargin;
  if (needed > question.slack()) {
    const absl::Duration ready_in = ReadyIn(question.first(), question.now);
    const std::string loading =
        ready_in > absl::ZeroDuration()
            ? absl::StrCat(" (", Seconds(ready_in), " until its model is loaded)")
            : "";
    return PredictedOverrun(absl::StrCat("the request takes up to ", Seconds(needed), loading,
                                         " with nothing else to do, and its deadline is in ",
                                         Seconds(question.slack())),
                            needed, question.slack(), position);
  }
  return TellToComeBack(
      question, delay,
      PredictedOverrun(absl::StrCat("with what is in the queue the request, whose deadline is in ",
                                    Seconds(question.slack()), ", would be ", Seconds(overrun),
                                    " late, or make others late"),
                       question.after.OfRequest(question.first().request).ends * kForecastMargin,
                       question.slack(), position));
}

absl::Duration AdmissionControl::DelayBehindAll(const Question& question,
                                                absl::Duration until_it_fits) const {
  const absl::Duration until_empty = question.before.LastEnd() * kForecastMargin;
  return std::min(until_it_fits, until_empty) + question.told.time * margin_.factor();
}

absl::Duration AdmissionControl::Lateness(const Question& question, double margin,
                                          absl::Duration begins) {
  absl::Duration most = -absl::InfiniteDuration();
  for (size_t i = 0; i < question.after.order.size(); ++i) {
    const Entry& entry = *question.after.order[i];
    absl::Duration late =
        question.after.outlooks[i].ends * margin - (entry.deadline - question.now);
    if (entry.request == question.first().request) late += begins;
    if (late > most && !IsLateAnyway(question, entry)) most = late;
  }
  return most;
}

absl::Duration AdmissionControl::TimeOverPart(const Question& question) {
  const Entries own = Of(question.first().caller, question.after.order);
  const bool has_others = own.size() > question.asking.size();
  const bool shares = question.part < 1 && !question.comes_back;
  if (!has_others || !shares || question.slack() == absl::InfiniteDuration()) {
    return -absl::InfiniteDuration();
  }
  Foresight as_if_ready(own, question.callers, question.costs, question.devices);
  return as_if_ready.At(question.now).LastEnd() - question.slack() * question.part;
}

// Sums the clients that were told to come, and may do so before the request would end.
absl::Duration AdmissionControl::TimeOfThoseBefore(const Question& question) {
  if (question.comes_back) return absl::ZeroDuration();
  const absl::Duration ends = question.after.OfRequest(question.first().request).ends;
  return reservations_.ExpectedTime(question.now, question.now + ends * kForecastMargin) /
         limits_.devices;
}

bool AdmissionControl::IsLateAnyway(const Question& question, const Entry& entry) {
  const Entries& order = question.before.order;
  const auto was = absl::c_find(order, &entry);
  if (was == order.end()) return false;
  const Outlook& outlook = question.before.outlooks[was - order.begin()];
  return LatenessOf(entry, outlook, question.now) > absl::ZeroDuration();
}

absl::Status AdmissionControl::TellToComeBack(const Question& question, absl::Duration delay,
                                              absl::Status refusal) {
  delay = std::clamp(delay, kShortestDelay, kLongestDelay);
  const absl::Duration alone = AloneTime(question.asking, question.costs);
  const Reservations::Room room{alone, static_cast<double>(question.asking.size()),
                                static_cast<double>(question.first().bytes)};
  const absl::Duration told = question.told.time;
  const absl::Duration ahead = question.before.LastEnd() + told;
  const double told_part = ahead > absl::ZeroDuration() ? absl::FDivDuration(told, ahead) : 0;
  reservations_.Add(question.who, question.now, delay, question.first().deadline, room,
                    {margin_.factor(), ahead, told_part, alone});
  return WithRetryDelay(std::move(refusal), delay);
}

// Counts the request into what its caller asks for, unless it has been.
double AdmissionControl::PartOf(const Question& question) {
  const std::string& caller = question.first().caller;
  const Need& need = question.first().need;
  const absl::Duration each = question.costs.Shared(need.ahead, need.lane_rows);
  const absl::Duration asked = each * static_cast<int>(question.asking.size());
  if (!question.comes_back) demand_.Add(caller, asked, question.now);  // else it has been
  return demand_.PartOf(caller, question.now);
}

}  // namespace latentd::batching
