// Log lines on standard error, as text for people or as one JSON object each for machines.
//
//   2026-01-02T03:04:05.678 info request id=7f3a... size=512x512 code=OK
//   {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"request","id":"7f3a...","size":"512x512","code":"OK"}
//
// Lines are UTF-8, whatever they are made of (core/base/text/utf8.h). What people ask for (prompts)
// is never logged. Lines are written by a thread of their own (server/process/logs/async_log.h):
// code that ends the process without returning from main waits for the last ones with FlushLog or
// EndAfterLastLine. An abort does so by itself.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "latent/v1/config.pb.h"
#include "nlohmann/json.hpp"
#include "server/process/logs/rate_limit.h"

namespace latentd::server::process {

// Keys and values of a line, in order; values are strings, numbers or booleans.
using LogFields = nlohmann::ordered_json;

// Time that the end of a process waits for a log that is not read.
inline constexpr absl::Duration kLastLines = absl::Seconds(2);

// Also sends gRPC's own messages here, and silences protobuf's, which repeat what answers say. Call
// once, before other threads start.
void SetUpLogging(latent::v1::LogFormat format, latent::v1::LogLevel level);

// Sets the level from now on; returns the one before. Thread-safe.
latent::v1::LogLevel ChangeLogLevel(latent::v1::LogLevel level);

// Thread-safe. Never waits for who reads the log. Text goes to standard output until SetUpLogging
// has been called.
void Log(latent::v1::LogLevel level, absl::string_view message,
         const LogFields& fields = LogFields::object());

// Waits until all lines logged before are written, or none is read for `timeout`. Thread-safe.
void FlushLog(absl::Duration timeout = kLastLines);

// Ends the process without cleaning up. Thread-safe.
[[noreturn]] void EndAfterLastLine(int exit_code);

// Lines dropped since the start, since the log was not read.
int64_t DroppedLogLines();

// Bytes of lines that wait to be written: now, and at most.
int64_t WaitingLogBytes();
inline constexpr int64_t kMostLogBytes = int64_t{4} << 20;

// Between warnings of the same kind.
inline constexpr absl::Duration kLogPause = absl::Seconds(1);

// A warning of what others can cause as often as they like: where the limit lets it, and with the
// number of those that were kept back. Thread-safe.
void LogRarely(RateLimit& limit, absl::string_view message, LogFields fields);

// The part of a line after time and level; never holds a newline.
std::string FormatText(absl::string_view message, const LogFields& fields);
std::string FormatJson(absl::string_view message, const LogFields& fields);

}  // namespace latentd::server::process
