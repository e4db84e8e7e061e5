#include "server/config/options.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/host_port.h"
#include "server/config/flag_values.h"
#include "server/config/lora_flag.h"
#include "server/config/model_flag.h"
#include "server/config/video_flag.h"

namespace latentd::server::config {
namespace {

namespace v1 = ::latent::v1;

// gRPC counts message sizes in an int.
constexpr int64_t kMaxRequestLimit = int64_t{1} << 30;
constexpr int64_t kMinRequestLimit = int64_t{4} << 10;
constexpr int64_t kMaxBudget = int64_t{1} << 50;
constexpr int kMaxQueueCapacity = 4096;
constexpr int kMaxThreads = 1024;
constexpr int kMaxConnectionsLimit = 1'000'000;
// As many as there are rows, of the largest pictures.
constexpr int64_t kMaxSharedPixels = engine::kMostRows * pipeline::kMaxPixels;

absl::StatusOr<int64_t> ToBudget(absl::string_view flag, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t bytes, ToBytes(flag, text));
  RETURN_IF_ERROR(CheckRange(flag, bytes, 1, kMaxBudget));
  return bytes;
}

// A variable that a script forgot to set would serve something else.
absl::Status CheckNotEmpty(absl::string_view flag, bool is_given, const std::string& path) {
  if (!is_given || !path.empty()) return absl::OkStatus();
  return WrongValue(flag, path,
                    "a .safetensors file or a diffusers directory; leave the flag out where there "
                    "is none");
}

// Checks a path that goes with a checkpoint, whose flag is `owner`.
absl::Status CheckPart(absl::string_view flag, bool is_given, const std::string& path,
                       absl::string_view owner, const std::string& checkpoint) {
  RETURN_IF_ERROR(CheckNotEmpty(flag, is_given, path));
  if (path.empty() || !checkpoint.empty()) return absl::OkStatus();
  return WrongValue(flag, path, absl::StrCat("given together with --", owner));
}

// A component in the place of the base's own.
struct ReplacedComponent {
  const char* name;
  absl::string_view flag;
  bool is_given;
  const std::string& path;
};

absl::Status SetParts(const v1::ServerConfig& config, engine::Config& engine) {
  const ReplacedComponent replaced[] = {
      {"unet", "unet", config.has_unet(), config.unet()},
      {"vae", "vae", config.has_vae(), config.vae()},
      {"vae_tiny", "vae-tiny", config.has_vae_tiny(), config.vae_tiny()},
      {"text_encoder", "text-encoder", config.has_text_encoder(), config.text_encoder()},
      {"text_encoder_2", "text-encoder-2", config.has_text_encoder_2(), config.text_encoder_2()}};
  for (const auto& [name, flag, is_given, path] : replaced) {
    RETURN_IF_ERROR(CheckPart(flag, is_given, path, "base", engine.base));
    if (is_given) engine.base_parts.components.emplace(name, path);
  }
  RETURN_IF_ERROR(CheckPart("components-from", config.has_components_from(),
                            config.components_from(), "base", engine.base));
  RETURN_IF_ERROR(CheckPart("refiner-components-from", config.has_refiner_components_from(),
                            config.refiner_components_from(), "refiner", engine.refiner));
  engine.base_parts.ema = config.ema();
  engine.base_parts.components_from = config.components_from();
  engine.refiner_parts.components_from = config.refiner_components_from();
  return absl::OkStatus();
}

absl::Status SetLoras(const v1::ServerConfig& config, engine::Config& engine) {
  for (const std::string& text : config.lora()) {
    RETURN_IF_ERROR(CheckPart("lora", true, text, "base", engine.base));
    ASSIGN_OR_RETURN(pipeline::LoraFile lora, ToLora("lora", text));
    engine.base_parts.loras.push_back(std::move(lora));
  }
  return absl::OkStatus();
}

absl::Status SetPrediction(const v1::ServerConfig& config, engine::Config& engine) {
  RETURN_IF_ERROR(CheckPredictionType("prediction-type", config.prediction_type()));
  engine.base_parts.prediction_type = config.prediction_type();
  return absl::OkStatus();
}

std::string BackendName(v1::Backend backend) {
  if (backend == v1::REFERENCE) return "reference";
  return backend == v1::CUDA ? "cuda" : "cpu";
}

// The fast precision on a GPU, and on a CPU the one that all others are compared with.
absl::string_view DefaultPrecision(v1::Backend backend) {
  return backend == v1::CUDA ? "bf16" : "fp32";
}

absl::Status SetPrecision(const v1::ServerConfig& config, engine::Config& engine) {
  constexpr absl::string_view kFlag = "precision";
  ASSIGN_OR_RETURN(Precision precision,
                   ToPrecision(kFlag, config.precision(), DefaultPrecision(config.backend())));
  engine.precision = std::move(precision.components);
  engine.tf32 = precision.tf32;
  engine.f8_convolutions = precision.f8_convolutions;
  const auto is_f8 = [](const auto& each) { return each.second == engine::DType::kF8E4M3; };
  if (config.backend() == v1::CPU &&
      std::any_of(engine.precision.begin(), engine.precision.end(), is_f8)) {
    return WrongValue(kFlag, config.precision(),
                      "given together with --backend=cuda (or reference, to compare with) where it "
                      "is fp8; processors have no 8-bit products, so that it would be slower than "
                      "fp32 and less exact: fp32 or bf16");
  }
  if (!engine.tf32 || config.backend() == v1::CUDA) return absl::OkStatus();
  return WrongValue(kFlag, config.precision(),
                    "given together with --backend=cuda where it is tf32; others compute float32 "
                    "as it is: fp32");
}

absl::Status SetDevices(const v1::ServerConfig& config, engine::Config& engine) {
  ASSIGN_OR_RETURN(engine.devices, ToDevices("devices", config.devices()));
  ASSIGN_OR_RETURN(engine.split, ToSplit("split", config.split()));
  if (engine.split != engine::Split::kNever && engine.devices.size() < 2) {
    return WrongValue("split", config.split(), "given together with several --devices");
  }
  ASSIGN_OR_RETURN(engine.placement, ToPlacement("placement", config.placement()));
  if (engine.placement != pipeline::Placement::kAll && engine.devices.size() < 2) {
    return WrongValue("placement", config.placement(), "given together with several --devices");
  }
  if (engine.devices.empty() || config.backend() == v1::CUDA) return absl::OkStatus();
  return WrongValue("devices", config.devices(), "given together with --backend=cuda");
}

absl::Status SetAdapters(const v1::ServerConfig& config, engine::Config& engine) {
  constexpr int kMostSlots = 32, kMostRanks = 256, kRanksUnit = 8;
  engine.adapters = config.adapters();
  RETURN_IF_ERROR(CheckRange("adapter-slots", config.adapter_slots(), 0, kMostSlots));
  engine.adapter_slots = config.adapter_slots();
  RETURN_IF_ERROR(CheckRange("adapter-ranks", config.adapter_ranks(), kRanksUnit, kMostRanks));
  engine.adapter_ranks = config.adapter_ranks();
  if (engine.adapter_ranks % kRanksUnit != 0) {
    return WrongValue("adapter-ranks", absl::StrCat(engine.adapter_ranks), "a multiple of 8");
  }
  if (engine.adapter_slots == 0 || !engine.adapters.empty()) return absl::OkStatus();
  return WrongValue("adapter-slots", absl::StrCat(engine.adapter_slots),
                    "given together with --adapters");
}

// Behind all others: the first model is that of requests that name none.
absl::Status SetVideo(const v1::ServerConfig& config, engine::Config& engine) {
  if (!config.has_video()) return absl::OkStatus();
  ASSIGN_OR_RETURN(pipeline::ModelSource video, ToVideoModel(config.video()));
  for (const pipeline::ModelSource& other : engine.models) {
    if (other.name != video.name) continue;
    return WrongValue("model", absl::StrCat(other.name, "=", other.checkpoint),
                      "of another name: --video has this one");
  }
  engine.models.push_back(std::move(video));
  return absl::OkStatus();
}

absl::Status SetModels(const v1::ServerConfig& config, engine::Config& engine) {
  RETURN_IF_ERROR(CheckNotEmpty("base", config.has_base(), config.base()));
  RETURN_IF_ERROR(CheckNotEmpty("refiner", config.has_refiner(), config.refiner()));
  engine.base = config.base();
  engine.refiner = config.refiner();
  RETURN_IF_ERROR(SetParts(config, engine));
  RETURN_IF_ERROR(SetLoras(config, engine));
  RETURN_IF_ERROR(SetAdapters(config, engine));
  RETURN_IF_ERROR(SetPrediction(config, engine));
  engine.variant = config.variant();
  engine.scheduler = config.scheduler();
  engine.preset = config.preset();
  engine.backend = BackendName(config.backend());
  ASSIGN_OR_RETURN(engine.models, ToModels({config.model().begin(), config.model().end()}));
  RETURN_IF_ERROR(SetVideo(config, engine));
  if (engine.base.empty() && !engine.refiner.empty()) {
    return WrongValue("refiner", engine.refiner, "given together with --base");
  }
  return absl::OkStatus();
}

absl::Status SetLimits(const v1::ServerConfig& config, engine::Config& engine) {
  RETURN_IF_ERROR(CheckRange("threads", config.threads(), 0, kMaxThreads));
  engine.threads = config.threads();
  if (config.has_memory()) {
    ASSIGN_OR_RETURN(engine.memory_bytes, ToBytes("memory", config.memory()));
    if (engine.memory_bytes == 0) {
      return WrongValue("memory", config.memory(),
                        "an amount such as 8GiB; without the flag it is what the machine and its "
                        "control group allow");
    }
  }
  if (!config.picture_memory().empty()) {
    ASSIGN_OR_RETURN(engine.picture_memory_bytes,
                     ToBytes("picture-memory", config.picture_memory()));
    if (engine.picture_memory_bytes == 0) {
      return WrongValue("picture-memory", config.picture_memory(), "an amount such as 512MiB");
    }
  }
  RETURN_IF_ERROR(CheckRange("queue-capacity", config.queue_capacity(), 1, kMaxQueueCapacity));
  engine.queue_capacity = config.queue_capacity();
  if (config.has_max_queue_time()) {
    ASSIGN_OR_RETURN(engine.max_queue_time, ToTimeout("max-queue-time", config.max_queue_time()));
  }
  RETURN_IF_ERROR(CheckRange("max-priority", config.max_priority(), 0, engine::kMaxPriority));
  engine.priorities.everyone = config.max_priority();
  return absl::OkStatus();
}

// As of server/generation/caller.h, of a client that shows no certificate.
bool IsHost(absl::string_view caller) {
  return caller == "unix" || absl::StartsWith(caller, "ipv4:") || absl::StartsWith(caller, "ipv6:");
}

// Fails for certificates' names without client certificates: no caller would have one, unnoticed.
absl::Status SetCallers(const v1::ServerConfig& config, engine::Config& engine) {
  constexpr absl::string_view kFlag = "caller-max-priority";
  ASSIGN_OR_RETURN(engine.priorities.named,
                   ToCallerPriorities(kFlag, config.caller_max_priority()));
  if (!config.tls_client_ca().empty() || !config.api_key_file().empty()) return absl::OkStatus();
  for (const auto& [caller, priority] : engine.priorities.named) {
    if (IsHost(caller)) continue;
    return WrongValue(kFlag, absl::StrCat(caller, "=", priority),
                      "given together with --tls-client-ca or --api-key-file: without them neither "
                      "certificate nor key names a caller, and each is its host, such as "
                      "ipv4:192.0.2.7");
  }
  return absl::OkStatus();
}

absl::Status SetGraphs(const v1::ServerConfig& config, engine::Config& engine) {
  engine.cache_dir = config.cache_dir();
  ASSIGN_OR_RETURN(engine.cache_max_bytes, ToBudget("cache-max-bytes", config.cache_max_bytes()));
  ASSIGN_OR_RETURN(engine.graph_memory_bytes, ToBudget("graph-memory", config.graph_memory()));
  ASSIGN_OR_RETURN(engine.buckets, ToSizes("buckets", config.buckets()));
  ASSIGN_OR_RETURN(engine.rows, ToRows("rows", config.rows()));
  RETURN_IF_ERROR(CheckRange("max-shared-pixels", config.max_shared_pixels(), 0, kMaxSharedPixels));
  engine.max_shared_pixels = config.max_shared_pixels();
  RETURN_IF_ERROR(CheckRange("prompt-chunks", config.prompt_chunks(), 1, prompts::kMaxChunks));
  engine.prompt_chunks = config.prompt_chunks();
  engine.feature_cache = config.feature_cache();
  engine.prompt_blends = config.prompt_blends();
  ASSIGN_OR_RETURN(engine.components, ToModes("components", config.components()));
  RETURN_IF_ERROR(SetPrecision(config, engine));
  ASSIGN_OR_RETURN(engine.vae_tiling_above, ToArea("vae-tiling-above", config.vae_tiling_above()));
  ASSIGN_OR_RETURN(engine.skipped_passes, ToNames("skip-passes", config.skip_passes()));
  engine.compile_at_start = config.compile_at_start();
  engine.allow_cold_requests = config.allow_cold_requests();
  engine.forbid_compile_after_ready = config.forbid_compile_after_ready();
  return absl::OkStatus();
}

absl::Status SetHttp(const v1::ServerConfig& config, Options& options) {
  options.http_listen = config.http_listen();
  if (!options.http_listen.empty()) {
    RETURN_IF_ERROR(CheckTcpAddress("http-listen", options.http_listen));
  }
  ASSIGN_OR_RETURN(options.http_cors_origins,
                   ToOrigins("http-cors-origins", config.http_cors_origins()));
  options.http_defaults = config.http_defaults();
  if (!options.http_defaults.empty() && options.http_listen.empty()) {
    return WrongValue("http-defaults", options.http_defaults, "beside --http-listen");
  }
  if (config.http_page() && options.http_listen.empty()) {
    return WrongValue("http-page", "true", "beside --http-listen");
  }
  const bool by_default = !options.http_listen.empty() && IsLoopback(options.http_listen);
  options.http_page = config.has_http_page() ? config.http_page() : by_default;
  return absl::OkStatus();
}

absl::Status SetAddresses(const v1::ServerConfig& config, Options& options) {
  options.listen = config.listen();
  RETURN_IF_ERROR(CheckAddress("listen", options.listen));
  options.metrics_listen = config.metrics_listen();
  if (!options.metrics_listen.empty()) {
    RETURN_IF_ERROR(CheckTcpAddress("metrics-listen", options.metrics_listen));
  }
  options.health_listen = config.health_listen();
  if (!options.health_listen.empty()) {
    RETURN_IF_ERROR(CheckTcpAddress("health-listen", options.health_listen));
  }
  RETURN_IF_ERROR(SetHttp(config, options));
  options.admin_listen = config.admin_listen();
  if (options.admin_listen.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAddress("admin-listen", options.admin_listen));
  if (options.admin_listen == options.listen && !absl::EndsWith(options.listen, ":0")) {
    return WrongValue("admin-listen", options.admin_listen, "another address than --listen");
  }
  return absl::OkStatus();
}

// "0" is without end.
absl::StatusOr<absl::Duration> ToAge(absl::string_view flag, const std::string& text) {
  ASSIGN_OR_RETURN(const absl::Duration age, ToTimeout(flag, text));
  if (age == absl::ZeroDuration()) return absl::InfiniteDuration();
  if (age < absl::Seconds(1)) return WrongValue(flag, text, "at least 1s, or 0: without end");
  return age;
}

absl::Status SetClients(const v1::ServerConfig& config, Options& options) {
  options.allow_import = config.allow_import();
  ASSIGN_OR_RETURN(options.max_request_bytes,
                   ToBytes("max-request-bytes", config.max_request_bytes()));
  RETURN_IF_ERROR(CheckRange("max-request-bytes", options.max_request_bytes, kMinRequestLimit,
                             kMaxRequestLimit));
  RETURN_IF_ERROR(CheckRange("max-connections", config.max_connections(), 1, kMaxConnectionsLimit));
  options.max_connections = config.max_connections();
  ASSIGN_OR_RETURN(options.stall_timeout, ToTimeout("stall-timeout", config.stall_timeout()));
  if (options.stall_timeout < absl::Seconds(1)) {
    return WrongValue("stall-timeout", config.stall_timeout(), "at least 1s");
  }
  ASSIGN_OR_RETURN(options.max_connection_age,
                   ToAge("max-connection-age", config.max_connection_age()));
  ASSIGN_OR_RETURN(options.max_connection_age_grace,
                   ToAge("max-connection-age-grace", config.max_connection_age_grace()));
  return absl::OkStatus();
}

absl::Status SetTracing(const v1::ServerConfig& config, Options& options) {
  if (config.otlp_endpoint().empty()) return absl::OkStatus();
  options.otlp_endpoint = tracing::ParseEndpoint(config.otlp_endpoint());
  if (options.otlp_endpoint) return absl::OkStatus();
  return WrongValue("otlp-endpoint", config.otlp_endpoint(),
                    "HOST:PORT, http://HOST:PORT or https://HOST:PORT of a collector that takes "
                    "OTLP over gRPC, such as 127.0.0.1:4317");
}

// Fails if a file is given without the flag that makes it of use.
absl::Status CheckNeeds(absl::string_view flag, const std::string& value, bool have,
                        absl::string_view needed) {
  if (value.empty() || have) return absl::OkStatus();
  return WrongValue(flag, value, absl::StrCat("given together with --", needed));
}

bool IsTcp(const std::string& address) {
  return !address.empty() && !absl::StartsWith(address, "unix:");
}

// REQUIRES: addresses are set. The files are not looked at.
absl::Status SetTls(const v1::ServerConfig& config, Options& options) {
  options.tls_files = {config.tls_cert(), config.tls_key(), config.tls_client_ca(),
                       config.admin_tls_client_ca()};
  options.api_key_file = config.api_key_file();
  const tls::TlsFiles& files = options.tls_files;
  const bool have = !files.certificate.empty();
  RETURN_IF_ERROR(CheckNeeds("tls-cert", files.certificate, !files.key.empty(), "tls-key"));
  RETURN_IF_ERROR(CheckNeeds("tls-key", files.key, have, "tls-cert"));
  RETURN_IF_ERROR(CheckNeeds("tls-client-ca", files.client_authority, have, "tls-cert"));
  RETURN_IF_ERROR(CheckNeeds("admin-tls-client-ca", files.operator_authority, have, "tls-cert"));
  const bool by_tcp = IsTcp(options.admin_listen);
  if (by_tcp && files.operator_authority.empty()) {
    return WrongValue("admin-listen", options.admin_listen,
                      "unix:PATH, or given together with --tls-cert and --admin-tls-client-ca: "
                      "whoever reaches it by TCP has to show a certificate");
  }
  // A Unix socket knows its user, and no certificates.
  return CheckNeeds("admin-tls-client-ca", files.operator_authority, by_tcp,
                    "admin-listen=HOST:PORT");
}

}  // namespace

std::string DefaultCacheDirectory(const char* xdg_cache_home, const char* home) {
  // The XDG base directory specification has relative paths ignored.
  if (xdg_cache_home != nullptr && xdg_cache_home[0] == '/') {
    return absl::StrCat(xdg_cache_home, "/latentd");
  }
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache/latentd");
  return "";
}

v1::ServerConfig DefaultConfig() {
  v1::ServerConfig config;
  config.set_listen("127.0.0.1:50051");
  config.set_backend(v1::CPU);
  config.set_threads(0);
  config.set_queue_capacity(64);
  config.set_max_priority(0);
  config.set_max_request_bytes("32MiB");
  config.set_max_connections(4096);
  config.set_stall_timeout("60s");
  config.set_max_connection_age("30m");
  config.set_max_connection_age_grace("0");
  config.set_drain_timeout("30s");
  config.set_log_format(v1::TEXT);
  config.set_log_level(v1::INFO);
  config.set_cache_dir(DefaultCacheDirectory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME")));
  config.set_cache_max_bytes("10GiB");
  config.set_graph_memory("1GiB");
  config.set_max_shared_pixels(engine::kDefaultSharedPixels);
  config.set_prompt_chunks(1);
  config.set_adapter_slots(0);
  config.set_adapter_ranks(32);
  config.set_prompt_blends(false);
  config.set_feature_cache(false);
  config.set_compile_at_start(true);
  config.set_allow_cold_requests(false);
  config.set_forbid_compile_after_ready(false);
  config.set_allow_import(false);
  return config;
}

void SetDefaultPrecision(v1::ServerConfig& config) {
  if (!config.precision().empty()) return;
  config.set_precision(std::string(DefaultPrecision(config.backend())));
}

absl::StatusOr<Options> ToOptions(const v1::ServerConfig& config) {
  Options options;
  RETURN_IF_ERROR(SetAddresses(config, options));
  RETURN_IF_ERROR(SetTls(config, options));
  RETURN_IF_ERROR(SetModels(config, options.engine));
  RETURN_IF_ERROR(SetDevices(config, options.engine));
  RETURN_IF_ERROR(SetLimits(config, options.engine));
  RETURN_IF_ERROR(SetCallers(config, options.engine));
  RETURN_IF_ERROR(SetGraphs(config, options.engine));
  RETURN_IF_ERROR(SetClients(config, options));
  RETURN_IF_ERROR(SetTracing(config, options));
  ASSIGN_OR_RETURN(options.drain_timeout, ToTimeout("drain-timeout", config.drain_timeout()));
  options.log_format = config.log_format();
  options.log_level = config.log_level();
  return options;
}

}  // namespace latentd::server::config
