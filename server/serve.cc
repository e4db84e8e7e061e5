#include "server/serve.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/admin_socket.h"
#include "core/base/process/memory_limit.h"
#include "core/base/text/host_port.h"
#include "core/base/threads/thread_watch.h"
#include "core/base/threads/threads.h"
#include "server/grpc_server.h"
#include "server/http/request/http_defaults.h"
#include "server/process/lifetime/background_task.h"
#include "server/process/lifetime/exit_timer.h"
#include "server/process/lifetime/health.h"
#include "server/process/lifetime/signals.h"
#include "server/process/lifetime/status_follower.h"
#include "server/process/logs/log.h"
#include "server/process/logs/startup_log.h"
#include "server/process/memory/client_memory.h"
#include "server/process/memory/heap_trim.h"
#include "server/process/ports/connection_limit.h"
#include "server/process/ports/listen_address.h"
#include "server/process/ports/metrics_endpoint.h"
#include "server/tls/api_key_file.h"
#include "server/tracing/otlp_client.h"
#include "server/tracing/resource.h"
#include "server/tracing/span_sender.h"
#include "server/watchdog.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

constexpr int kUsageError = 2;
constexpr int kDrainOverran = 3;
constexpr int kDeviceFailed = 4;
constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kEndWithoutFiles = absl::Seconds(1);
constexpr absl::Duration kEndWhileLoading = absl::Milliseconds(800);
// For one unit of work, or one compilation, that cannot be interrupted.
constexpr absl::Duration kEndAfterDraining = absl::Seconds(15);
// For clients that read slowly to learn how their calls end.
constexpr absl::Duration kTellOfFault = absl::Seconds(5);
constexpr absl::Duration kEndAfterFault = absl::Seconds(10);
// For a collector to take the spans of calls that have ended.
constexpr absl::Duration kSendLastSpans = absl::Seconds(2);

int Fail(const absl::Status& status) {
  process::Log(v1::ERROR, std::string(status.message()));
  return 1;
}

int FailToStart(const absl::Status& status) {
  const int failed = Fail(status);
  return absl::IsInvalidArgument(status) ? kUsageError : failed;
}

// Loads in a thread of its own, so that signals and health checks are answered meanwhile.
class Loader {
 public:
  Loader(engine::Engine& engine, process::StopSignals& signals, const config::Options& options)
      : engine_(engine),
        signals_(signals),
        options_(options),
        thread_(StartThread("loader", [this] { Load(); })) {}

  // Result of Load, or the reason why a process that exits with this start has not done its work.
  absl::Status Join() {
    thread_.join();
    return status_;
  }

 private:
  void Load() {
    status_ = engine_.Load();
    if (status_.ok() && ExitsNow()) {
      status_ = CheckPrepared();
    } else if (status_.ok()) {
      return;
    }
    signals_.RequestStop(Cause());
  }

  const char* Cause() const {
    if (!status_.ok()) return "the start failed";
    return options_.exit_when_ready ? "--exit-when-ready" : "--exit-if-degraded";
  }

  bool ExitsNow() const {
    const bool degraded = engine_.state() == engine::State::kDegraded;
    return options_.exit_when_ready || (options_.exit_if_degraded && degraded);
  }

  // OK if a server that starts now would find everything compiled, but for what this one does
  // without, too.
  absl::Status CheckPrepared() const {
    const engine::ServerStatus status = engine_.status();
    if (status.state != engine::State::kReady) {
      return absl::UnavailableError(absl::StrCat("not ready: ", status.reason));
    }
    ASSIGN_OR_RETURN(const std::vector<engine::GraphEntry> graphs,
                     engine_.graphs().List({.all = true}));
    engine::GraphSelector wanted;
    for (const engine::GraphEntry& graph : graphs) {
      const bool left_out = engine::IsDispensable(graph.component, graph.part, graph.rows) &&
                            !engine::IsCompiled(graph.state);
      if (!left_out) wanted.ids.push_back(graph.id);
    }
    ASSIGN_OR_RETURN(const std::vector<engine::EntryResult> saved, engine_.graphs().Save(wanted));
    for (const engine::EntryResult& entry : saved) RETURN_IF_ERROR(entry.status);
    return absl::OkStatus();
  }

  engine::Engine& engine_;
  process::StopSignals& signals_;
  const config::Options& options_;
  absl::Status status_;  // written before the thread ends
  std::thread thread_;
};

process::ClientMemory ClientMemoryFor(const config::Options& options) {
  const engine::Config& engine = options.engine;
  // A GPU's budget is none of the host's.
  const int64_t configured = engine.backend == "cuda" ? 0 : engine.memory_bytes;
  const bool draws_videos = absl::c_any_of(
      engine.models, [](const pipeline::ModelSource& model) { return model.draws_videos; });
  return process::ClientMemoryOf(MeasureAvailableMemory().bytes, configured,
                                 options.max_request_bytes, engine.picture_memory_bytes,
                                 draws_videos && !options.http_listen.empty());
}

engine::Config EngineConfig(const config::Options& options,
                            const process::ClientMemory& of_clients) {
  engine::Config config = options.engine;
  config.picture_memory_bytes = of_clients.picture_bytes;
  if (config.backend != "cuda") config.memory_bytes = of_clients.engine_bytes;
  config.warn = [](absl::string_view text) { process::Log(v1::WARNING, text); };
  config.note = [](absl::string_view text) { process::Log(v1::INFO, text); };
  config.load_waits_for_shared_steps = options.exit_when_ready;
  return config;
}

// OK unless the process is to fill a cache and has none: it would compile for nothing.
absl::Status CheckCanFillCache(const config::Options& options) {
  const std::string& cache = options.engine.cache_dir;
  std::error_code error;
  if (!options.exit_when_ready || std::filesystem::is_directory(cache, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--exit-when-ready compiles for a cache, and nothing would be kept: ",
      cache.empty() ? "there is no --cache-dir" : absl::StrCat("--cache-dir=", cache, " is none"),
      "; --cache-dir=DIRECTORY names one"));
}

// Null if callers need none.
absl::StatusOr<std::unique_ptr<tls::ApiKeyFile>> OpenApiKeys(const config::Options& options) {
  if (options.api_key_file.empty()) return nullptr;
  return tls::ApiKeyFile::Open(options.api_key_file, SystemClock());
}

// Folder for an operators' socket; empty: it is not needed, or cannot be had.
std::string AdminFolder(const config::Options& options) {
  if (!options.admin_listen.empty() || process::IsUnixSocket(options.listen)) return "";
  std::string folder = AdminSocketFolder();
  absl::Status made = MakeOwnFolder(folder);
  if (made.ok()) made = process::CheckCanHoldSockets(folder);
  if (made.ok()) return folder;
  process::Log(
      v1::WARNING,
      absl::StrCat("GraphCache, Admin, Models and Adapters are off, since there is no place for "
                   "their socket: ",
                   made.message(), "; --admin-listen=unix:PATH names another"));
  return "";
}

// Null if spans are not configured.
absl::StatusOr<std::unique_ptr<tracing::SpanSender>> StartSpans(
    const std::optional<tracing::Endpoint>& endpoint, const std::string& version,
    metrics::Registry& registry) {
  if (!endpoint) return nullptr;
  ASSIGN_OR_RETURN(tracing::Resource resource,
                   tracing::MakeResource(version, std::getenv("OTEL_SERVICE_NAME"),
                                         std::getenv("OTEL_RESOURCE_ATTRIBUTES")));
  process::Log(v1::INFO, absl::StrCat("spans to ", endpoint->address), {{"tls", endpoint->tls}});
  return std::make_unique<tracing::SpanSender>(tracing::SpanSender::Options(),
                                               tracing::CollectorAt(*endpoint), std::move(resource),
                                               registry, SystemClock(), &process::Log);
}

void SendLastSpans(tracing::SpanSender* spans) {
  if (spans != nullptr) spans->SendLast(kSendLastSpans);
}

GrpcServer::Options ServerOptions(const config::Options& options, const std::string& version,
                                  tls::ApiKeyFile* api_keys, tracing::SpanSender* spans,
                                  process::StopSignals& signals,
                                  const process::ClientMemory& of_clients) {
  const engine::Config& engine = options.engine;
  // One graph is held in memory on its way; without a cache directory it stays there.
  const int64_t graph_bytes = std::min(engine.graph_memory_bytes, engine.cache_max_bytes);
  const int64_t stream_bytes =
      engine.cache_dir.empty() ? engine.graph_memory_bytes : engine.cache_max_bytes;
  return {.listen = options.listen,
          .admin_listen = options.admin_listen,
          .admin_folder = AdminFolder(options),
          .health_listen = options.health_listen,
          .http_listen = options.http_listen,
          .http_cors_origins = options.http_cors_origins,
          .http_defaults = options.http_defaults,
          .http_page = options.http_page,
          .tls_files = options.tls_files,
          .api_keys = api_keys,
          .max_request_bytes = options.max_request_bytes,
          .received_bytes = of_clients.received_bytes,
          .video_bytes = of_clients.video_bytes,
          .stall_limit = options.stall_timeout,
          .max_connection_age = options.max_connection_age,
          .max_connection_age_grace = options.max_connection_age_grace,
          .version = version,
          .imports = {options.allow_import, {graph_bytes, stream_bytes}},
          .spans = spans,
          .request_stop = [&signals](std::optional<absl::Duration> timeout) {
            signals.RequestStop("Admin/Drain", timeout);
          }};
}

// On a network it is for everyone there, unless clients are asked who they are.
void WarnOfOpenPage(const config::Options& options) {
  const bool asks = !options.api_key_file.empty() || !options.tls_files.client_authority.empty();
  if (!options.http_page || asks || IsLoopback(options.http_listen)) return;
  process::Log(v1::WARNING,
               "the page at --http-listen draws for everyone who reaches it: --api-key-file or "
               "--tls-client-ca asks who that is");
}

void LogAddresses(const GrpcServer& server, const tls::TlsFiles& tls, const std::string& version) {
  process::Log(v1::INFO, absl::StrCat("listening on ", server.address()),
               {{"version", version}, {"tls", !tls.certificate.empty()}});
  if (!server.health_address().empty()) {
    process::Log(v1::INFO, absl::StrCat("health on ", server.health_address()));
  }
  if (!server.http_address().empty()) {
    process::Log(v1::INFO, absl::StrCat("http on ", server.http_address()),
                 {{"tls", !tls.certificate.empty()}});
  }
  const std::string admin = server.admin_address();
  if (!admin.empty() && admin != server.address()) {
    process::Log(v1::INFO, absl::StrCat("admin on ", admin));
  }
}

absl::Status LimitClients(int wanted) {
  ASSIGN_OR_RETURN(const int taken, process::LimitConnections(wanted));
  if (taken < wanted) {
    process::Log(v1::WARNING, absl::StrCat("takes ", taken, " connections instead of ", wanted,
                                           ": it may not open more files (ulimit -n)"));
  }
  return absl::OkStatus();
}

// Null if metrics are not configured.
absl::StatusOr<std::unique_ptr<process::MetricsEndpoint>> StartMetrics(const std::string& listen,
                                                                       engine::Engine& engine,
                                                                       const GrpcServer& server) {
  if (listen.empty()) return nullptr;
  auto metrics = process::MetricsEndpoint::Start(listen, engine, server.health(),
                                                 [&server] { server.ShowClientMemory(); });
  if (metrics.ok()) process::Log(v1::INFO, absl::StrCat("metrics on ", (*metrics)->address()));
  return metrics;
}

void EndWithoutTheUnit(const std::string& cause) {
  process::Log(v1::ERROR, "the drain has overrun: a unit of work does not end; pictures are lost",
               {{"exit_code", kDrainOverran}, {"cause", cause}});
  process::EndAfterLastLine(kDrainOverran);
}

// Work that cannot be interrupted loses no file if it is not awaited: they are written whole or not
// at all. `exit_code` is that of a server that is still loading.
void Stop(process::ExitTimer& timer, GrpcServer& server, engine::State state,
          absl::Duration drain_timeout, int exit_code, const std::string& cause) {
  const bool loading = state == engine::State::kLoading || state == engine::State::kWarming;
  if (loading) {
    timer.Start(kEndWhileLoading, [exit_code, cause] {
      process::EndAtOnce(exit_code, "stopped in the middle of work that cannot be interrupted",
                         cause);
    });
  } else {
    timer.Start(drain_timeout + kEndAfterDraining, [cause] { EndWithoutTheUnit(cause); });
  }
  process::Log(v1::INFO, "stopping",
               {{"cause", cause}, {"drain_timeout_seconds", absl::ToDoubleSeconds(drain_timeout)}});
  server.Drain(loading ? absl::ZeroDuration() : drain_timeout);
}

void LogFault(const std::string& fault) {
  process::Log(v1::ERROR,
               "the device has failed and works no more in this process, which ends: its "
               "supervisor should start it again",
               {{"exit_code", kDeviceFailed}, {"fault", fault}});
}

// Gives nothing back: what waits for a device that has failed may wait for ever.
[[noreturn]] void StopForFault(process::ExitTimer& timer, GrpcServer& server,
                               tracing::SpanSender* spans, const std::string& fault) {
  timer.Start(kEndAfterFault, [] { process::EndAfterLastLine(kDeviceFailed); });
  LogFault(fault);
  server.Drain(kTellOfFault);
  SendLastSpans(spans);
  process::EndAfterLastLine(kDeviceFailed);
}

int ExitCodeOf(const absl::Status& loaded, const config::Options& options) {
  if (!absl::IsCancelled(loaded)) return loaded.ok() ? 0 : Fail(loaded);
  return options.exit_when_ready
             ? Fail(absl::CancelledError("stopped before every graph was ready and in the cache"))
             : 0;
}

// The thread that reads the files of TLS can only be waited for where they can be read.
int Leave(process::BackgroundTask& tls_files, int exit_code, const std::string& cause) {
  if (!tls_files.WaitUntilDone(kEndWithoutFiles)) {
    process::EndAtOnce(exit_code, "stopped while the files of TLS cannot be read", cause);
  }
  return exit_code;
}

// Every second; what there is no memory for comes with the next.
void LookAfter(engine::Engine& engine, GrpcServer& server, process::HeapTrim& heap_trim) {
  CatchOutOfMemory([&] {
    server.CancelStalled();
    server.MakeRoom();
    engine.CheckFiles();
    engine.GiveBackMemory();
    process::TrimHeapIfDue(heap_trim, SystemClock().Monotonic());
  }).IgnoreError();
}

int ServeUntilStopped(const config::Options& options, const std::string& version,
                      const MakeEngine& make_engine) {
  process::ExitTimer exit_timer;
  process::StopSignals signals;
  const auto keys = OpenApiKeys(options);  // before checkpoints are read, which takes a while
  if (!keys.ok()) return Fail(keys.status());
  const process::ClientMemory of_clients = ClientMemoryFor(options);
  auto engine = make_engine(EngineConfig(options, of_clients), SystemClock());
  if (!engine.ok()) return FailToStart(engine.status());
  const absl::Status can_fill = CheckCanFillCache(options);
  if (!can_fill.ok()) return FailToStart(can_fill);
  const absl::Status limited = LimitClients(options.max_connections);
  if (!limited.ok()) return Fail(limited);
  const auto spans = StartSpans(options.otlp_endpoint, version, (*engine)->metrics());
  if (!spans.ok()) return FailToStart(spans.status());
  auto server = GrpcServer::Start(
      ServerOptions(options, version, keys->get(), spans->get(), signals, of_clients), **engine,
      SystemClock());
  if (!server.ok()) return Fail(server.status());
  signals.DrainFirst();
  LogAddresses(**server, options.tls_files, version);
  WarnOfOpenPage(options);
  (*engine)->metrics().GetGauge(metrics::kBuildInfo, {version}).Set(1);
  const auto metrics = StartMetrics(options.metrics_listen, **engine, **server);
  if (!metrics.ok()) return Fail(metrics.status());
  process::StartupLog startup(SystemClock(), (*engine)->metrics(), &process::Log);
  const process::StatusFollower follower(**engine, [&](const engine::ServerStatus& status) {
    startup.Note(status);
    if (!status.device_fault.empty()) signals.RequestStop("the device has failed");
  });

  Loader loader(**engine, signals, options);
  const Watchdog watchdog(**server);
  process::HeapTrim heap_trim;
  // By itself, so that a signal is answered while a file system does not.
  process::BackgroundTask tls_files("tls-files", [&server] { (*server)->RefreshTls(); });
  while (true) {
    const ThreadWatch::Activity ticks((*server)->main_watch(), "looking after the server");
    if (signals.WaitForStop(kTick)) break;
    tls_files.RunSoon();
    LookAfter(**engine, **server, heap_trim);
  }

  const engine::ServerStatus status = (*engine)->status();
  if (!status.device_fault.empty())
    StopForFault(exit_timer, **server, spans->get(), status.device_fault);
  if (status.state == engine::State::kFailed) {
    return Leave(tls_files, Fail(loader.Join()), signals.cause());
  }
  const int exit_code = options.exit_when_ready ? 1 : 0;  // if it is not loaded
  Stop(exit_timer, **server, status.state, signals.drain_timeout().value_or(options.drain_timeout),
       exit_code, signals.cause());
  SendLastSpans(spans->get());
  const absl::Status loaded = loader.Join();
  if (const std::string fault = (*engine)->status().device_fault; !fault.empty()) {
    LogFault(fault);  // in the middle of the drain
    process::EndAfterLastLine(kDeviceFailed);
  }
  process::Log(v1::INFO, "stopped", {{"cause", signals.cause()}});
  return Leave(tls_files, ExitCodeOf(loaded, options), signals.cause());
}

}  // namespace

int Serve(const config::Options& options, const std::string& version,
          const MakeEngine& make_engine) {
  // Before checkpoints are read, and as a wrong flag: what else a server refuses to listen with are
  // files and ports.
  const absl::Status defaults = http::ParseDefaults(options.http_defaults).status();
  const int exit_code =
      defaults.ok() ? ServeUntilStopped(options, version, make_engine) : FailToStart(defaults);
  process::FlushLog();
  return exit_code;
}

}  // namespace latentd::server
