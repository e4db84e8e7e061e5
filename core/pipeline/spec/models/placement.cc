#include "core/pipeline/spec/models/placement.h"

#include <numeric>
#include <optional>

#include "absl/algorithm/container.h"

namespace latentd::pipeline {
namespace {

// The part of a device, 1 of so many, that graphs need beside the weights of several models.
constexpr int64_t kPartForGraphs = 5;

class Placing {
 public:
  Placing(absl::Span<const PlacedModel> models, absl::Span<const DeviceRoom> devices)
      : models_(models), devices_(devices), used_(devices.size()), placed_(models.size()) {}

  std::vector<std::vector<size_t>> Run() {
    for (const size_t model : HardestFirst()) PlaceFirst(model);
    while (PlaceOneMoreOfEach()) {
    }
    for (std::vector<size_t>& devices : placed_) absl::c_sort(devices);
    return std::move(placed_);
  }

 private:
  std::vector<size_t> HardestFirst() const {
    std::vector<size_t> order(models_.size());
    std::iota(order.begin(), order.end(), 0);
    absl::c_stable_sort(order, [&](size_t a, size_t b) {
      if (models_[a].pinned != models_[b].pinned) return models_[a].pinned;
      return models_[a].weight_bytes > models_[b].weight_bytes;
    });
    return order;
  }

  // Bytes that the device has for more weights.
  int64_t RoomOn(size_t device) const {
    const int64_t all = devices_[device].bytes;
    return used_[device] == 0 ? all : all - all / kPartForGraphs - used_[device];
  }

  // The device without the model that has most room.
  std::optional<size_t> Widest(size_t model) const {
    std::optional<size_t> widest;
    for (size_t device = 0; device < devices_.size(); ++device) {
      if (absl::c_linear_search(placed_[model], device)) continue;
      if (!widest || RoomOn(device) > RoomOn(*widest)) widest = device;
    }
    return widest;
  }

  bool HasRoom(size_t model, size_t device) const {
    return models_[model].weight_bytes <= RoomOn(device);
  }

  void Put(size_t model, size_t device) {
    placed_[model].push_back(device);
    used_[device] += models_[model].weight_bytes;
  }

  void PlaceFirst(size_t model) {
    const std::optional<size_t> device = Widest(model);
    if (device && (models_[model].pinned || HasRoom(model, *device))) Put(model, *device);
  }

  bool PlaceOneMoreOfEach() {
    bool any = false;
    for (size_t model = 0; model < models_.size(); ++model) {
      const std::optional<size_t> device = Widest(model);
      if (placed_[model].empty() || !device || !HasRoom(model, *device)) continue;
      Put(model, *device);
      any = true;
    }
    return any;
  }

  const absl::Span<const PlacedModel> models_;
  const absl::Span<const DeviceRoom> devices_;
  std::vector<int64_t> used_;                // bytes of weights, by device
  std::vector<std::vector<size_t>> placed_;  // devices, by model
};

}  // namespace

std::vector<std::vector<size_t>> PlaceModels(absl::Span<const PlacedModel> models,
                                             absl::Span<const DeviceRoom> devices) {
  return Placing(models, devices).Run();
}

}  // namespace latentd::pipeline
