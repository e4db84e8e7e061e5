#include "client/output/memory_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/words/text.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;

using Rows = std::vector<std::vector<std::string>>;

void Append(Rows& rows, const Rows& more) { rows.insert(rows.end(), more.begin(), more.end()); }

int64_t OnDevice(const v1::MemoryReport& m) {
  return m.weights_bytes() + m.kept_tensors_bytes() + m.arena_bytes() + m.state_bytes() +
         m.executables_bytes();
}

int64_t OnHost(const v1::MemoryReport& m) {
  return m.results_bytes() + m.artifacts_bytes() + m.graph_definitions_bytes() +
         m.waiting_images_bytes();
}

Rows WeightRows(const v1::MemoryReport& m) {
  Rows rows = {{"MODEL", "WEIGHTS", "BYTES", "SHARED", "USERS"}};
  for (const v1::ComponentMemory& c : m.weights()) {
    rows.push_back({c.model().empty() ? "-" : c.model(), c.component(), BytesText(c.bytes()),
                    BytesText(c.shared_bytes()), absl::StrJoin(c.users(), ", ")});
  }
  return rows;
}

// Predictions, beside what is held of them.
Rows PredictedRows(const v1::MemoryReport& m) {
  const v1::MemoryPrediction& p = m.predicted();
  Rows rows = {
      {"weights", BytesText(m.weights_bytes()), BytesText(p.weights_bytes())},
      {"arena", BytesText(m.arena_bytes()), BytesText(p.arena_bytes())},
      {"state of pictures", BytesText(m.state_bytes()), BytesText(p.state_bytes())},
      {"loaded graphs", BytesText(m.executables_bytes()), BytesText(p.executables_bytes())}};
  if (m.kept_tensors_bytes() > 0) {
    rows.push_back({"tensors for LoRAs", BytesText(m.kept_tensors_bytes())});
  }
  return rows;
}

Rows HostRows(const v1::MemoryReport& m) {
  return {{"finished pictures", BytesText(m.results_bytes())},
          {"compiled graphs", BytesText(m.artifacts_bytes())},
          {"graph definitions", BytesText(m.graph_definitions_bytes())},
          {"waiting images", BytesText(m.waiting_images_bytes())}};
}

Rows ProcessRows(const v1::MemoryReport& m) {
  return {{"malloc", BytesText(m.allocator_bytes())},
          {"  of it free", BytesText(m.allocator_free_bytes())},
          {"process", BytesText(m.resident_bytes())},
          {"  at most", BytesText(m.peak_resident_bytes())},
          {"machine has left", BytesText(m.host_available_bytes())}};
}

// As the driver counts; nothing where it does not answer.
Rows DriverRows(const v1::DeviceMemory& device, int64_t predicted) {
  if (device.total_bytes() == 0) return {};
  return {{"kept for reuse", BytesText(device.idle_bytes())},
          {"other", BytesText(device.other_bytes())},
          {"in use", BytesText(device.total_bytes() - device.free_bytes()),
           BytesText(predicted + device.other_bytes())},
          {"free", BytesText(device.free_bytes())},
          {"total", BytesText(device.total_bytes())}};
}

// Each of several devices by itself.
Rows EachDevice(const v1::MemoryReport& m) {
  Rows rows = {{"DEVICE", "HELD", "REUSE", "OTHER", "FREE", "TOTAL"}};
  for (const v1::DeviceMemory& device : m.devices()) {
    rows.push_back({device.name(), BytesText(device.held_bytes()), BytesText(device.idle_bytes()),
                    BytesText(device.other_bytes()), BytesText(device.free_bytes()),
                    BytesText(device.total_bytes())});
  }
  return rows;
}

// Empty where the server is too old to say.
std::string ClientsText(const v1::MemoryReport& m) {
  if (m.clients().empty()) return "";
  Rows rows = {{"CLIENTS", "NOW", "AT MOST"}};
  for (const v1::ClientMemory& held : m.clients()) {
    rows.push_back({absl::StrReplaceAll(held.kind(), {{"_", " "}}), BytesText(held.bytes())});
    if (held.limit_bytes() > 0) rows.back().push_back(BytesText(held.limit_bytes()));
  }
  return absl::StrCat("\n", TableText(rows));
}

std::string OneMemoryText(const v1::MemoryReport& m) {
  Rows rows = {{"DEVICE AND HOST", "NOW", "PREDICTED"}};
  Append(rows, PredictedRows(m));
  rows.insert(rows.begin() + 2,
              Rows::value_type{"  mapped from files", BytesText(m.mapped_bytes())});
  Append(rows, HostRows(m));
  Append(rows,
         {{"together", BytesText(OnDevice(m) + OnHost(m)), BytesText(m.predicted().total_bytes())},
          {"  budget", BytesText(m.budget_bytes())}});
  Append(rows, ProcessRows(m));
  return TableText(rows);
}

std::string DeviceText(const v1::MemoryReport& m) {
  const int64_t predicted = m.predicted().total_bytes();
  const bool is_one = m.devices_size() == 1;
  Rows rows = {
      {is_one ? absl::StrCat("DEVICE: ", m.devices(0).name()) : "DEVICES", "NOW", "PREDICTED"}};
  Append(rows, PredictedRows(m));
  Append(rows, {{"together", BytesText(OnDevice(m)), BytesText(predicted)},
                {"  budget", BytesText(m.budget_bytes())}});
  if (!is_one) return absl::StrCat(TableText(rows), "\n", TableText(EachDevice(m)));
  Append(rows, DriverRows(m.devices(0), predicted));
  return TableText(rows);
}

std::string HostText(const v1::MemoryReport& m) {
  Rows rows = {{"HOST", "NOW"}};
  Append(rows, HostRows(m));
  rows.push_back({"together", BytesText(OnHost(m))});
  rows.push_back({"pinned for copies", BytesText(m.pinned_bytes())});
  Append(rows, ProcessRows(m));
  return TableText(rows);
}

}  // namespace

std::string MemoryText(const v1::MemoryReport& report) {
  const std::string weights = TableText(WeightRows(report));
  const std::string clients = ClientsText(report);
  if (report.devices().empty()) return absl::StrCat(weights, "\n", OneMemoryText(report), clients);
  return absl::StrCat(weights, "\n", DeviceText(report), "\n", HostText(report), clients);
}

}  // namespace latentd::client
