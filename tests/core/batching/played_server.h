// A server under load, played: the real queue decides, a made-up device runs what it says, and
// clients ask, give up, or come back when they are told to.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"

namespace latentd::batching {

// Requests of one kind that come at once, again and again, each time after three by themselves.
struct PlayedBursts {
  absl::Duration every = absl::Minutes(1);
  int requests = 0;
  int size = 512, steps = 20;
  size_t bytes = 0;        // bytes that each request brings
  bool are_equal = false;  // in what they ask for
  double come_back = 1;    // part of them
  double lateness = 0;     // part of their delays, at most, by which they come later than told
};

// A load, and what came of it.
struct PlayedLoad {
  double rate = 1;                              // requests a second
  absl::Duration patience = absl::Seconds(30);  // a call's deadline, and a wait until the next
  double times_alone = 0;                       // or that many times what it takes alone
  PlayedBursts bursts;                          // or these, where they have requests
  bool half_come_back = true;  // half of the requests; or of the callers, if several
  int callers = 1;             // the first two ask three times as much as each other one
  absl::Duration length = absl::Seconds(60);
  // Else about an H100's with SDXL, where small rows are cheaper together.
  bool is_device_full = false;  // a row takes the same beside others
  int lane_rows = 16, lane_places = 16;
  double device_slowness = 1;  // time of units, as a multiple of the measured one
  double noise = 0.1;          // deviation of measured times, to either side
  absl::Duration noise_lasts;  // until it is another; by default for one unit
  // They take twice as long, and it is measured.
  absl::Duration slow_from = absl::InfiniteDuration(), slow_until = absl::InfiniteDuration();
  Limits limits = {.pictures = 64};
};
struct PlayedResult {
  int asked = 0, served = 0, late = 0;          // late: admitted, and not done by its deadline
  int came_back = 0, came_back_and_served = 0;  // calls
  // Calls that came when told and were refused though the device was as fast as when they were
  // told.
  int refused_as_foreseen = 0;
  absl::Duration busy, idle;  // the device's; idle: though some clients have a retry delay
  std::vector<int> served_of_caller;
  double work = 0;  // seconds that the served would take one after the other
};

class PlayedServer {
 public:
  PlayedServer(const PlayedLoad& load, uint32_t seed)
      : load_(load), random_(seed), end_(Now() + load.length) {
    result_.served_of_caller.resize(load.callers);
    Teach();
    if (load.bursts.requests == 0) Ask(Now());
    for (absl::Time at = Now(); load.bursts.requests > 0 && at < end_; at += load.bursts.every) {
      AskBurst(at);
    }
  }

  PlayedResult Run() {
    while (!arrivals_.empty() || queue_.size() > 0) {
      DropLate();
      if (const auto unit = queue_.Next()) {
        RunUnit(*unit);
      } else if (!arrivals_.empty()) {
        PassIdly();
      }
    }
    return result_;
  }

 private:
  struct Client {
    Lane lane;
    int steps = 0, rows = 2;
    absl::Duration patience;
    absl::Time deadline;
    uint64_t content = 0;
    int caller = 0;
    bool comes_back = false;
    int returns = 0;
    absl::Time told;  // to come back
  };
  struct Running {
    Client client;
    Need need;
  };

  absl::Time Now() const { return clock_.Monotonic(); }

  absl::Duration StepTime(const Lane& lane, int rows) const {
    const double pixels = lane.width * lane.height * rows / (512.0 * 512.0);
    return absl::Milliseconds(load_.is_device_full ? 30 * pixels : std::max(8.5, 3.0 * pixels));
  }
  absl::Duration TimeOf(UnitKind kind, const Lane& lane, int rows) const {
    if (kind == UnitKind::kText) return absl::Milliseconds(7);
    if (kind == UnitKind::kDecode) return absl::Milliseconds(lane.width / 128.0);
    return StepTime(lane, rows);
  }
  absl::Duration Alone(const Client& client) const {
    return TimeOf(UnitKind::kText, client.lane, 1) + TimeOf(UnitKind::kDecode, client.lane, 1) +
           client.steps * StepTime(client.lane, client.rows);
  }

  // As a server has that has served for a while.
  void Teach() {
    for (int size : {256, 384, 512}) {
      const Lane lane{.width = size, .height = size};
      for (int i = 0; i < 4; ++i) {
        for (int rows : {1, 2, 4, 8, 16}) Measure({.kind = UnitKind::kStep, .lane = lane}, rows);
        Measure({.kind = UnitKind::kText, .lane = lane}, 1);
        Measure({.kind = UnitKind::kDecode, .lane = lane}, 1);
      }
    }
  }
  double Slowness(absl::Time at) const {
    return at - begin_ >= load_.slow_from && at - begin_ < load_.slow_until ? 2 : 1;
  }
  double Random(double from, double until) {
    return std::uniform_real_distribution<double>(from, until)(random_);
  }
  absl::Duration Measure(const Unit& unit, int rows) {
    if (Now() >= disturbed_until_) {
      disturbed_ = Random(1.05 - load_.noise, 1.05 + load_.noise);
      disturbed_until_ = Now() + load_.noise_lasts;
    }
    const absl::Duration took = TimeOf(unit.kind, unit.lane, rows) * disturbed_ * Slowness(Now());
    queue_.Measure(unit, rows, took);
    return took;
  }

  // Adds a client that asks at that time.
  void Ask(absl::Time at) {
    Client client;
    const int size = std::vector<int>{256, 256, 384, 512}[random_() % 4];
    client.lane = {.width = size, .height = size};
    client.steps = 4 << (random_() % 4);
    client.rows = random_() % 5 == 0 ? 1 : 2;
    client.caller = NextCaller();
    client.content = ++next_content_;
    const uint64_t half = load_.callers > 1 ? client.caller : client.content;
    client.comes_back = load_.half_come_back && half % 2 == 0;
    Add(std::move(client), at);
  }

  void AskBurst(absl::Time at) {
    const PlayedBursts& bursts = load_.bursts;
    Client client{.lane = {.width = bursts.size, .height = bursts.size}, .steps = bursts.steps};
    for (int i = 0; i < 3 + bursts.requests; ++i) {
      if (i > 0 && i <= 3) at += 1.5 * Alone(client) * Slowness(at);
      if (i > 3) at += absl::Milliseconds(1);
      client.caller = NextCaller();
      client.content = bursts.are_equal ? 1 : ++next_content_;
      client.comes_back = Random(0, 1) < bursts.come_back;
      Add(client, at);
    }
  }

  void Add(Client client, absl::Time at) {
    const bool by_work = load_.times_alone > 0;
    client.patience = by_work ? load_.times_alone * Alone(client) * Slowness(at) : load_.patience;
    client.deadline = at + client.patience;
    arrivals_.emplace(at, std::move(client));
  }

  int NextCaller() {
    if (load_.callers == 1) return 0;
    std::vector<double> weights(load_.callers, 1);
    weights[0] = weights[1] = 3;
    return std::discrete_distribution<int>(weights.begin(), weights.end())(random_);
  }

  // Another one asks later.
  void AskNext() {
    const absl::Time next =
        Now() + absl::Seconds(std::exponential_distribution<double>(load_.rate)(random_));
    if (next < end_) Ask(next);
  }

  void Arrive(Client client) {
    if (client.returns == 0) {
      ++result_.asked;
      if (load_.bursts.requests == 0) AskNext();
    } else {
      ++result_.came_back;
      client.deadline = Now() + client.patience;
    }
    const PictureId id = ++next_id_;
    const Need need{.kind = UnitKind::kText,
                    .lane = client.lane,
                    .lane_rows = load_.lane_rows,
                    .lane_places = load_.lane_places,
                    .ahead = {.stages = {{{client.lane, true, {{client.steps, client.rows}}}}},
                              .after = {UnitKind::kDecode}}};
    const auto admitted = queue_.Admit({.pictures = {&id, 1},
                                        .need = need,
                                        .bytes = load_.bursts.bytes,
                                        .caller = std::to_string(client.caller),
                                        .deadline = client.deadline,
                                        .content = client.content});
    if (admitted.ok()) {
      running_[id] = {client, need};
      return;
    }
    const auto delay = GetRetryDelay(admitted.status());
    const bool as_foreseen = client.returns > 0 && Slowness(client.told) == Slowness(Now());
    result_.refused_as_foreseen += as_foreseen ? 1 : 0;
    const bool is_burst = load_.bursts.requests > 0;
    if (!client.comes_back || !delay || (!is_burst && *delay >= load_.patience)) return;
    ++client.returns;
    client.told = Now();
    const absl::Duration late =
        is_burst ? Random(0, load_.bursts.lateness) * *delay + absl::Milliseconds(20)
                 : absl::ZeroDuration();
    arrivals_.emplace(Now() + *delay + late, client);
  }

  // Nothing runs until the next one comes.
  void PassIdly() {
    const absl::Time next = arrivals_.begin()->first;
    const bool is_promised = std::any_of(arrivals_.begin(), arrivals_.end(),
                                         [](const auto& each) { return each.second.returns > 0; });
    if (is_promised) result_.idle += next - Now();
    AdvanceTo(next);
  }

  // Clients come until then.
  void AdvanceTo(absl::Time time) {
    while (!arrivals_.empty() && arrivals_.begin()->first <= time) {
      const auto [at, client] = *arrivals_.begin();
      arrivals_.erase(arrivals_.begin());
      clock_.Advance(std::max(at - Now(), absl::ZeroDuration()));
      Arrive(client);
    }
    clock_.Advance(std::max(time - Now(), absl::ZeroDuration()));
  }

  void DropLate() {
    for (auto it = running_.begin(); it != running_.end();) {
      if (it->second.client.deadline > Now()) {
        ++it;
        continue;
      }
      ++result_.late;
      queue_.Remove(it->first);
      it = running_.erase(it);
    }
  }

  void RunUnit(const Unit& unit) {
    int rows = 0;
    for (PictureId id : unit.pictures) rows += running_.at(id).need.next_rows();
    const absl::Duration took = Measure(unit, std::bit_ceil(static_cast<unsigned>(rows)));
    AdvanceTo(Now() + took * load_.device_slowness);
    result_.busy += took * load_.device_slowness;
    for (PictureId id : unit.pictures) Advance(id, unit.kind);
  }

  void Advance(PictureId id, UnitKind kind) {
    auto& [client, need] = running_.at(id);
    Ahead::Stage& stage = need.ahead.stages[0];
    if (kind == UnitKind::kDecode) return Serve(id, client);
    if (kind == UnitKind::kStep) {
      need.joined = true;
      if (--stage.runs[0].count == 0) stage.runs.clear();
    }
    stage.text = false;
    need.kind = !stage.runs.empty() ? UnitKind::kStep : UnitKind::kDecode;
    queue_.Update(id, need);
  }

  void Serve(PictureId id, const Client& client) {
    if (Now() <= client.deadline) {
      ++result_.served;
      ++result_.served_of_caller[client.caller];
      result_.came_back_and_served += client.returns > 0;
      result_.work += absl::ToDoubleSeconds(Alone(client));
    } else {
      ++result_.late;
    }
    queue_.Remove(id);
    running_.erase(id);
  }

  const PlayedLoad load_;
  std::mt19937 random_;
  latentd::testing::FakeClock clock_;
  const absl::Time begin_ = Now(), end_;
  Queue queue_{load_.limits, clock_};
  std::multimap<absl::Time, Client> arrivals_;
  std::map<PictureId, Running> running_;
  double disturbed_ = 1;
  absl::Time disturbed_until_ = absl::InfinitePast();
  PictureId next_id_ = 0;
  uint64_t next_content_ = 0;
  PlayedResult result_;
};

}  // namespace latentd::batching
