// A ServerStatus is the state of the server, for WatchServerStatus and the log. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

enum class State : uint8_t { kLoading, kWarming, kReady, kDegraded, kDraining, kFailed };

struct ServerStatus {
  State state = State::kLoading;
  // If kDegraded or kFailed: which bucket, file or devices, and why; if kWarming: what is done; if
  // kReady: which requests are refused, if a component is off that most of them need.
  std::string reason;
  // The error with which the device failed, or all of several did; empty: there is one that works.
  std::string device_fault;
  int graphs_done = 0, graphs_total = 0;  // while warming, of those that READY waits for
  // Step graphs of more rows than a picture has, once the start is through with them.
  struct GraphCount {
    int ready = 0, total = 0;
    bool operator==(const GraphCount&) const = default;
  };
  std::optional<GraphCount> shared_steps;
  struct Bucket {
    std::string model;  // by its name; of those that hand over, the one that starts
    pipeline::Size size;
    bool ready = false;  // its graphs are there, or loaded when asked for: nothing is compiled
    std::string reason;  // why not
    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;
  // Each of several devices; none of a single one.
  struct Device {
    std::string name;   // "device 1"
    std::string fault;  // its error when it failed; empty: it works
    State state = State::kLoading;
    std::string reason;
    bool operator==(const Device&) const = default;
  };
  std::vector<Device> devices;
  absl::Time started, ready;  // wall clock; InfiniteFuture: not yet
  bool operator==(const ServerStatus&) const = default;
};

using StatusListener = std::function<void(const ServerStatus&)>;

}  // namespace latentd::engine
