#include "server/process/memory/process_metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/files/files.h"

namespace latentd::server::process {
namespace {

using ::testing::ElementsAre;

const prometheus::MetricFamily* Find(const std::vector<prometheus::MetricFamily>& families,
                                     const std::string& name) {
  for (const prometheus::MetricFamily& family : families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

double Gauge(const std::string& name) {
  const auto families = CollectProcessMetrics();
  const prometheus::MetricFamily* family = Find(families, name);
  return family == nullptr ? -1 : family->metric.at(0).gauge.value;
}

TEST(ProcessMetricsTest, BootTimeIsALineOfItsOwn) {
  EXPECT_EQ(ParseBootTime("cpu  1 2 3\nctxt 99\nbtime 1795280715\nprocesses 7\n"), 1795280715);
  EXPECT_EQ(ParseBootTime("btime 5"), 5);
  EXPECT_EQ(ParseBootTime("cpu 1\nxbtime 5\nbtime many\n"), std::nullopt);
  EXPECT_EQ(ParseBootTime(""), std::nullopt);
}

TEST(ProcessMetricsTest, EverythingIsKnownOfThisProcess) {
  std::vector<std::string> names;
  for (const prometheus::MetricFamily& family : CollectProcessMetrics()) {
    names.push_back(family.name);
    EXPECT_FALSE(family.help.empty());
    EXPECT_EQ(family.metric.size(), 1u);
  }
  EXPECT_THAT(names, ElementsAre("process_cpu_seconds_total", "process_resident_memory_bytes",
                                 "process_virtual_memory_bytes", "process_start_time_seconds",
                                 "process_open_fds", "process_max_fds", "process_threads"));
  EXPECT_GE(Gauge("process_threads"), 1);
  EXPECT_GT(Gauge("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(Gauge("process_virtual_memory_bytes"), Gauge("process_resident_memory_bytes"));
}

TEST(ProcessMetricsTest, AnOpenFileIsCounted) {
  const double before = Gauge("process_open_fds");
  EXPECT_LT(before, Gauge("process_max_fds"));
  const FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Gauge("process_open_fds"), before + 1);
}

}  // namespace
}  // namespace latentd::server::process
