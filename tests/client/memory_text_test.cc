#include "client/output/memory_text.h"

#include <gtest/gtest.h>

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;

constexpr int64_t kMiB = int64_t{1} << 20;

v1::MemoryReport Report() {
  v1::MemoryReport report;
  v1::ComponentMemory& vae = *report.add_weights();
  vae.set_component("vae");
  vae.set_bytes(40 * kMiB);
  vae.set_shared_bytes(30 * kMiB);
  vae.add_users("base");
  vae.add_users("refiner");
  v1::ComponentMemory& unet = *report.add_weights();
  unet.set_model("refiner");
  unet.set_component("unet");
  unet.set_bytes(60 * kMiB);
  unet.add_users("refiner");
  report.set_weights_bytes(100 * kMiB);
  report.set_arena_bytes(20 * kMiB);
  report.set_executables_bytes(5 * kMiB);
  report.set_results_bytes(3 * kMiB);
  report.set_artifacts_bytes(2 * kMiB);
  report.set_graph_definitions_bytes(kMiB);
  report.set_waiting_images_bytes(kMiB);
  report.set_allocator_bytes(90 * kMiB);
  report.set_allocator_free_bytes(9 * kMiB);
  report.set_resident_bytes(200 * kMiB);
  report.set_peak_resident_bytes(210 * kMiB);
  report.set_budget_bytes(500 * kMiB);
  report.set_available_bytes(400 * kMiB);
  report.set_host_available_bytes(400 * kMiB);
  v1::MemoryPrediction& predicted = *report.mutable_predicted();
  predicted.set_weights_bytes(100 * kMiB);
  predicted.set_arena_bytes(20 * kMiB);
  predicted.set_state_bytes(10 * kMiB);
  predicted.set_executables_bytes(5 * kMiB);
  predicted.set_total_bytes(135 * kMiB);
  return report;
}

TEST(MemoryTextTest, ADeviceWithoutMemoryOfItsOwnIsOneWithTheHost) {
  v1::MemoryReport report = Report();
  report.set_mapped_bytes(8 * kMiB);
  EXPECT_EQ(MemoryText(report),
            "MODEL    WEIGHTS  BYTES     SHARED    USERS\n"
            "-        vae      40.0 MiB  30.0 MiB  base, refiner\n"
            "refiner  unet     60.0 MiB  0         refiner\n"
            "\n"
            "DEVICE AND HOST      NOW        PREDICTED\n"
            "weights              100.0 MiB  100.0 MiB\n"
            "  mapped from files  8.0 MiB\n"
            "arena                20.0 MiB   20.0 MiB\n"
            "state of pictures    0          10.0 MiB\n"
            "loaded graphs        5.0 MiB    5.0 MiB\n"
            "finished pictures    3.0 MiB\n"
            "compiled graphs      2.0 MiB\n"
            "graph definitions    1.0 MiB\n"
            "waiting images       1.0 MiB\n"
            "together             132.0 MiB  135.0 MiB\n"
            "  budget             500.0 MiB\n"
            "malloc               90.0 MiB\n"
            "  of it free         9.0 MiB\n"
            "process              200.0 MiB\n"
            "  at most            210.0 MiB\n"
            "machine has left     400.0 MiB\n");
}

v1::MemoryReport ReportOfGpu() {
  v1::MemoryReport report = Report();
  v1::DeviceMemory& device = *report.add_devices();
  device.set_name("a GPU");
  device.set_total_bytes(990 * kMiB);
  device.set_free_bytes(790 * kMiB);
  device.set_held_bytes(125 * kMiB);
  device.set_idle_bytes(15 * kMiB);
  device.set_other_bytes(60 * kMiB);
  report.set_pinned_bytes(4 * kMiB);
  return report;
}

TEST(MemoryTextTest, ADevicesMemoryAddsUpToWhatItsDriverSaysAndTheHostsIsBesideIt) {
  const std::string text = MemoryText(ReportOfGpu());
  EXPECT_EQ(text.substr(text.find("DEVICE")),
            "DEVICE: a GPU      NOW        PREDICTED\n"
            "weights            100.0 MiB  100.0 MiB\n"
            "arena              20.0 MiB   20.0 MiB\n"
            "state of pictures  0          10.0 MiB\n"
            "loaded graphs      5.0 MiB    5.0 MiB\n"
            "together           125.0 MiB  135.0 MiB\n"
            "  budget           500.0 MiB\n"
            "kept for reuse     15.0 MiB\n"
            "other              60.0 MiB\n"
            "in use             200.0 MiB  195.0 MiB\n"
            "free               790.0 MiB\n"
            "total              990.0 MiB\n"
            "\n"
            "HOST               NOW\n"
            "finished pictures  3.0 MiB\n"
            "compiled graphs    2.0 MiB\n"
            "graph definitions  1.0 MiB\n"
            "waiting images     1.0 MiB\n"
            "together           7.0 MiB\n"
            "pinned for copies  4.0 MiB\n"
            "malloc             90.0 MiB\n"
            "  of it free       9.0 MiB\n"
            "process            200.0 MiB\n"
            "  at most          210.0 MiB\n"
            "machine has left   400.0 MiB\n");
}

TEST(MemoryTextTest, TensorsKeptForLorasAreALineWhereThereAreAny) {
  v1::MemoryReport report = ReportOfGpu();
  report.set_kept_tensors_bytes(6 * kMiB);
  const std::string text = MemoryText(report);
  EXPECT_NE(text.find("loaded graphs      5.0 MiB    5.0 MiB\n"
                      "tensors for LoRAs  6.0 MiB\n"
                      "together           131.0 MiB  135.0 MiB\n"),
            std::string::npos)
      << text;
}

TEST(MemoryTextTest, ADriverThatDoesNotAnswerIsNotQuoted) {
  v1::MemoryReport report = ReportOfGpu();
  report.mutable_devices(0)->clear_total_bytes();
  const std::string text = MemoryText(report);
  EXPECT_NE(text.find("  budget           500.0 MiB\n\nHOST"), std::string::npos) << text;
}

TEST(MemoryTextTest, SeveralDevicesAreShownTogetherAndEachByItself) {
  v1::MemoryReport report = ReportOfGpu();
  *report.add_devices() = report.devices(0);
  report.mutable_devices(1)->set_name("another");
  const std::string text = MemoryText(report);
  EXPECT_NE(text.find("DEVICES            NOW        PREDICTED\n"), std::string::npos) << text;
  EXPECT_NE(text.find("DEVICE   HELD       REUSE     OTHER     FREE       TOTAL\n"
                      "a GPU    125.0 MiB  15.0 MiB  60.0 MiB  790.0 MiB  990.0 MiB\n"
                      "another  125.0 MiB  15.0 MiB  60.0 MiB  790.0 MiB  990.0 MiB\n"),
            std::string::npos)
      << text;
}

TEST(MemoryTextTest, OfClientsItSaysWhatTheyHoldAndMayHold) {
  for (v1::MemoryReport report : {Report(), ReportOfGpu()}) {
    const std::string without = MemoryText(report);
    v1::ClientMemory& received = *report.add_clients();
    received.set_kind("received_requests");
    received.set_bytes(3 * kMiB);
    received.set_limit_bytes(80 * kMiB);
    v1::ClientMemory& decoded = *report.add_clients();
    decoded.set_kind("decoded_images");
    decoded.set_bytes(9 * kMiB);
    EXPECT_EQ(MemoryText(report), without +
                                      "\n"
                                      "CLIENTS            NOW      AT MOST\n"
                                      "received requests  3.0 MiB  80.0 MiB\n"
                                      "decoded images     9.0 MiB\n");
  }
}

}  // namespace
}  // namespace latentd::client
