// latent graphs: the verbs that change what is held.
#include <iostream>

#include "absl/strings/str_format.h"
#include "client/commands/command_options.h"
#include "client/commands/graphs_command.h"
#include "client/output/json_output.h"
#include "client/words/text.h"

namespace latentd::client {
namespace {

// One of the calls that take a selector and give a result for each graph.
template <typename Request>
ExitCode Change(AdminClient& client, const GraphsOptions& options, Request request,
                grpc::Status (AdminClient::*method)(const Request&, v1::GraphResults&)) {
  *request.mutable_selector() = options.selector;
  v1::GraphResults results;
  const grpc::Status status = (client.*method)(request, results);
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  return PrintResults(results, options);
}

void PrintProgress(const v1::WarmBucketsEvent::Progress& progress) {
  const v1::GraphResult& result = progress.result();
  std::cerr << absl::StrFormat(
      "%d/%d %s %s %s %s: %s\n", progress.done(), progress.total(), result.id().substr(0, 12),
      result.model(), result.component(), SizeText(result.bucket()),
      result.has_error() ? result.error().message()
                         : std::string(progress.compiled() ? "compiled in " : "there in ") +
                               DurationText(progress.duration()));
}

void PrintDone(const v1::WarmBucketsEvent::Done& done) {
  const v1::MemoryPrediction& p = done.predicted();
  std::cout << absl::StrFormat("%d compiled, %d loaded, %d ready before, %d failed\n",
                               done.compiled(), done.loaded(), done.ready_before(), done.failed());
  std::cout << TableText({{"weights", BytesText(p.weights_bytes())},
                          {"arena", BytesText(p.arena_bytes())},
                          {"state", BytesText(p.state_bytes())},
                          {"graphs", BytesText(p.executables_bytes())},
                          {"together", BytesText(p.total_bytes())}});
}

}  // namespace

ExitCode WarmGraphs(AdminClient& client, GraphsOptions& options) {
  v1::WarmBucketsRequest request;
  *request.mutable_selector() = options.selector;
  request.set_dry_run(options.dry_run);
  ExitCode code = ExitCode::kOk;
  bool connected = false;
  const grpc::Status status = client.WarmBuckets(request, [&](const v1::WarmBucketsEvent& event) {
    connected = true;
    if (event.done().failed() > 0) code = ExitCode::kFailed;
    if (options.json) {
      PrintJsonLine(event);
    } else if (event.has_progress()) {
      PrintProgress(event.progress());
    } else {
      PrintDone(event.done());
    }
  });
  return status.ok() ? code : CallFailed(status, options.connection, connected);
}

ExitCode SaveGraphs(AdminClient& client, GraphsOptions& options) {
  return Change(client, options, v1::SaveGraphsRequest(), &AdminClient::SaveGraphs);
}

ExitCode LoadGraphs(AdminClient& client, GraphsOptions& options) {
  return Change(client, options, v1::LoadGraphsRequest(), &AdminClient::LoadGraphs);
}

ExitCode VerifyGraphs(AdminClient& client, GraphsOptions& options) {
  return Change(client, options, v1::VerifyGraphsRequest(), &AdminClient::VerifyGraphs);
}

ExitCode EvictGraphs(AdminClient& client, GraphsOptions& options) {
  v1::EvictGraphsRequest request;
  request.set_tier(options.tier);
  request.set_force(options.force);
  return Change(client, options, std::move(request), &AdminClient::EvictGraphs);
}

ExitCode PinGraphs(AdminClient& client, GraphsOptions& options) {
  return Change(client, options, v1::PinGraphsRequest(), &AdminClient::PinGraphs);
}

ExitCode UnpinGraphs(AdminClient& client, GraphsOptions& options) {
  v1::PinGraphsRequest request;
  request.set_unpin(true);
  return Change(client, options, std::move(request), &AdminClient::PinGraphs);
}

}  // namespace latentd::client
