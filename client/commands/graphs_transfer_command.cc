// latent graphs: the verbs that carry graphs from one server to another.
#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/commands/graph_archive.h"
#include "client/commands/graphs_command.h"
#include "client/options/files.h"
#include "client/output/json_output.h"
#include "client/words/text.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

ExitCode Fail(const absl::Status& status) {
  std::cerr << "latent: " << status.message() << '\n';
  return ExitCode::kFailed;
}

absl::Status WriteArchive(const std::string& bytes, const GraphsOptions& options) {
  if (options.output == "-") return WriteStandardOutput(bytes);
  return WriteFile(options.output, bytes, options.force ? Overwrite::kReplace : Overwrite::kNever);
}

}  // namespace

absl::Status CheckOutput(GraphsOptions& options) {
  if (options.output.empty()) return absl::InvalidArgumentError("export needs --output FILE");
  if (options.json && options.output == "-") {
    return absl::InvalidArgumentError("--json: not with --output -");
  }
  if (options.output != "-") {
    return CheckWritable(options.output, options.force ? Overwrite::kReplace : Overwrite::kNever);
  }
  return isatty(STDOUT_FILENO)
             ? absl::InvalidArgumentError("--output -: standard output is a terminal; redirect it")
             : absl::OkStatus();
}

absl::Status ReadArchive(GraphsOptions& options) {
  if (options.words.size() != 1) return absl::InvalidArgumentError("import takes one FILE (or -)");
  const std::string& path = options.words.front();
  ASSIGN_OR_RETURN(options.archive, ReadFile(path));
  const absl::Status sound = GraphArchiveReader::Check(options.archive);
  if (sound.ok()) return sound;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", sound.message()));
}

ExitCode ExportGraphs(AdminClient& client, GraphsOptions& options) {
  v1::ExportGraphsRequest request;
  *request.mutable_selector() = options.selector;
  GraphArchiveWriter archive;
  absl::Status problem;
  const grpc::Status status = client.ExportGraphs(request, [&](const v1::GraphBytes& part) {
    problem = archive.Add(part);
    return problem.ok();
  });
  if (!problem.ok()) return Fail(problem);
  if (!status.ok()) {
    return CallFailed(status, options.connection, /*connected=*/archive.graphs() > 0);
  }
  for (const absl::Status& step : {archive.Finish(), WriteArchive(archive.bytes(), options)}) {
    if (!step.ok()) return Fail(step);
  }
  const auto bytes = static_cast<int64_t>(archive.bytes().size());
  if (options.json) {
    std::cout << "{\"file\":" << JsonString(options.output) << ",\"graphs\":" << archive.graphs()
              << ",\"bytes\":\"" << bytes << "\"}\n";
  } else {
    std::cerr << absl::StrCat(archive.graphs(), " graphs, ", BytesText(bytes), "\n");
  }
  return ExitCode::kOk;
}

ExitCode ImportGraphs(AdminClient& client, GraphsOptions& options) {
  GraphArchiveReader archive(options.archive);
  v1::GraphResults results;
  const grpc::Status status =
      client.ImportGraphs([&](v1::GraphBytes& part) { return archive.Next(part); }, results);
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  return PrintResults(results, options);
}

}  // namespace latentd::client
