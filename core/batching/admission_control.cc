#include "core/batching/admission_control.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "core/base/status_macros.h"

namespace latentd::batching {
namespace {

// Less, and clients would spin; more is no forecast.
constexpr absl::Duration kShortestDelay = absl::Seconds(1);
constexpr absl::Duration kLongestDelay = absl::Hours(1);
// Of places that those may keep free who were told to come soon: they come in clusters.
constexpr double kKeptPart = 0.75;
// The margin for those who were told before: longer than one with which somebody came when told and
// was refused; and shorter by a part of what it is above the least with each who was not.
constexpr double kLonger = 1.4, kForgottenPart = 0.001;
constexpr double kMostMargin = 5;

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
                                                 const Return& refused, const Callers& callers,
                                                 const Costs& costs, absl::Time now) {
  const std::string& caller = asking.front()->caller;
  Question question{.admitted = admitted.entries(),
                    .before = admitted.At(now),
                    .asking = asking,
                    .callers = callers,
                    .costs = costs,
                    .now = now,
                    .who = {absl::HashOf(caller), refused.content},
                    .keeps_room = refused.comes_back};
  RETURN_IF_ERROR(CheckLimits(question));
  const std::optional<double> told_with = reservations_.Take(question.who, now);
  question.comes_back = told_with.has_value();
  question.part = PartOf(question);
  const absl::Status fits = CheckFits(question);
  if (told_with) LearnMargin(*told_with, fits.ok());
  RETURN_IF_ERROR(fits);
  return Prospect{.position = PositionOf(question.first(), question.after),
                  .outlook = question.after.OfRequest(question.first().request)};
}

absl::Status AdmissionControl::CheckFits(Question& question) {
  RETURN_IF_ERROR(CheckPlaces(question));
  question.after = question.Foresee(Together(question.admitted, question.asking));
  RETURN_IF_ERROR(CheckWait(question));
  return CheckDeadlines(question);
}

// Of many who were told with one margin the first that is refused says what the last one would.
void AdmissionControl::LearnMargin(double told_with, bool admitted) {
  if (admitted) {
    margin_ -= (margin_ - kLeastMargin) * kForgottenPart;
  } else {
    margin_ = std::clamp(told_with * kLonger, margin_, kMostMargin);
  }
}

absl::Status AdmissionControl::CheckLimits(const Question& question) const {
  if (question.asking.size() > static_cast<size_t>(limits_.pictures)) {
    return InvalidFields(
        {{"num_images_per_prompt", absl::StrCat("must be at most ", limits_.pictures,
                                                ": this server's queue takes no more, and ",
                                                question.asking.size(), " are asked for")}});
  }
  if (question.first().bytes > limits_.bytes) {
    return InvalidFields({{"image", absl::StrCat("must have at most ", limits_.bytes,
                                                 " bytes, has ", question.first().bytes)}});
  }
  return absl::OkStatus();
}

// Who comes back has its place among those that are due, and was told to by what its caller's part
// leaves; when it is told again, it is behind them.
absl::Status AdmissionControl::CheckPlaces(const Question& question) {
  RETURN_IF_ERROR(CheckCallersPlaces(question));
  RETURN_IF_ERROR(CheckAllPlaces(question));
  return CheckBytes(question);
}

// Of the queue's places.
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
    return reservations_.ExpectedPicturesOfCaller(question.now, until, question.who);
  };
  const double wanted = static_cast<double>(own.size()) + count;
  if (wanted + PlacesKept(question, share, expected) <= share) return absl::OkStatus();
  return TellToComeBack(
      question,
      TimeUntilPlacesAreFree(question, own,
                             wanted + margin_ * expected(absl::InfiniteFuture()) - share, 0),
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
  const double told = reservations_.ExpectedPictures(
      question.now, absl::InfiniteFuture(), question.who,
      [](uint64_t) { return std::numeric_limits<double>::infinity(); });
  return TellToComeBack(
      question,
      TimeUntilPlacesAreFree(question, question.admitted,
                             taken + count - limits_.pictures + margin_ * told, 0),
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
    return reservations_.ExpectedPictures(question.now, until, question.who, left);
  });
}

// For those who are due, and of those who come while this request may be here.
double AdmissionControl::PlacesKept(const Question& question, double places,
                                    absl::FunctionRef<double(absl::Time until)> expected) {
  const double soon = expected(question.now + question.before.LastEnd());
  return std::max(expected(question.now), std::min(soon, kKeptPart * places));
}

// Who brings nothing takes none.
absl::Status AdmissionControl::CheckBytes(const Question& question) {
  const size_t wanted = question.first().bytes;
  if (wanted == 0) return absl::OkStatus();
  size_t brought = 0;
  for (const Entry* entry : question.admitted) brought += entry->bytes;
  const size_t results = limits_.result_bytes ? limits_.result_bytes() : 0;
  const auto over = [&](size_t held, size_t limit) {
    return held + wanted - std::min(held + wanted, limit);
  };
  const size_t bytes_over = over(brought, limits_.bytes);
  const size_t all_over = over(brought + results, limits_.bytes_with_results);
  if (bytes_over == 0 && all_over == 0) return absl::OkStatus();
  const size_t held = bytes_over > 0 ? brought : brought + results;
  const size_t limit = bytes_over > 0 ? limits_.bytes : limits_.bytes_with_results;
  return TellToComeBack(
      question,
      TimeUntilPlacesAreFree(question, question.admitted, 0, std::max(bytes_over, all_over)),
      QueueFull(absl::StrCat("the queue is full: ", held, " of ", limit, " bytes of ",
                             bytes_over > 0 ? "init images and latents"
                                            : "init images, latents and finished pictures",
                             " are held, and this request brings ", wanted, " more"),
                "bytes", held, limit));
}

absl::Duration AdmissionControl::TimeUntilPlacesAreFree(const Question& question,
                                                        const Entries& holders, double pictures,
                                                        size_t bytes) const {
  const Entries& order = question.before.order;
  const std::vector<Outlook>& outlooks = question.before.outlooks;
  std::vector<std::pair<absl::Duration, size_t>> ends;  // and the bytes that go then
  for (size_t i = 0; i < order.size(); ++i) {
    if (absl::c_linear_search(holders, order[i]))
      ends.emplace_back(outlooks[i].ends, order[i]->bytes);
  }
  absl::c_sort(ends);
  size_t freed_bytes = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    freed_bytes += ends[i].second;
    if (static_cast<double>(i + 1) >= pictures && freed_bytes >= bytes) return ends[i].first;
  }
  if (ends.empty()) return absl::ZeroDuration();
  // More have been told to come than are here now, and are half done on average: as many others as
  // are here take twice as long.
  const double times = pictures / static_cast<double>(ends.size());
  return ends.back().first * std::max(1.0, 2 * times - 1);
}

// Who comes back waits for those that are here; the others also for those that are to come.
absl::Status AdmissionControl::CheckWait(const Question& question) {
  absl::Duration wait = question.after.OfRequest(question.first().request).begins;
  if (!question.comes_back && wait > absl::ZeroDuration()) {
    wait += reservations_.ExpectedTime(question.now, question.now + wait, question.who);
  }
  if (wait <= limits_.wait) return absl::OkStatus();
  return TellToComeBack(
      question, wait - limits_.wait,
      QueueFull(absl::StrCat("the request would wait for ", Seconds(wait),
                             " before it begins, and this server lets none wait longer than ",
                             Seconds(limits_.wait)),
                "time", absl::StrFormat("%.1f", absl::ToDoubleSeconds(wait)),
                absl::StrFormat("%.1f", absl::ToDoubleSeconds(limits_.wait))));
}

absl::Status AdmissionControl::CheckDeadlines(const Question& question) {
  const absl::Duration before = TimeOfThoseBefore(question);
  const absl::Duration overrun = Overrun(question, before);
  if (overrun <= absl::ZeroDuration()) return absl::OkStatus();
  const Need& need = question.first().need;
  // What has been guessed from other sizes is measured as soon as it disturbs nobody.
  if (question.admitted.empty() && !question.costs.HasMeasured(need.ahead, need.rows)) {
    return absl::OkStatus();
  }
  if (question.first().deadline == absl::InfiniteFuture()) {
    return TellToComeBack(
        question, overrun + TimeOfOthersTold(question, before),
        QueueFull("the queue is full: others would miss their deadlines if this request came too",
                  "deadlines", question.admitted.size(), limits_.pictures));
  }
  const int position = PositionOf(question.first(), question.after);
  const Timetable alone = question.Foresee(question.asking);
  const absl::Duration needed = alone.OfRequest(question.first().request).ends * kForecastMargin;
  if (needed > question.slack()) {
    return PredictedOverrun(absl::StrCat("the request takes up to ", Seconds(needed),
                                         " with nothing else to do, and its deadline is in ",
                                         Seconds(question.slack())),
                            needed, question.slack(), position);
  }
  return TellToComeBack(
      question, overrun + TimeOfOthersTold(question, before),
      PredictedOverrun(absl::StrCat("with what is in the queue the request, whose deadline is in ",
                                    Seconds(question.slack()), ", would be ", Seconds(overrun),
                                    " late, or make others late"),
                       question.after.OfRequest(question.first().request).ends * kForecastMargin,
                       question.slack(), position));
}

absl::Duration AdmissionControl::Overrun(const Question& question, absl::Duration before) {
  const PictureId request = question.first().request;
  absl::Duration overrun;
  for (size_t i = 0; i < question.after.order.size(); ++i) {
    const Entry& entry = *question.after.order[i];
    absl::Duration late = LatenessOf(entry, question.after.outlooks[i], question.now);
    if (entry.request == request) late += before;
    if (late > overrun && !IsLateAnyway(question, entry)) overrun = late;
  }
  const Entries own = Of(question.first().caller, question.after.order);
  const bool has_others = own.size() > question.asking.size();
  const bool shares = question.part < 1 && !question.comes_back;
  if (!has_others || !shares || question.slack() == absl::InfiniteDuration()) return overrun;
  const absl::Duration share = question.slack() * question.part;
  const Timetable alone = question.Foresee(own);
  return std::max(overrun, alone.LastEnd() - share);
}

// Of those who were told to come, and may do so before the request would end.
absl::Duration AdmissionControl::TimeOfThoseBefore(const Question& question) {
  if (question.comes_back) return absl::ZeroDuration();
  const absl::Duration ends = question.after.OfRequest(question.first().request).ends;
  return reservations_.ExpectedTime(question.now, question.now + ends * kForecastMargin,
                                    question.who);
}

// The others: who is told later comes behind them.
absl::Duration AdmissionControl::TimeOfOthersTold(const Question& question, absl::Duration before) {
  const absl::Duration all =
      reservations_.ExpectedTime(question.now, absl::InfiniteFuture(), question.who);
  return all * margin_ - before;
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
  if (question.keeps_room) {
    const Reservations::Room room{AloneTime(question.asking, question.costs),
                                  static_cast<double>(question.asking.size())};
    reservations_.Add(question.who, question.now, delay, question.first().deadline, room, margin_);
  }
  return WithRetryDelay(std::move(refusal), delay);
}

// What the caller may have beside the others.
double AdmissionControl::PartOf(const Question& question) {
  const std::string& caller = question.first().caller;
  const Need& need = question.first().need;
  const absl::Duration each = question.costs.Shared(need.ahead, need.rows, need.lane_rows);
  const absl::Duration asked = each * static_cast<int>(question.asking.size());
  if (!question.comes_back) demand_.Add(caller, asked, question.now);  // else it has been
  return demand_.PartOf(caller, question.now);
}

}  // namespace latentd::batching
