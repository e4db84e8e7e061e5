// A real scrape, docs/metrics.md and core/metrics/families.h, held against each other.
#include "server/process/ports/metrics_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"
#include "server/process/logs/log.h"
#include "server/process/memory/process_metrics.h"
#include "tests/server/fake_engine.h"
#include "tests/server/full_pipe.h"
#include "tests/server/scrape.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server::process {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HttpGet;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ParseScrape;
using testing::Scrape;
using testing::ScrapedFamily;
using ::testing::StartsWith;
using testing::TcpConnection;
using ::testing::UnorderedElementsAreArray;

// As much as a thread usually has, and more than the library's threads do.
void UseStack() {
  volatile char stack[1 << 20];
  for (size_t i = 0; i < sizeof(stack); i += 4096) stack[i] = 1;
}

// One whose gauges are brought up to date by a scrape.
class ScrapedEngine final : public FakeEngine {
 public:
  explicit ScrapedEngine(std::function<void()> refresh = UseStack) : refresh_(std::move(refresh)) {
    metrics().Declare(metrics::Declared::kBuckets, {"256x256", "320x192"});
    metrics().Declare(metrics::Declared::kModels, {"base", "refiner"});
    metrics().Declare(metrics::Declared::kDevices, {"0", "1"});
    metrics().GetGauge(metrics::kBuildInfo, {"0.1.0"}).Set(1);
    metrics().GetGauge(metrics::kBackendInfo, {"isa-avx2 threads-2"}).Set(1);
    metrics().GetGauge(metrics::kModelInfo, {"base", "sdxl", "Pipeline", "cpu"}).Set(1);
  }
  void RefreshMetrics() override {
    metrics().GetGauge(metrics::kQueueDepth, {"256x256"}).Increment();
    refresh_();
  }

 private:
  const std::function<void()> refresh_;
};

const Health kHealth([] { return engine::Hangs(); });

class MetricsEndpointTest : public ::testing::Test {
 protected:
  // One for all: ending it takes up to two seconds.
  static void SetUpTestSuite() {
    engine_ = new ScrapedEngine;
    ASSERT_OK_AND_ASSIGN(auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", *engine_, kHealth));
    endpoint_ = endpoint.release();
  }
  static void TearDownTestSuite() {
    delete endpoint_;
    delete engine_;
  }

  std::string Get(const std::string& path) { return HttpGet(endpoint_->address(), path); }
  // These bytes, and what comes of them.
  std::string Send(absl::string_view bytes) {
    TcpConnection connection(endpoint_->address());
    connection.Send(bytes);
    return connection.ReadAll();
  }

  static inline ScrapedEngine* engine_ = nullptr;
  static inline MetricsEndpoint* endpoint_ = nullptr;
};

TEST_F(MetricsEndpointTest, AScrapeShowsWhatTheEngineCounted) {
  engine_->metrics()
      .GetCounter(metrics::kGraphCompilations, {"base", "unet", "startup"})
      .Increment(3);
  engine_->metrics().GetHistogram(metrics::kStepSeconds, {"base", "256x256"}).Observe(0.03);
  engine_->metrics().GetHistogram(metrics::kStepSeconds, {"base", "256x256"}).Observe(100);
  const std::string text = Get("/metrics");
  for (const char* line : {
           "latentd_graph_compilations_total{model=\"base\",component=\"unet\",reason=\"startup\"} "
           "3\n",
           "latentd_graph_compilations_total{model=\"refiner\",component=\"vae_decoder\",reason="
           "\"retry\"} 0\n",
           "latentd_denoise_step_duration_seconds_count{model=\"base\",bucket=\"256x256\"} 2\n",
           "bucket{model=\"base\",bucket=\"256x256\",le=\"0.025\"} 0\n",
           "bucket{model=\"base\",bucket=\"256x256\",le=\"0.05\"} 1\n",
           "bucket{model=\"base\",bucket=\"256x256\",le=\"30\"} 1\n",
           "bucket{model=\"base\",bucket=\"256x256\",le=\"+Inf\"} 2\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(MetricsEndpointTest, EachScrapeBringsGaugesUpToDate) {
  const metrics::Gauge& depth = engine_->metrics().GetGauge(metrics::kQueueDepth, {"256x256"});
  for (int i = 0; i < 2; ++i) {
    const double next = depth.Value() + 1;
    EXPECT_THAT(Get("/metrics"),
                HasSubstr(absl::StrCat("latentd_queue_depth{bucket=\"256x256\"} ", next, "\n")));
  }
}

TEST_F(MetricsEndpointTest, EachScrapeBringsUpToDateWhatIsNotTheEngines) {
  FakeEngine engine;
  metrics::Gauge& log = engine.metrics().GetGauge(metrics::kClientMemory, {"log"});
  ASSERT_OK_AND_ASSIGN(const auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", engine, kHealth,
                                                                   [&log] { log.Increment(3); }));
  for (const char* bytes : {"3", "6"}) {
    EXPECT_THAT(HttpGet(endpoint->address(), "/metrics"),
                HasSubstr(absl::StrCat("latentd_client_memory_bytes{kind=\"log\"} ", bytes, "\n")));
  }
}

TEST_F(MetricsEndpointTest, AScrapeThatThereIsNoMemoryForLeavesTheProcessAlive) {
  ScrapedEngine engine([] { throw std::bad_alloc(); });
  ASSERT_OK_AND_ASSIGN(const auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", engine, kHealth));
  EXPECT_THAT(HttpGet(endpoint->address(), "/metrics"), StartsWith("HTTP/1.1 503"));
}

// Standard error is a pipe without a reader. REQUIRES: a process of its own.
[[noreturn]] void LoseLinesAndScrape() {
  const int console = dup(STDERR_FILENO);
  testing::FullPipe pipe;
  dup2(pipe.writer(), STDERR_FILENO);
  SetUpLogging(latent::v1::TEXT, latent::v1::INFO);
  for (int i = 0; i < 5000; ++i) Log(latent::v1::INFO, "line");
  FakeEngine engine;
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", engine, kHealth);
  const std::string text = absl::StrCat(HttpGet((*endpoint)->address(), "/metrics"), "\n",
                                        WaitingLogBytes(), " bytes wait\n");
  dup2(console, STDERR_FILENO);
  std::fputs(text.c_str(), stderr);
  std::_Exit(0);
}

TEST_F(MetricsEndpointTest, LinesOfTheLogThatWereDroppedAndThatWaitAreCounted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoseLinesAndScrape(), ::testing::ExitedWithCode(0),
              AllOf(::testing::ContainsRegex("\nlatentd_log_lines_dropped_total (90[34])\n"),
                    HasSubstr("\n16384 bytes wait\n")));  // 4096 lines
}

TEST_F(MetricsEndpointTest, AnAnswerSaysThatTheConnectionIsClosed) {
  for (const char* request :
       {"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n", "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: keep-alive\r\n\r\n",
        "GET /metrics?name[]=up&x=%20 HTTP/1.1\r\nHost: test\r\n\r\n",
        "HEAD /metrics HTTP/1.1\r\nHost: test\r\n\r\n",
        // A second request in the same bytes is not answered.
        "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"
        "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"}) {
    const std::string answer = Send(request);
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\nConnection: close\r\n")))
        << request;
    EXPECT_EQ(answer.find("HTTP/1.1 ", 1), answer.npos) << request;
  }
  EXPECT_THAT(Send("GET /other HTTP/1.1\r\nHost: test\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("\r\nConnection: close\r\n")));
}

TEST_F(MetricsEndpointTest, HeadIsTheSameWithoutTheMetrics) {
  const std::string head = Send("HEAD /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
  EXPECT_THAT(head, AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                          EndsWith("\r\n\r\n"), Not(HasSubstr("Content-Length: 0\r\n"))));
}

TEST_F(MetricsEndpointTest, OtherMethodsHearWhichAreAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    EXPECT_THAT(Send(absl::StrCat(method,
                                  " /metrics HTTP/1.1\r\nHost: test\r\nOrigin: http://test\r\n"
                                  "Access-Control-Request-Method: GET\r\n\r\n")),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n")))
        << method;
  }
}

TEST_F(MetricsEndpointTest, AnAbsoluteUriIsAnsweredWhateverTheHostIsCalled) {
  const std::string port = endpoint_->address().substr(endpoint_->address().rfind(':'));
  for (const char* host : {"127.0.0.1", "localhost", "metrics.example.org"}) {
    EXPECT_THAT(
        Send(absl::StrCat("GET http://", host, port, "/metrics HTTP/1.1\r\nHost: test\r\n\r\n")),
        AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("latentd_build_info")))
        << host;
  }
}

TEST_F(MetricsEndpointTest, AScrapeIsCompressedForClientsThatTakeIt) {
  const std::string plain = Get("/metrics");
  for (const char* takes : {"gzip", "deflate, GZIP;q=0.5", "*"}) {
    const std::string answer = Send(absl::StrCat(
        "GET /metrics HTTP/1.1\r\nHost: test\r\nAccept-Encoding: ", takes, "\r\n\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Encoding: gzip\r\n")) << takes;
    EXPECT_THAT(answer, HasSubstr("\r\n\r\n\x1f\x8b")) << takes;
    EXPECT_LT(answer.size(), plain.size() / 4);
  }
  for (const char* refuses : {"identity", "gzip;q=0", "br", "gzip; q=0.0, identity"}) {
    EXPECT_THAT(Send(absl::StrCat("GET /metrics HTTP/1.1\r\nHost: test\r\nAccept-Encoding: ",
                                  refuses, "\r\n\r\n")),
                AllOf(Not(HasSubstr("Content-Encoding")), HasSubstr("latentd_build_info")))
        << refuses;
  }
}

TEST_F(MetricsEndpointTest, NoOtherPagesAreThere) {
  EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/etc/passwd"), StartsWith("HTTP/1.1 404"));
}

TEST_F(MetricsEndpointTest, AScrapeHoldsEveryFamilyAsDeclared) {
  const Scrape scrape = ParseScrape(Get("/metrics"));
  for (const metrics::Family* family : metrics::kFamilies) {
    ASSERT_TRUE(scrape.contains(family->name)) << family->name;
    const ScrapedFamily& scraped = scrape.at(family->name);
    EXPECT_EQ(scraped.help, family->help);
    EXPECT_EQ(scraped.type, testing::TypeName(family->type)) << family->name;
    for (const auto& [name, values] : scraped.labels) {
      const auto* label = std::find_if(
          family->labels, family->labels + family->label_count(),
          [&, &name = name](const metrics::Label& candidate) { return candidate.name == name; });
      ASSERT_NE(label, family->labels + family->label_count()) << family->name << ' ' << name;
      if (label->is_free()) continue;
      std::vector<std::string> expected = absl::StrSplit(label->values, ',', absl::SkipEmpty());
      using metrics::Declared;
      if (label->declared == Declared::kBuckets) {
        expected.insert(expected.end(), {"256x256", "320x192"});
      }
      if (label->declared == Declared::kModels) {
        expected.insert(expected.end(), {"base", "refiner"});
      }
      if (label->declared == Declared::kDevices) {
        expected.insert(expected.end(), {"0", "1"});
      }
      EXPECT_THAT(values, UnorderedElementsAreArray(expected)) << family->name;
    }
    EXPECT_EQ(scraped.labels.size(), family->label_count()) << family->name;
  }
}

// The cell of docs/metrics.md that says which values the labels can have.
std::string LabelsCell(const metrics::Family& family) {
  std::vector<std::string> cells;
  for (size_t i = 0; i < family.label_count(); ++i) {
    const metrics::Label& label = family.labels[i];
    std::vector<std::string> values = absl::StrSplit(label.values, ',', absl::SkipEmpty());
    using metrics::Declared;
    if (label.declared == Declared::kBuckets) values.insert(values.begin(), "the buckets");
    if (label.declared == Declared::kDevices) values.insert(values.begin(), "the devices");
    if (label.declared == Declared::kModels) values.insert(values.begin(), "the models");
    if (label.is_free()) values = {"free"};
    cells.push_back(absl::StrCat("`", label.name, "`: ", absl::StrJoin(values, ", ")));
  }
  return absl::StrJoin(cells, "; ");
}

std::string Row(absl::string_view name, absl::string_view type, absl::string_view labels,
                absl::string_view help) {
  return absl::StrCat("| `", name, "` | ", type, " | ", labels, " | ", help, " |");
}

TEST_F(MetricsEndpointTest, TheTableInTheDocumentationIsComplete) {
  Scrape scrape = ParseScrape(Get("/metrics"));
  std::vector<std::string> expected;
  for (const metrics::Family* family : metrics::kFamilies) {
    expected.push_back(
        Row(family->name, testing::TypeName(family->type), LabelsCell(*family), family->help));
    scrape.erase(family->name);
  }
  for (const prometheus::MetricFamily& family : CollectProcessMetrics()) {
    expected.push_back(Row(family.name, scrape[family.name].type, "", scrape[family.name].help));
    scrape.erase(family.name);
  }
  EXPECT_THAT(scrape, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadFile(::latentd::testing::SourcePath("docs/metrics.md"), 1 << 20));
  std::vector<std::string> rows;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "| `")) rows.emplace_back(line);
  }
  EXPECT_THAT(rows, ElementsAreArray(expected)) << absl::StrJoin(expected, "\n");
}

TEST_F(MetricsEndpointTest, PromtoolFindsNoFault) {
  const char* given = std::getenv("LATENTD_PROMTOOL");
  const std::string promtool = given != nullptr ? given : LATENTD_PROMTOOL;
  ASSERT_TRUE(std::filesystem::exists(promtool))
      << promtool << ": deploy/dependencies --tests unpacks it, and LATENTD_PROMTOOL names another";
  const std::string answer = Get("/metrics");
  const latentd::testing::TemporaryDirectory directory;
  latentd::testing::WriteFile(directory.File("scrape"), answer.substr(answer.find("\r\n\r\n") + 4));
  const std::string command =
      absl::StrCat("'", promtool, "' check metrics < '", directory.File("scrape"), "' 2>&1");
  FILE* output = popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  std::string findings;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) findings.push_back(c);
  EXPECT_EQ(pclose(output), 0) << findings;
}

TEST_F(MetricsEndpointTest, AnAddressThatCannotBeHadIsNamed) {
  EXPECT_THAT(MetricsEndpoint::Start(endpoint_->address(), *engine_, kHealth),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr(endpoint_->address()), HasSubstr("in use"))));
  for (const char* wrong : {"192.0.2.1:0", "127.0.0.1:0,127.0.0.1:0"}) {
    EXPECT_THAT(MetricsEndpoint::Start(wrong, *engine_, kHealth),
                testing::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(wrong)));
  }
}

// Debian's civetweb has no IPv6.
TEST_F(MetricsEndpointTest, AnIpv6AddressIsListenedOnOrRefusedWithTheReason) {
  const auto other = MetricsEndpoint::Start("[::1]:0", *engine_, kHealth);
  if (other.ok()) return;
  EXPECT_THAT(other, testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                       AllOf(HasSubstr("[::1]:0"), HasSubstr("IPv4"))));
}

TEST_F(MetricsEndpointTest, ANameIsAnAddressToo) {
  ASSERT_OK_AND_ASSIGN(const auto other, MetricsEndpoint::Start("localhost:0", *engine_, kHealth));
  EXPECT_THAT(other->address(), StartsWith("localhost:"));
  EXPECT_THAT(HttpGet(other->address(), "/metrics"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace latentd::server::process
