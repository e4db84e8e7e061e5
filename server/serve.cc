#include "server/serve.h"

#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "server/grpc_server.h"
#include "server/log.h"
#include "server/signals.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kEndWhileLoading = absl::Milliseconds(800);

int Fail(const absl::Status& status) {
  Log(v1::ERROR, std::string(status.message()));
  return 1;
}

double Seconds(absl::Duration duration) { return absl::ToInt64Milliseconds(duration) / 1000.0; }

// Loads in a thread of its own, so that signals and health checks are answered meanwhile.
class Loader {
 public:
  Loader(engine::Engine& engine, GrpcServer& server, StopSignals& signals)
      : engine_(engine), server_(server), signals_(signals), thread_(&Loader::Load, this) {}

  absl::Status Join() {
    thread_.join();
    return status_;
  }

 private:
  void Load() {
    const absl::Time start = SystemClock().Monotonic();
    status_ = engine_.Load();
    if (!status_.ok()) return signals_.RequestStop();
    server_.SetReady();
    Log(v1::INFO, "ready", {{"load_seconds", Seconds(SystemClock().Monotonic() - start)}});
  }

  engine::Engine& engine_;
  GrpcServer& server_;
  StopSignals& signals_;
  absl::Status status_;  // written before the thread ends
  std::thread thread_;
};

// Reading a large file cannot be interrupted, and nothing is lost by not waiting for it.
void EndSoonWhileLoading() {
  std::thread([] {
    absl::SleepFor(kEndWhileLoading);
    std::_Exit(0);
  }).detach();
}

}  // namespace

int Serve(const Options& options, const std::string& version) {
  auto engine = engine::Engine::Create(options.engine, SystemClock());
  if (!engine.ok()) return Fail(engine.status());
  auto server = GrpcServer::Start({options.listen, options.max_request_bytes, version}, **engine,
                                  SystemClock());
  if (!server.ok()) return Fail(server.status());
  Log(v1::INFO, absl::StrCat("listening on ", (*server)->address()), {{"version", version}});

  StopSignals signals;
  Loader loader(**engine, **server, signals);
  while (!signals.WaitForStop(kTick)) (*server)->CancelStalled();

  const engine::State state = (*engine)->state();
  if (state == engine::State::kFailed) return Fail(loader.Join());
  const bool loading = state == engine::State::kLoading;
  if (loading) EndSoonWhileLoading();
  Log(v1::INFO, "stopping", {{"drain_timeout_seconds", Seconds(options.drain_timeout)}});
  (*server)->Drain(loading ? absl::ZeroDuration() : options.drain_timeout);
  loader.Join().IgnoreError();
  Log(v1::INFO, "stopped");
  return 0;
}

}  // namespace latentd::server
