#include "server/grpc_server.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/admin_socket.h"
#include "core/base/process/memory_room.h"
#include "server/calls/client_of.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/http/request/http_defaults.h"
#include "server/process/logs/log.h"
#include "server/process/ports/listen_address.h"

namespace latentd::server {
namespace {

// For messages that are on their way when everything else has ended.
constexpr absl::Duration kFlushTimeout = absl::Seconds(1);
constexpr absl::Duration kDrainTick = absl::Seconds(1);
// Limit of operators' messages; the largest are the chunks of an import.
constexpr int64_t kMaxAdminMessageBytes = 4 << 20;
constexpr int64_t kAdminReceivedBytes = 8 * kMaxAdminMessageBytes;
// Limit of a health check's message: the service's name.
constexpr int64_t kMaxProbeBytes = 4 << 10;
// Strangers may ask.
constexpr int64_t kProbeReceivedBytes = 8 << 20;

void LogHang(const engine::OverdueUnit& unit) {
  process::Log(latent::v1::ERROR, "a unit of work hangs: liveness is NOT_SERVING",
               {{"id", unit.request_id},
                {"image", unit.image_index},
                {"stage", latent::v1::Stage_Name(generation::ToProto(unit.stage))},
                {"model", unit.model},
                {"size", absl::StrCat(unit.executed_size.width, "x", unit.executed_size.height)},
                {"running_seconds", absl::ToDoubleSeconds(unit.running)},
                {"limit_seconds", absl::ToDoubleSeconds(unit.limit)}});
}

void LogHang(const OverdueThread& thread) {
  process::Log(latent::v1::ERROR, "a thread hangs: liveness is NOT_SERVING",
               {{"thread", std::string(thread.name)},
                {"activity", std::string(thread.activity)},
                {"running_seconds", absl::ToDoubleSeconds(thread.running)},
                {"limit_seconds", absl::ToDoubleSeconds(thread.limit)}});
}

bool Names(const engine::Hangs& hangs, absl::string_view thread) {
  return absl::c_any_of(hangs.threads,
                        [&](const OverdueThread& hung) { return hung.name == thread; });
}

// Logs hangs that are not `known` yet.
void LogNews(const engine::Hangs& hangs, const engine::Hangs& known) {
  if (hangs.unit.has_value() && !known.unit.has_value()) LogHang(*hangs.unit);
  for (const OverdueThread& thread : hangs.threads) {
    if (!Names(known, thread.name)) LogHang(thread);
  }
  if (hangs.empty() && !known.empty()) {
    process::Log(latent::v1::WARNING, "nothing hangs any more: liveness is SERVING");
  }
}

// Null where callers need no key.
generation::KeyCheck KeyCheckOf(tls::ApiKeyFile* keys) {
  if (keys == nullptr) return nullptr;
  return [keys](absl::string_view authorization,
                absl::string_view api_key) -> absl::StatusOr<generation::KeyHolder> {
    ASSIGN_OR_RETURN(const auto holder, keys->Check(authorization, api_key));
    return generation::KeyHolder{absl::StrCat("key:", holder.name), holder.is_operator};
  };
}

std::unique_ptr<http::VideoJobs> MakeVideoJobs(const GrpcServer::Options& options,
                                               const Clock& clock) {
  if (options.http_listen.empty()) return nullptr;
  return std::make_unique<http::VideoJobs>(clock,
                                           http::VideoJobs::Limits{.bytes = options.video_bytes});
}

}  // namespace

GrpcServer::AdminPlace GrpcServer::PlaceOf(const Options& options) {
  if (!options.admin_listen.empty()) return AdminPlace::kOwnPort;
  if (process::IsUnixSocket(options.listen)) return AdminPlace::kShared;
  return options.admin_folder.empty() ? AdminPlace::kNowhere : AdminPlace::kOwnPort;
}

GrpcServer::GrpcServer(const Options& options, engine::Engine& engine, const Clock& clock)
    : engine_(engine),
      clock_(clock),
      admin_place_(PlaceOf(options)),
      stall_limit_(options.stall_limit),
      max_request_bytes_(options.max_request_bytes),
      max_received_bytes_(options.received_bytes),
      kept_(engine, clock),
      main_watch_("main", clock),
      health_([this] { return FindHangs(); }),
      public_health_(health_, admin_place_ != AdminPlace::kNowhere),
      admin_health_(health_, /*has_admin=*/true),
      probe_health_(health_, /*has_admin=*/false),
      environment_{engine, clock, calls_, kept_, options.spans, KeyCheckOf(options.api_keys)},
      image_generation_(environment_, options.version),
      video_generation_(environment_, options.version),
      graph_cache_({engine, clock, admin_calls_, kept_}, options.imports, MakeOperatorCheck()),
      admin_(
          engine, options.version, [this] { return client_memory(); }, options.request_stop,
          MakeOperatorCheck()),
      models_(engine, MakeOperatorCheck()),
      adapters_(engine, MakeOperatorCheck()),
      videos_(MakeVideoJobs(options, clock)),
      api_keys_(options.api_keys),
      drain_("drain", [this] { FollowDrain(); }) {}

admin::OperatorCheck GrpcServer::MakeOperatorCheck() const {
  // A port of their own has its file's mode, or asks for certificates.
  if (admin_place_ != AdminPlace::kShared) return [](const auto&) { return absl::OkStatus(); };
  return [this](const grpc::CallbackServerContext& context) {
    return calls::CheckOperator(environment_, context);
  };
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              engine::Engine& engine,
                                                              const Clock& clock) {
  std::unique_ptr<GrpcServer> server(new GrpcServer(options, engine, clock));
  RETURN_IF_ERROR(server->Listen(options));
  server->follower_ = std::make_unique<process::StatusFollower>(
      engine, [raw = server.get()](const engine::ServerStatus& status) { raw->Follow(status); });
  return server;
}

absl::Status GrpcServer::Listen(const Options& options) {
  if (!options.tls_files.certificate.empty()) {
    ASSIGN_OR_RETURN(tls_, tls::Tls::Open(options.tls_files, clock_, engine_.metrics()));
  }
  RETURN_IF_ERROR(ListenForAll(options));
  RETURN_IF_ERROR(ListenForOperators(options));
  RETURN_IF_ERROR(ListenForProbes(options));
  return ListenOverHttp(options);
}

absl::Status GrpcServer::ListenForAll(const Options& options) {
  ServerPort::Options port = {.listen = options.listen,
                              .max_message_bytes = options.max_request_bytes,
                              .received_bytes = options.received_bytes,
                              .services = {&image_generation_, &video_generation_, &public_health_},
                              .max_connection_age = options.max_connection_age,
                              .max_connection_age_grace = options.max_connection_age_grace};
  if (admin_place_ == AdminPlace::kShared) {
    port.services.push_back(&graph_cache_);
    port.services.push_back(&admin_);
    port.services.push_back(&models_);
    port.services.push_back(&adapters_);
  }
  if (tls_ != nullptr) port.credentials = tls_->credentials();
  ASSIGN_OR_RETURN(port_, ServerPort::Open(port));
  return absl::OkStatus();
}

absl::Status GrpcServer::ListenForOperators(const Options& options) {
  if (admin_place_ != AdminPlace::kOwnPort) return absl::OkStatus();
  const std::string& address = port_->address();
  ServerPort::Options port = {
      .listen =
          options.admin_listen.empty()
              ? AdminSocketAddress(options.admin_folder, address.substr(address.rfind(':') + 1))
              : options.admin_listen,
      .max_message_bytes = kMaxAdminMessageBytes,
      .received_bytes = kAdminReceivedBytes,
      .services = {&graph_cache_, &admin_, &models_, &adapters_, &admin_health_},
      .owner_only = true};
  if (!process::IsUnixSocket(port.listen)) port.credentials = tls_->operator_credentials();
  ASSIGN_OR_RETURN(admin_port_, ServerPort::Open(port));
  return absl::OkStatus();
}

absl::Status GrpcServer::ListenForProbes(const Options& options) {
  if (options.health_listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(health_port_, ServerPort::Open({.listen = options.health_listen,
                                                   .max_message_bytes = kMaxProbeBytes,
                                                   .received_bytes = kProbeReceivedBytes,
                                                   .services = {&probe_health_},
                                                   .reflection = false}));
  return absl::OkStatus();
}

absl::Status GrpcServer::ListenOverHttp(const Options& options) {
  if (options.http_listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const latent::v1::GenerateRequest defaults,
                   http::ParseDefaults(options.http_defaults));
  ASSIGN_OR_RETURN(http_,
                   http::HttpServer::Listen({.listen = options.http_listen,
                                             .max_request_bytes = options.max_request_bytes,
                                             .tls = tls_.get(),
                                             .cors_origins = options.http_cors_origins,
                                             .defaults = defaults,
                                             .has_page = options.http_page,
                                             .version = options.version,
                                             .client_memory = [this] { return client_memory(); }},
                                            environment_, health_, *videos_));
  return absl::OkStatus();
}

std::string GrpcServer::http_address() const { return http_ != nullptr ? http_->address() : ""; }

std::string GrpcServer::admin_address() const {
  switch (admin_place_) {
    case AdminPlace::kShared:
      return port_->address();
    case AdminPlace::kOwnPort:
      return admin_port_->address();
    case AdminPlace::kNowhere:
      break;
  }
  return "";
}

std::string GrpcServer::health_address() const {
  return health_port_ != nullptr ? health_port_->address() : "";
}

void GrpcServer::Follow(const engine::ServerStatus& status) {
  health_.Follow(status);
  UpdateHealthWatches();
  admin_.UpdateWatches();
}

void GrpcServer::UpdateHealthWatches() {
  public_health_.UpdateWatches();
  admin_health_.UpdateWatches();
  probe_health_.UpdateWatches();
}

void GrpcServer::CancelStalled() {
  calls_.CancelStalled(clock_.Monotonic(), stall_limit_);
  admin_calls_.CancelStalled(clock_.Monotonic(), stall_limit_);
  kept_.DropOld();
}

engine::Hangs GrpcServer::FindHangs() const {
  engine::Hangs hangs = engine_.FindHangs();
  if (const auto main = main_watch_.Overdue()) hangs.threads.push_back(*main);
  return hangs;
}

void GrpcServer::CheckHangs() {
  engine::Hangs hangs = FindHangs();
  LogNews(hangs, known_hangs_);
  const bool is_news = hangs.empty() != known_hangs_.empty();
  known_hangs_ = std::move(hangs);
  if (is_news) UpdateHealthWatches();
  engine_.metrics()
      .GetGauge(metrics::kThreadOverdue, {main_watch_.name()})
      .Set(Names(known_hangs_, main_watch_.name()) ? 1 : 0);
}

std::vector<process::ClientBytes> GrpcServer::client_memory() const {
  const generation::HeldRequest::Bytes requests = calls_.request_bytes();
  std::vector<process::ClientBytes> kinds = {
      {"received_requests", requests.received, max_received_bytes_},
      {"read_requests", requests.read, max_request_bytes_},
      {"decoded_images", MemoryRoom::taken(MemoryRoom::Purpose::kDecodeImage), 0},
      {"video_encoders", MemoryRoom::taken(MemoryRoom::Purpose::kEncodeVideo), 0},
      {"log", process::WaitingLogBytes(), process::kMostLogBytes}};
  if (videos_ != nullptr) {
    kinds.push_back({"video_files", videos_->held_bytes(), videos_->limits().bytes});
  }
  return kinds;
}

void GrpcServer::ShowClientMemory() const {
  metrics::Registry& registry = engine_.metrics();
  for (const process::ClientBytes& bytes : client_memory()) {
    const metrics::LabelValues kind = {std::string(bytes.kind)};
    registry.GetGauge(metrics::kClientMemory, kind).Set(static_cast<double>(bytes.held));
    registry.GetGauge(metrics::kClientMemoryLimit, kind).Set(static_cast<double>(bytes.most));
  }
}

void GrpcServer::MakeRoom() {
  if (!engine_.WaitsForReaders()) return;
  calls_.CancelUnread(clock_.Monotonic(), stall_limit_);
  kept_.MakeRoom(stall_limit_);
}

void GrpcServer::FollowDrain() {
  do {
    CatchOutOfMemory([&] {
      CancelStalled();
      MakeRoom();
      kept_.DropUnread();
    }).IgnoreError();
  } while (!engine_drained_.WaitForNotificationWithTimeout(kDrainTick));
}

void GrpcServer::RefreshTls() {
  if (tls_ != nullptr) tls_->Refresh();
  if (api_keys_ != nullptr) api_keys_->Refresh();
}

void GrpcServer::Drain(absl::Duration timeout) {
  health_.BeginDrain();
  UpdateHealthWatches();
  if (http_ != nullptr) http_->BeginDrain();
  admin_calls_.CancelAll();
  const absl::Time deadline = clock_.Monotonic() + timeout;
  drain_.RunSoon();
  engine_.Drain(deadline);
  engine_drained_.Notify();
  // The engine is done; its last pictures may still be on their way to clients that read slowly.
  if (!calls_.WaitUntilEmpty(std::max(deadline - clock_.Monotonic(), kFlushTimeout))) {
    calls_.CancelAll();
    calls_.WaitUntilEmpty(kFlushTimeout);
  }
  public_health_.EndWatches();
  admin_health_.EndWatches();
  probe_health_.EndWatches();
  admin_.EndWatches();
  if (http_ != nullptr) http_->Close();
  port_->Close(kFlushTimeout);
  if (admin_port_ != nullptr) admin_port_->Close(kFlushTimeout);
  if (health_port_ != nullptr) health_port_->Close(kFlushTimeout);
}

}  // namespace latentd::server
