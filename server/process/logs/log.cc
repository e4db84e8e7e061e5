#include "server/process/logs/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/text/utf8.h"
#include "server/process/logs/async_log.h"
#include "server/process/logs/handshake_failure.h"

namespace latentd::server::process {
namespace {

namespace v1 = ::latent::v1;

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e %l %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// Limits of waiting lines: some seconds of a busy server, in a megabyte or two. A line may have as
// many bytes as a compiler's or a driver's message that it repeats.
constexpr size_t kMostLines = 4096;

std::atomic<bool> json_lines = false;
// Null: not set up. Never destroyed, since its thread may be waiting for a reader for ever.
std::atomic<AsyncLog*> async_log = nullptr;

spdlog::level::level_enum ToSpdlog(v1::LogLevel level) {
  switch (level) {
    case v1::DEBUG:
      return spdlog::level::debug;
    case v1::WARNING:
      return spdlog::level::warn;
    case v1::ERROR:
      return spdlog::level::err;
    default:
      return spdlog::level::info;
  }
}

v1::LogLevel FromSpdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return v1::DEBUG;
  if (level == spdlog::level::info) return v1::INFO;
  return level == spdlog::level::warn ? v1::WARNING : v1::ERROR;
}

LogFields Utf8Of(const LogFields& value) {
  return value.is_string() ? LogFields(ToUtf8(value.get_ref<const std::string&>())) : value;
}

std::string Dump(const LogFields& value) {
  return value.dump(-1, ' ', false, LogFields::error_handler_t::replace);
}

// A word stays as it is; anything else is put between quotes, with single ones for those in it, so
// that people can read it and no text looks like another field. Control characters are escaped, so
// that a line stays a line.
std::string TextValue(const LogFields& value) {
  if (!value.is_string()) return Dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool word = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"';
  });
  if (word) return text;
  return absl::StrReplaceAll(Dump(Utf8Of(value)), {{"\\\"", "'"}, {"\\\\", "\\"}});
}

std::string Format(absl::string_view message, const LogFields& fields) {
  return json_lines ? FormatJson(message, fields) : FormatText(message, fields);
}

// gRPC, Abseil and std::terminate say why they abort, and do so at once. Where this gets stuck, the
// alarm ends the process.
void FlushBeforeAbort(int) {
  std::signal(SIGALRM, SIG_DFL);
  alarm(2 * static_cast<unsigned>(absl::ToInt64Seconds(kLastLines)));
  FlushLog();
  std::signal(SIGABRT, SIG_DFL);  // abort() goes on with that
}

void LogGrpc(gpr_log_func_args* args) {
  static RateLimit handshakes(SystemClock(), kLogPause);
  static RateLimit others(SystemClock(), kLogPause);
  if (const auto failure = ExplainHandshakeFailure(args->message)) {
    LogRarely(handshakes, "TLS handshake failed", {{"reason", *failure}});
  } else if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    LogRarely(others, "gRPC", {{"text", args->message}});
  } else {
    Log(v1::DEBUG, "gRPC", {{"text", args->message}});
  }
}

}  // namespace

std::string FormatText(absl::string_view message, const LogFields& fields) {
  std::string line = ToUtf8(message);
  for (const auto& [key, value] : fields.items()) {
    absl::StrAppend(&line, " ", key, "=", TextValue(value));
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string FormatJson(absl::string_view message, const LogFields& fields) {
  LogFields object = {{"message", ToUtf8(message)}};
  for (const auto& [key, value] : fields.items()) object[key] = Utf8Of(value);
  const std::string text = Dump(object);
  return text.substr(1, text.size() - 2);  // the pattern has the braces
}

void SetUpLogging(v1::LogFormat format, v1::LogLevel level) {
  json_lines = format == v1::JSON;
  const char* pattern = json_lines ? kJsonPattern : kTextPattern;
  // Reports that there is no thread for the log.
  auto first =
      std::make_shared<spdlog::logger>("start", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  first->set_pattern(pattern, spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(first));
  async_log = new AsyncLog(
      {.file = STDERR_FILENO,
       .most_lines = kMostLines,
       .most_bytes = static_cast<size_t>(kMostLogBytes),
       .pattern = pattern,
       .dropped_text = [](size_t dropped) {
         return Format("lines of the log were dropped: nobody read it", {{"lines", dropped}});
       }});
  async_log.load()->logger()->set_level(ToSpdlog(level));
  spdlog::set_default_logger(async_log.load()->logger());
  std::signal(SIGABRT, &FlushBeforeAbort);
  gpr_set_log_function(&LogGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

v1::LogLevel ChangeLogLevel(v1::LogLevel level) {
  const v1::LogLevel previous = FromSpdlog(spdlog::default_logger()->level());
  spdlog::default_logger()->set_level(ToSpdlog(level));
  return previous;
}

void Log(v1::LogLevel level, absl::string_view message, const LogFields& fields) {
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (!spdlog::should_log(spdlog_level)) return;
  spdlog::log(spdlog_level, Format(message, fields));
}

void FlushLog(absl::Duration timeout) {
  if (AsyncLog* log = async_log) log->Flush(timeout);
}

void EndAfterLastLine(int exit_code) {
  FlushLog();
  std::_Exit(exit_code);
}

int64_t DroppedLogLines() {
  const AsyncLog* log = async_log;
  return log == nullptr ? 0 : log->dropped();
}

int64_t WaitingLogBytes() {
  const AsyncLog* log = async_log;
  return log == nullptr ? 0 : log->waiting_bytes();
}

void LogRarely(RateLimit& limit, absl::string_view message, LogFields fields) {
  const std::optional<int64_t> kept_back = limit.Take();
  if (!kept_back) return;
  fields["not_logged"] = *kept_back;
  Log(v1::WARNING, message, fields);
}

}  // namespace latentd::server::process
