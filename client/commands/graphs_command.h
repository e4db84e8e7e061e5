// `latent graphs VERB`: one function for each verb, in graphs_command.cc (looking),
// graphs_change_command.cc (changing) and graphs_transfer_command.cc (carrying).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/options/connection.h"
#include "client/output/error_text.h"
#include "client/rpc/admin_client.h"
#include "latent/v1/graph_cache.pb.h"

namespace latentd::client {

// The options of all verbs. Each verb has the options that mean something to it.
struct GraphsOptions {
  Connection connection;
  v1::GraphSelector selector;
  std::vector<std::string> words;
  bool json = false;
  bool dry_run = false;
  bool force = false;
  v1::CacheTier tier = v1::CACHE_TIER_MEMORY;
  std::string output;
  std::string archive;  // bytes that import read
};

// Before the call is made: whether the file of export can be written, and what is in that of
// import.
absl::Status CheckOutput(GraphsOptions& options);
absl::Status ReadArchive(GraphsOptions& options);

// A verb's options are parsed; `client` is cancelled by Ctrl-C.
ExitCode ListGraphs(AdminClient& client, GraphsOptions& options);
ExitCode ShowGraph(AdminClient& client, GraphsOptions& options);
ExitCode WarmGraphs(AdminClient& client, GraphsOptions& options);
ExitCode SaveGraphs(AdminClient& client, GraphsOptions& options);
ExitCode LoadGraphs(AdminClient& client, GraphsOptions& options);
ExitCode VerifyGraphs(AdminClient& client, GraphsOptions& options);
ExitCode EvictGraphs(AdminClient& client, GraphsOptions& options);
ExitCode PinGraphs(AdminClient& client, GraphsOptions& options);
ExitCode UnpinGraphs(AdminClient& client, GraphsOptions& options);
ExitCode ExportGraphs(AdminClient& client, GraphsOptions& options);
ExitCode ImportGraphs(AdminClient& client, GraphsOptions& options);

// A line for each result; kFailed if one is an error.
ExitCode PrintResults(const v1::GraphResults& results, const GraphsOptions& options);

}  // namespace latentd::client
