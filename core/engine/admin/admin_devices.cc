#include "core/engine/admin/admin_devices.h"

#include "absl/algorithm/container.h"
#include "core/engine/api/serving.h"
#include "core/engine/reports/device_reports.h"

namespace latentd::engine {

absl::Status AdminDevice::CheckNotStopping() const {
  return stop ? DrainingError() : absl::OkStatus();
}

std::vector<size_t> AdminDevices::Left() const {
  std::vector<size_t> left;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i].retired) left.push_back(i);
  }
  return left;
}

absl::Status AdminDevices::CheckOpen() const {
  const bool open = absl::c_all_of(Left(), [this](size_t i) { return devices_[i].open.load(); });
  return open ? absl::OkStatus() : LoadingError();
}

bool AdminDevices::IsElsewhere(size_t device, pipeline::ModelId model) const {
  const auto has = [&](size_t i) { return devices_[i].models.pipeline->table()[model].is_placed; };
  return !has(device) && absl::c_any_of(Left(), has);
}

MemoryReport AdminDevices::memory() const {
  std::vector<std::string> names;
  std::vector<MemoryReport> reports;
  for (const size_t i : Left()) {
    names.push_back(names_[i]);
    reports.push_back(devices_[i].memory.Report());
  }
  return MergeReports(names, reports);
}

}  // namespace latentd::engine
