// A run of a graph, by hashes instead of arithmetic: on devices whose steps are hashes of what
// their rows read, a row that reads another's shows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/schedulers/schedule.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {

// A step is its rows' predictions, each of what
// the UNet reads for that row, and their advance, of what guidance and noise scheduler do; so that
// network and advance together give what the step gives.
class HashedRun {
 public:
  explicit HashedRun(const RunPorts& ports) : ports_(ports) {}

  void Run() const {
    if (Find(ports_.outputs, kPrediction) != nullptr) return Predict();
    if (ports_.step_rows > 0) return Step();
    size_t hash = 0;
    for (const auto& input : ports_.inputs) hash = absl::HashOf(hash, Text(input.bytes));
    for (const auto& output : ports_.outputs)
      FillFrom(absl::HashOf(hash, output.name), output.bytes);
  }

 private:
  using Bytes = absl::Span<const uint8_t>;
  using Prefix = std::array<uint8_t, 8>;  // a prediction's first bytes, whatever its dtype
  static constexpr char kPrediction[] = "prediction";

  static absl::string_view Text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Fills floats, with finite ones.
  static void FillFrom(size_t hash, absl::Span<uint8_t> bytes) {
    std::minstd_rand random(static_cast<uint32_t>(hash ^ hash >> 32));
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint32_t)) {
      const uint32_t word = 0x3f800000u | static_cast<uint32_t>(random()) >> 8;
      std::memcpy(&bytes[i], &word, std::min(sizeof(word), bytes.size() - i));
    }
  }

  // Null: there is none.
  template <typename Port>
  static const Port* Find(const std::vector<Port>& ports, absl::string_view name) {
    const auto found = absl::c_find_if(ports, [&](const Port& port) { return port.name == name; });
    return found == ports.end() ? nullptr : &*found;
  }

  void Predict() const {
    for (int row = 0; row < ports_.step_rows; ++row) {
      FillFrom(HashOfPrediction(row), Find(ports_.outputs, kPrediction)->row(row));
    }
  }

  // Rows read each other's states, which the outputs are written over.
  void Step() const {
    std::vector<size_t> hashes;
    for (int row = 0; row < ports_.step_rows; ++row) hashes.push_back(HashOfRow(row));
    for (int row = 0; row < ports_.step_rows; ++row) {
      const size_t hash = hashes[row];
      if (const auto* deep = Find(ports_.outputs, "deep_features")) {
        FillFrom(hash + 1, deep->row(row));
      }
      FillFrom(hash, Find(ports_.outputs, "state")->row(row));
      const float apart = hash % 4 == 0 ? 1 : 0;
      if (const auto* contrast = Find(ports_.outputs, "contrast")) {  // an image's alone has it
        std::memcpy(contrast->row(row).data(), &apart, sizeof(apart));
      }
      int64_t next = At<int64_t>("step", row) + 1;
      std::memcpy(Find(ports_.outputs, "step")->row(row).data(), &next, sizeof(next));
    }
  }

  size_t HashOfRow(int row) const {
    const Bytes line = LineOf(row);
    float draws_noise = 0;
    std::memcpy(&draws_noise, &line[schedulers::kLineDrawsNoise * sizeof(float)], sizeof(float));
    return absl::HashOf(Text(Row("state", row)), Text(line), Text(Row("guidance_scale", row)),
                        Text(Row("guidance_rescale", row)),
                        PredictionOf(At<int64_t>("negative_rows", row)),
                        PredictionOf(At<int64_t>("text_rows", row)),
                        draws_noise != 0 ? Text(Row("noise", row)) : absl::string_view());
  }

  Prefix PredictionOf(int64_t row) const {
    Prefix prefix;
    if (Find(ports_.inputs, kPrediction) != nullptr) {
      std::memcpy(prefix.data(), Row(kPrediction, row).data(), prefix.size());
    } else {
      FillFrom(HashOfPrediction(row), absl::MakeSpan(prefix));
    }
    return prefix;
  }

  // The UNet reads x, the first of the state's parts.
  size_t HashOfPrediction(int64_t row) const {
    const Bytes state = Row("state", row);
    return absl::HashOf(Text(state.first(state.size() / schedulers::kStateRows)), Text(LineOf(row)),
                        HashOfRequest(row));
  }

  // A row without a picture counts on beyond its table.
  Bytes LineOf(int64_t row) const {
    constexpr size_t kLine = schedulers::kLineElements * sizeof(float);
    const Bytes table = Row("table", row);
    const size_t last = table.size() / kLine - 1;
    return table.subspan(std::min<size_t>(At<int64_t>("step", row), last) * kLine, kLine);
  }

  // In whatever order the graph has them.
  size_t HashOfRequest(int64_t row) const {
    static constexpr absl::string_view kOfStep[] = {
        "state",         "step",     "table", "noise", "guidance_scale", "guidance_rescale",
        "negative_rows", "text_rows"};
    size_t hash = 0;
    for (const auto& input : ports_.inputs) {
      if (absl::c_linear_search(kOfStep, input.name)) continue;
      hash ^= absl::HashOf(input.name, Text(input.row(row)));
    }
    return hash;
  }

  // Empty: the step has no such input.
  Bytes Row(absl::string_view name, int64_t row) const {
    const auto* port = Find(ports_.inputs, name);
    return port == nullptr ? Bytes() : Bytes(port->row(row));
  }
  template <typename T>
  T At(absl::string_view name, int64_t row) const {
    T value;
    std::memcpy(&value, Row(name, row).data(), sizeof(T));
    return value;
  }

  const RunPorts& ports_;
};

}  // namespace latentd::engine
