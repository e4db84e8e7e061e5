// A device under requests without deadlines, played: the real queue decides, and each unit takes
// what a table says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {

// Times of units at 512x512; at other sizes they go by the pixels.
struct PlayedDevice {
  std::map<int, absl::Duration> steps;  // by the rows of an evaluation
  absl::Duration text, decode;
  int lane_places = 8;
  bool chooses_ahead = true;  // the next unit, when one begins; else, when it ends

  int lane_rows() const { return steps.rbegin()->first; }
  int Evaluated(int rows) const { return steps.lower_bound(rows)->first; }
};

// Two cores, where a row takes the same beside others; and a GPU that 2 rows nearly fill.
inline PlayedDevice PlayedCpu() {
  return {.steps = {{1, absl::Milliseconds(52)}, {2, absl::Milliseconds(100)}},
          .text = absl::Milliseconds(20),
          .decode = absl::Milliseconds(80)};
}
inline PlayedDevice PlayedGpu() {
  return {.steps = {{1, absl::Milliseconds(34)},
                    {2, absl::Milliseconds(58)},
                    {4, absl::Milliseconds(108)},
                    {8, absl::Milliseconds(210)},
                    {16, absl::Milliseconds(410)}},
          .text = absl::Milliseconds(7),
          .decode = absl::Milliseconds(40),
          .lane_places = 20,
          .chooses_ahead = false};
}

struct PlayedRequest {
  absl::Duration at;
  int steps = 30, rows = 2, pictures = 1, size = 512;
  std::string caller = "a";
  int priority = 0;
};
struct PlayedEnd {
  absl::Duration foreseen, took;  // from its admission
};

class PlayedQueue {
 public:
  explicit PlayedQueue(const PlayedDevice& device) : device_(device) {
    for (int size : {384, 512, 768}) Teach({.width = size, .height = size});
  }

  // Their ends, in their order.
  std::vector<PlayedEnd> Run(const std::vector<PlayedRequest>& requests) {
    requests_ = requests;
    ends_.resize(requests.size());
    std::stable_sort(requests_.begin(), requests_.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    while (next_ < requests_.size() || running_ || queue_.size() > 0) {
      AdmitUntil(now_);
      std::optional<Unit> unit = queue_.Next();
      if (unit) Advance(*unit, /*ended=*/false);
      if (running_) Finish();
      running_ = std::move(unit);
      if (running_ && !device_.chooses_ahead) {
        Finish();
        running_.reset();
      }
      if (!running_ && next_ < requests_.size() && queue_.size() == 0) {
        now_ = std::max(now_, requests_[next_].at);
      }
    }
    return ends_;
  }

  // Pictures of steps, in their order.
  const std::vector<std::vector<PictureId>>& stepped() const { return stepped_; }

  absl::Duration Alone(const PlayedRequest& request) const {
    const Lane lane{.width = request.size, .height = request.size};
    return device_.text +
           request.pictures * (request.steps * TimeOf(UnitKind::kStep, lane, request.rows) +
                               TimeOf(UnitKind::kDecode, lane, 1));
  }

 private:
  struct Picture {
    size_t request = 0;
    Need need;
  };

  absl::Duration TimeOf(UnitKind kind, const Lane& lane, int rows) const {
    if (kind == UnitKind::kText) return device_.text;
    const double pixels = lane.width * lane.height / (512.0 * 512.0);
    if (kind == UnitKind::kDecode) return device_.decode * pixels;
    return device_.steps.at(device_.Evaluated(rows)) * pixels;
  }

  void Teach(const Lane& lane) {
    const auto measure = [&](UnitKind kind, int rows) {
      queue_.Measure({.kind = kind, .lane = lane, .in_turn = false}, rows,
                     TimeOf(kind, lane, rows));
    };
    for (const auto& [rows, time] : device_.steps) measure(UnitKind::kStep, rows);
    for (UnitKind kind : {UnitKind::kText, UnitKind::kDecode}) measure(kind, 1);
  }

  void AdmitUntil(absl::Duration time) {
    for (; next_ < requests_.size() && requests_[next_].at <= time; ++next_) Admit(next_);
  }

  void Admit(size_t index) {
    const PlayedRequest& request = requests_[index];
    const Lane lane{.width = request.size, .height = request.size};
    const Need need{.kind = UnitKind::kText,
                    .lane = lane,
                    .lane_rows = device_.lane_rows(),
                    .lane_places = device_.lane_places,
                    .ahead = {.stages = {{{lane, true, {{request.steps, request.rows}}}}},
                              .after = {UnitKind::kDecode}}};
    std::vector<PictureId> ids;
    for (int i = 0; i < request.pictures; ++i) {
      ids.push_back(++last_id_);
      pictures_[last_id_] = {index, need};
      if (i > 0) pictures_[last_id_].need.ahead.stages[0].text = false;
    }
    const auto prospect = queue_.Admit(
        {.pictures = ids, .need = need, .caller = request.caller, .priority = request.priority});
    ASSERT_OK(prospect);
    ends_[index].foreseen = prospect->outlook.ends;
    left_[index] = request.pictures;
  }

  int RowsOf(const Unit& unit) const {
    int rows = 0;
    for (PictureId id : unit.pictures) rows += pictures_.at(id).need.next_rows();
    return rows;
  }

  // A picture in its last unit waits for the end of that.
  void Advance(const Unit& unit, bool ended) {
    for (PictureId id : unit.pictures) {
      Need& need = pictures_.at(id).need;
      if (ended) {
        if (unit.kind == UnitKind::kDecode) End(id);
        continue;
      }
      Ahead::Stage& stage = need.ahead.stages[0];
      if (unit.kind == UnitKind::kDecode) {
        need.kind = UnitKind::kWait;
      } else {
        if (unit.kind == UnitKind::kStep && --stage.runs[0].count == 0) stage.runs.clear();
        need.joined = unit.kind == UnitKind::kStep && !stage.runs.empty();
        need.kind = !stage.runs.empty() ? UnitKind::kStep : UnitKind::kDecode;
      }
      stage.text = false;
      queue_.Update(id, need);
    }
    if (!ended && unit.kind == UnitKind::kStep) {
      stepped_.emplace_back(unit.pictures.begin(), unit.pictures.end());
    }
  }

  void End(PictureId id) {
    const size_t request = pictures_.at(id).request;
    queue_.Remove(id);
    if (--left_[request] == 0) ends_[request].took = now_ - requests_[request].at;
  }

  void Finish() {
    const Unit& unit = *running_;
    const int rows = unit.kind == UnitKind::kStep ? device_.Evaluated(RowsOf(unit)) : 1;
    const absl::Duration took = TimeOf(unit.kind, unit.lane, rows);
    now_ += took;
    clock_.Advance(took);
    queue_.Measure(unit, rows, took);
    Advance(unit, /*ended=*/true);
  }

  const PlayedDevice device_;
  latentd::testing::FakeClock clock_;
  Queue queue_{{.pictures = 100000}, clock_};
  absl::Duration now_;
  std::vector<PlayedRequest> requests_;
  std::vector<PlayedEnd> ends_;
  size_t next_ = 0;
  std::optional<Unit> running_;
  std::map<PictureId, Picture> pictures_;
  std::map<size_t, int> left_;
  PictureId last_id_ = 0;
  std::vector<std::vector<PictureId>> stepped_;
};

}  // namespace latentd::batching
