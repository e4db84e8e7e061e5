// latent graphs: the verbs, and those that look.
#include "client/commands/graphs_command.h"

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/admin_address.h"
#include "client/options/api_key.h"
#include "client/options/graph_selection.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/words/suggestions.h"
#include "client/words/text.h"
#include "core/base/process/admin_socket.h"
#include "core/base/process/stop_signals.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

constexpr char kTitle[] =
    "latent graphs VERB [ID...] [options] deals with the compiled graphs of a latentd.\n\n";

constexpr char kWhere[] = R"(
--server names the server's --admin-listen; of one on this machine, run by the same user, its --listen does as well.
)";

struct Verb {
  const char* name;
  const char* summary;
  const char* example;  // behind its name
  ExitCode (*run)(AdminClient&, GraphsOptions&);
  bool selects;       // takes IDs and options that say which graphs
  bool needs_graphs;  // and refuses to do without
  std::vector<Option> (*options)(GraphsOptions&);
  absl::Status (*prepare)(GraphsOptions&) = nullptr;  // checks that need no server
};

std::vector<Option> NoOptions(GraphsOptions&) { return {}; }

std::vector<Option> WarmOptions(GraphsOptions& options) {
  return {{"dry-run", "", "only say what it would hold", SetSwitch(options.dry_run)}};
}

std::vector<Option> EvictOptions(GraphsOptions& options) {
  const auto set_tier = [&options](const std::string& tier) {
    v1::CacheTier_Parse(absl::StrCat("CACHE_TIER_", absl::AsciiStrToUpper(tier)), &options.tier);
  };
  return {ChoiceOption("tier", "NAME", "memory (default), disk or both", {"memory", "disk", "both"},
                       set_tier),
          {"force", "", "even what is pinned or in use", SetSwitch(options.force)}};
}

std::vector<Option> ExportOptions(GraphsOptions& options) {
  return {WithLetter(
              'o', {"output", "FILE", "where to; - is standard output", SetString(options.output)}),
          {"force", "", "overwrite FILE", SetSwitch(options.force)}};
}

constexpr Verb kVerbs[] = {
    {"list", "what there is, and what it cost", "--bucket 1024x1024", ListGraphs, true, false,
     NoOptions},
    {"show", "everything about one graph", "3f9a2c", ShowGraph, false, false, NoOptions},
    {"warm", "compile or load, and run once", "--bucket 832x1216", WarmGraphs, true, true,
     WarmOptions},
    {"save", "write to disk what is compiled", "--all", SaveGraphs, true, true, NoOptions},
    {"load", "from disk to ready; never compiles", "--component vae_decoder", LoadGraphs, true,
     true, NoOptions},
    {"verify", "read and check the files", "--all", VerifyGraphs, true, true, NoOptions},
    {"evict", "let go", "--bucket 832x1216 --tier both", EvictGraphs, true, true, EvictOptions},
    {"pin", "never evict to make room", "--bucket 1024x1024", PinGraphs, true, true, NoOptions},
    {"unpin", "the opposite", "--all", UnpinGraphs, true, true, NoOptions},
    {"export", "all of them as one file", "--all --output graphs.latent", ExportGraphs, true, true,
     ExportOptions, CheckOutput},
    {"import", "such a file into another server", "graphs.latent --server unix:/run/other.sock",
     ImportGraphs, false, false, NoOptions, ReadArchive},
};

std::string Introduction() {
  std::string text = kTitle;
  for (const Verb& verb : kVerbs) {
    absl::StrAppendFormat(&text, "  %-9s%-37slatent graphs %s %s\n", verb.name, verb.summary,
                          verb.name, verb.example);
  }
  return text + kWhere;
}

std::vector<OptionGroup> OptionsOf(const Verb& verb, GraphsOptions& options) {
  std::vector<OptionGroup> groups;
  if (verb.selects) groups.push_back(SelectionOptions(options.selector));
  std::vector<Option> more = verb.options(options);
  more.push_back(JsonOption(options.json));
  more.push_back(AdminServerOption(options.connection));
  more.push_back(ApiKeyOption(options.connection));
  more.push_back(HelpOption(options.connection));
  groups.push_back({"Options", std::move(more)});
  groups.push_back(TlsOptions(options.connection));
  return groups;
}

ExitCode RunVerb(const Verb& verb, const std::vector<std::string>& arguments) {
  GraphsOptions options;
  const std::vector<OptionGroup> groups = OptionsOf(verb, options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << Introduction() << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), "latent graphs");
  options.words = *words;
  if (verb.selects && (verb.needs_graphs || !words->empty())) {
    const absl::Status selected = SelectGraphs(*words, options.selector);
    if (!selected.ok()) return UsageError(selected, "latent graphs");
  }
  const absl::Status prepared = verb.prepare != nullptr ? verb.prepare(options) : absl::OkStatus();
  if (!prepared.ok()) return UsageError(prepared, "latent graphs");
  BlockStopSignals();
  UseAdminSocket(AdminSocketFolder(), options.connection);
  AdminClient client(options.connection.server, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  const ExitCode code = verb.run(client, options);
  return interrupt.happened() ? ExitCode::kInterrupted : code;
}

std::string StateText(const v1::Graph& graph) {
  std::string text =
      absl::AsciiStrToLower(v1::GraphState_Name(graph.state()).substr(sizeof("GRAPH_STATE_") - 1));
  if (graph.pinned()) absl::StrAppend(&text, ", pinned");
  if (graph.in_use()) absl::StrAppend(&text, ", in use");
  return text;
}

std::string NameText(const v1::Graph& graph) {
  return absl::StrCat(graph.component(), graph.part().empty() ? "" : " ", graph.part(),
                      graph.fallback() ? " fp32" : "");
}

std::string LastUseText(const v1::Graph& graph) {
  const absl::Time last_use = graph.has_last_use()
                                  ? absl::FromUnixSeconds(graph.last_use().seconds())
                                  : absl::InfinitePast();
  return AgoText(last_use, absl::Now());
}

std::string OutcomeText(const v1::GraphResult& result) {
  if (result.has_error()) return result.error().message();
  return result.unused().empty() ? "ok" : absl::StrCat("ok, but not used: ", result.unused());
}

void PrintReasons(const v1::ListGraphsResponse& response) {
  for (const v1::Graph& graph : response.graphs()) {
    if (graph.reason().empty()) continue;
    std::cout << graph.id().substr(0, 12) << ": " << graph.reason() << '\n';
  }
}

}  // namespace

CommandShape GraphsShape() {
  CommandShape shape = {"graphs", "compiled graphs", {}};
  for (const Verb& verb : kVerbs) {
    GraphsOptions options;
    shape.verbs.push_back({verb.name, verb.summary, WithoutTargets(OptionsOf(verb, options))});
  }
  return shape;
}

ExitCode RunGraphs(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return UsageError(absl::InvalidArgumentError("say what to do with graphs"), "latent graphs");
  }
  const std::string& name = arguments.front();
  for (const Verb& verb : kVerbs) {
    if (name == verb.name) return RunVerb(verb, {arguments.begin() + 1, arguments.end()});
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << Introduction() << "\n`latent graphs VERB --help` has the options of each.\n";
    return ExitCode::kOk;
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  return UsageError(
      absl::InvalidArgumentError(absl::StrCat("there is no verb '", Excerpt(name), "'",
                                              DidYouMean(NearestName(name, names)))),
      "latent graphs");
}

ExitCode ListGraphs(AdminClient& client, GraphsOptions& options) {
  v1::ListGraphsRequest request;
  if (SelectsAny(options.selector)) *request.mutable_selector() = options.selector;
  v1::ListGraphsResponse response;
  const grpc::Status status = client.ListGraphs(request, response);
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  if (options.json) return PrintJson(response);
  std::vector<std::vector<std::string>> rows = {{"ID", "MODEL", "GRAPH", "BUCKET", "ROWS", "STATE",
                                                 "MEMORY", "DISK", "COMPILE", "LOAD", "HITS",
                                                 "LAST USE", "USERS"}};
  for (const v1::Graph& g : response.graphs()) {
    rows.push_back(
        {g.id().substr(0, 12), g.model(), NameText(g), SizeText(g.bucket()), absl::StrCat(g.rows()),
         StateText(g), BytesText(g.device_bytes() + g.memory_bytes()), BytesText(g.disk_bytes()),
         DurationText(g.compile_time()), DurationText(g.load_time()), absl::StrCat(g.hits()),
         LastUseText(g), g.users().empty() ? "-" : absl::StrJoin(g.users(), ", ")});
  }
  std::cout << TableText(rows);
  PrintReasons(response);
  return ExitCode::kOk;
}

ExitCode ShowGraph(AdminClient& client, GraphsOptions& options) {
  if (options.words.size() != 1) {
    return UsageError(absl::InvalidArgumentError("show takes one ID"), "latent graphs");
  }
  v1::GetGraphRequest request;
  request.set_id(options.words.front());
  v1::Graph g;
  const grpc::Status status = client.GetGraph(request, g);
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  if (options.json) return PrintJson(g);
  std::vector<std::vector<std::string>> rows = {
      {"id", g.id()},
      {"model", g.model()},
      {"graph", NameText(g)},
      {"bucket", SizeText(g.bucket())},
      {"rows", absl::StrCat(g.rows())},
      {"precision", g.precision()},
      {"state", StateText(g)},
      {"users", absl::StrJoin(g.users(), ", ")},
      {"loaded", absl::StrCat(BytesText(g.device_bytes()), ", and ", BytesText(g.arena_bytes()),
                              " of the arena while it runs")},
      {"compiled form", absl::StrCat(BytesText(g.memory_bytes()), " in memory, ",
                                     BytesText(g.disk_bytes()), " on disk")},
      {"compile", DurationText(g.compile_time())},
      {"load", DurationText(g.load_time())},
      {"hits", absl::StrCat(g.hits(), ", last ", LastUseText(g))}};
  if (!g.reason().empty()) rows.push_back({"reason", g.reason()});
  for (const v1::KeyField& field : g.key()) {
    rows.push_back({absl::StrCat("key: ", field.name()), field.value()});
  }
  std::cout << TableText(rows);
  return ExitCode::kOk;
}

ExitCode PrintResults(const v1::GraphResults& results, const GraphsOptions& options) {
  int failed = 0, unused = 0;
  for (const v1::GraphResult& result : results.results()) {
    failed += result.has_error() ? 1 : 0;
    unused += result.unused().empty() ? 0 : 1;
  }
  const ExitCode code = failed > 0 ? ExitCode::kFailed : ExitCode::kOk;
  if (options.json) {
    const ExitCode printed = PrintJson(results);
    return printed == ExitCode::kOk ? code : printed;
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::GraphResult& result : results.results()) {
    rows.push_back({result.id().substr(0, 12), result.model(), result.component(),
                    SizeText(result.bucket()), OutcomeText(result)});
  }
  std::cout << TableText(rows);
  std::cerr << absl::StrFormat("%d done, %d failed\n", results.results_size() - failed, failed);
  if (unused > 0) {
    std::cerr << absl::StrFormat("warning: %d of them are not used by this server\n", unused);
  }
  return code;
}

}  // namespace latentd::client
