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

#include "core/base/error_details.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"

namespace latentd::batching {

// What a load is, and what came of it.
struct PlayedLoad {
  double rate = 1;                              // requests a second
  absl::Duration patience = absl::Seconds(30);  // a call's deadline, and a wait until the next
  double times_alone = 0;                       // or that many times what it takes alone
  bool half_come_back = true;  // of the requests, or of the callers, where there are several
  int callers = 1;             // of which the first two ask three times as much as each other one
  absl::Duration length = absl::Seconds(60);
  // Else about an H100's with SDXL, where small rows are cheaper together.
  bool is_device_full = false;  // a row takes the same beside others
  int lane_rows = 16, lane_places = 16;
  double device_slowness = 1;  // what units take, by what is measured of them
};
struct PlayedResult {
  int asked = 0, served = 0, late = 0;          // late: admitted, and not done by its deadline
  int came_back = 0, came_back_and_served = 0;  // calls
  std::vector<int> served_of_caller;
  double work = 0;  // seconds that the served would take one after the other
};

class PlayedServer {
 public:
  PlayedServer(const PlayedLoad& load, uint32_t seed)
      : load_(load), random_(seed), end_(Now() + load.length) {
    result_.served_of_caller.resize(load.callers);
    Teach();
    Ask(Now());
  }

  PlayedResult Run() {
    while (!arrivals_.empty() || queue_.size() > 0) {
      DropLate();
      if (const auto unit = queue_.Next()) {
        RunUnit(*unit);
      } else if (!arrivals_.empty()) {
        AdvanceTo(arrivals_.begin()->first);
      }
    }
    return result_;
  }

 private:
  struct Client {
    Lane lane;
    int steps = 0, rows = 2;
    absl::Time deadline;
    uint64_t content = 0;
    int caller = 0;
    bool comes_back = false;
    int returns = 0;
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
  absl::Duration Measure(const Unit& unit, int rows) {
    const double disturbed = std::uniform_real_distribution<double>(0.95, 1.15)(random_);
    const absl::Duration took = TimeOf(unit.kind, unit.lane, rows) * disturbed;
    queue_.Measure(unit, rows, took);
    return took;
  }

  // Somebody asks now, or comes back, and somebody else will.
  void Ask(absl::Time at) {
    Client client;
    const int size = std::vector<int>{256, 256, 384, 512}[random_() % 4];
    client.lane = {.width = size, .height = size};
    client.steps = 4 << (random_() % 4);
    client.rows = random_() % 5 == 0 ? 1 : 2;
    const bool by_work = load_.times_alone > 0;
    client.deadline = at + (by_work ? load_.times_alone * Alone(client) : load_.patience);
    client.content = ++next_content_;
    client.caller = NextCaller();
    const uint64_t half = load_.callers > 1 ? client.caller : client.content;
    client.comes_back = load_.half_come_back && half % 2 == 0;
    arrivals_.emplace(at, client);
  }

  int NextCaller() {
    if (load_.callers == 1) return 0;
    std::vector<double> weights(load_.callers, 1);
    weights[0] = weights[1] = 3;
    return std::discrete_distribution<int>(weights.begin(), weights.end())(random_);
  }

  void Arrive(Client client) {
    if (client.returns == 0) {
      ++result_.asked;
      const absl::Time next =
          Now() + absl::Seconds(std::exponential_distribution<double>(load_.rate)(random_));
      if (next < end_) Ask(next);
    } else {
      ++result_.came_back;
      client.deadline = Now() + load_.patience;
    }
    const PictureId id = ++next_id_;
    const Need need{.kind = UnitKind::kText,
                    .lane = client.lane,
                    .rows = client.rows,
                    .lane_rows = load_.lane_rows,
                    .lane_places = load_.lane_places,
                    .ahead = {.stages = {{{client.lane, true, client.steps}}}, .decode = true}};
    const auto admitted = queue_.Admit({.pictures = {&id, 1},
                                        .need = need,
                                        .caller = std::to_string(client.caller),
                                        .deadline = client.deadline,
                                        .content = client.content});
    if (admitted.ok()) {
      running_[id] = {client, need};
      return;
    }
    const auto delay = GetRetryDelay(admitted.status());
    if (!client.comes_back || !delay || *delay >= load_.patience) return;
    ++client.returns;
    arrivals_.emplace(Now() + *delay, client);
  }

  // Whoever comes until then.
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
    for (PictureId id : unit.pictures) rows += running_.at(id).need.rows;
    const absl::Duration took = Measure(unit, std::bit_ceil(static_cast<unsigned>(rows)));
    AdvanceTo(Now() + took * load_.device_slowness);
    for (PictureId id : unit.pictures) Advance(id, unit.kind);
  }

  void Advance(PictureId id, UnitKind kind) {
    auto& [client, need] = running_.at(id);
    Ahead::Stage& stage = need.ahead.stages[0];
    if (kind == UnitKind::kDecode) return Serve(id, client);
    if (kind == UnitKind::kStep) {
      need.joined = true;
      --stage.evaluations;
    }
    stage.text = false;
    need.kind = stage.evaluations > 0 ? UnitKind::kStep : UnitKind::kDecode;
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
  const absl::Time end_;
  Queue queue_{{.pictures = 64}, clock_};
  std::multimap<absl::Time, Client> arrivals_;
  std::map<PictureId, Running> running_;
  PictureId next_id_ = 0;
  uint64_t next_content_ = 0;
  PlayedResult result_;
};

}  // namespace latentd::batching
