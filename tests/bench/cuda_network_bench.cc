// How long SDXL's networks take on an NVIDIA GPU, and which kernels take it:
//
//   cuda_network_bench --cases tests/golden [--network unet_sdxl_base] [--rows 2] [--size 1024]
//                      [--precision bf16] [--runs 30] [--kernels]
//
// The network's architecture is that of a case of networks.json, its weights and inputs are random.
// Prints what planning and loading took, the milliseconds of a run as one launch, and with
// --kernels each kind of instruction's share, timed alone. Run by hand, on a machine that is idle.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/backends/bound_graph.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/status_macros.h"
#include "core/compiler/compile.h"
#include "core/graph/op_table.h"
#include "core/passes/pipeline.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_graphs.h"
#include "tests/golden/synthetic_weights.h"

namespace latentd {
namespace {

using backends::BoundGraph;
using backends::cuda::CudaBackend;
using backends::cuda::CudaExecutable;
using backends::cuda::CudaSession;
using nlohmann::json;

struct Options {
  std::string cases, network = "unet_sdxl_base", precision = "bf16";
  int64_t rows = 2, size = 1024;
  int runs = 30;
  bool kernels = false;
};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

golden::InputShapes ShapesOf(const json& config, const Options& options) {
  const int64_t side = options.size / 8, rows = options.rows;
  return {{"sample", {rows, 4, side, side}},
          {"timestep", {rows}},
          {"encoder_hidden_states", {rows, 77, config.value("cross_attention_dim", 2048)}},
          {"text_embeds", {rows, 1280}},
          {"time_ids",
           {rows, config.value("projection_class_embeddings_input_dim", 2816) == 2560 ? 5 : 6}},
          {"latents", {rows, 4, side, side}},
          {"image", {rows, 3, options.size, options.size}},
          {"input_ids", {rows, 77}}};
}

// The last graph of the network: of an autoencoder, the decoder.
absl::StatusOr<graph::Graph> NetworkOf(const json& network_case, const Options& options) {
  ASSIGN_OR_RETURN(
      std::vector<graph::Graph> graphs,
      golden::BuildNetworkGraphs(network_case.value("class", ""), network_case["config"].dump(),
                                 ShapesOf(network_case["config"], options)));
  return std::move(graphs.back());
}

absl::StatusOr<weights::TensorMap> WeightsOf(const graph::Graph& graph) {
  std::map<std::string, device::Shape> shapes;
  for (graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const graph::Node& node = graph.node(id);
    shapes[std::string(absl::StripPrefix(node.name, absl::StrCat(golden::kComponent, "/")))] =
        node.shape;
  }
  return golden::MakeSyntheticWeights(shapes);
}

absl::Status FillInputs(const BoundGraph& bound, const backends::Executable& executable,
                        device::Stream& stream) {
  std::mt19937 random(7);
  for (const backends::Port& port : executable.inputs()) {
    const device::Buffer values = testing::RandomBuffer(port.name, port.dtype, port.shape, random);
    RETURN_IF_ERROR(bound.device().Copy(values, bound.input(port.name), stream));
    RETURN_IF_ERROR(stream.Synchronize());
  }
  return absl::OkStatus();
}

// Milliseconds of `enqueue`, the mean of so many runs behind each other.
template <typename Enqueue>
absl::StatusOr<double> Milliseconds(device::Stream& stream, int runs, const Enqueue& enqueue) {
  RETURN_IF_ERROR(enqueue());
  ASSIGN_OR_RETURN(const auto begin, stream.Record());
  for (int i = 0; i < runs; ++i) RETURN_IF_ERROR(enqueue());
  ASSIGN_OR_RETURN(const auto end, stream.Record());
  RETURN_IF_ERROR(end->Wait());
  return absl::ToDoubleMilliseconds(end->time() - begin->time()) / runs;
}

std::string Describe(const backends::lowering::Instruction& instruction) {
  std::string text(graph::RowOf(instruction.op).name);
  if (instruction.kernel == backends::lowering::Kernel::kCopy) text = "copy";
  for (const auto& operand : instruction.operands) {
    absl::StrAppend(&text, " ", operand.present() ? operand.shape.ToString() : "-");
  }
  return text;
}

absl::Status PrintKernels(const CudaExecutable& executable, const CudaSession& session,
                          device::Stream& stream) {
  struct Sum {
    double milliseconds = 0;
    int count = 0;
  };
  std::map<std::string, Sum> by_op, by_shape;
  double all = 0;
  for (size_t i = 0; i < executable.program().instructions.size(); ++i) {
    const auto& instruction = executable.program().instructions[i];
    ASSIGN_OR_RETURN(const double own, Milliseconds(stream, 5, [&] {
                       return session.EnqueueInstruction(i, stream);
                     }));
    const std::string text = Describe(instruction);
    for (Sum* sum : {&by_op[text.substr(0, text.find(' '))], &by_shape[text]}) {
      sum->milliseconds += own;
      ++sum->count;
    }
    all += own;
  }
  std::printf("kernels alone, in all %.2f ms\n", all);
  for (const auto& [op, sum] : by_op) {
    std::printf("  %-20s %4d %8.3f ms\n", op.c_str(), sum.count, sum.milliseconds);
  }
  std::vector<std::pair<double, std::string>> slowest;
  for (const auto& [shape, sum] : by_shape) {
    slowest.emplace_back(sum.milliseconds, absl::StrCat(sum.count, " x ", shape));
  }
  std::sort(slowest.rbegin(), slowest.rend());
  for (size_t i = 0; i < std::min<size_t>(slowest.size(), 45); ++i) {
    std::printf("  %8.3f ms  %s\n", slowest[i].first, slowest[i].second.c_str());
  }
  return absl::OkStatus();
}

absl::Status Measure(const json& network_case, const Options& options, CudaBackend& backend) {
  auto since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const graph::Graph network, NetworkOf(network_case, options));
  ASSIGN_OR_RETURN(const weights::TensorMap tensors, WeightsOf(network));
  std::printf("%s, %d rows, %dx%d, %s: weights drawn in %.1f s\n", options.network.c_str(),
              static_cast<int>(options.rows), static_cast<int>(options.size),
              static_cast<int>(options.size), options.precision.c_str(), Seconds(since));
  weights::WeightStore store(backend);
  weights::WeightSet set(&store);
  set.Add(golden::kComponent, tensors);
  const graph::DType dtype = device::ParseDType(options.precision).value_or(graph::DType::kBF16);
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const graph::SplitGraphs split, compiler::SplitInPrecision(network, {dtype}));
  ASSIGN_OR_RETURN(graph::Graph step,
                   passes::RunPasses(split.step, backend.target(),
                                     {.evaluate = backends::reference::EvaluateRecipe}));
  const auto graph = std::make_shared<const graph::Graph>(std::move(step));
  std::printf("  passes %.2f s", Seconds(since));
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const backends::Plan plan, backend.MakePlan(*graph));
  std::printf(", plan %.2f s (%zu bytes, arena %.0f MiB)", Seconds(since), plan.bytes.size(),
              static_cast<double>(plan.arena_bytes) / (1 << 20));
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::shared_ptr<backends::Executable> executable,
                   backend.Load(graph, plan, set));
  std::printf(", load %.2f s (%.2f GB of weights)", Seconds(since),
              static_cast<double>(store.bytes_held()) / 1e9);
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const BoundGraph bound, BoundGraph::Create(executable));
  std::printf(", capture %.2f s\n", Seconds(since));
  ASSIGN_OR_RETURN(const auto stream, backend.device().NewStream(SystemClock()));
  RETURN_IF_ERROR(FillInputs(bound, *executable, *stream));
  const auto run = [&] { return bound.session().Enqueue(*stream); };
  RETURN_IF_ERROR(Milliseconds(*stream, 3, run).status());
  ASSIGN_OR_RETURN(const double mean, Milliseconds(*stream, options.runs, run));
  std::printf("  %.3f ms a run, the mean of %d\n", mean, options.runs);
  if (!options.kernels) return absl::OkStatus();
  return PrintKernels(static_cast<const CudaExecutable&>(*executable),
                      static_cast<const CudaSession&>(bound.session()), *stream);
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const json cases, golden::ReadJsonFile(options.cases + "/networks.json"));
  ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  std::printf("%s\n", backend->Fingerprint().c_str());
  for (const json& network_case : cases) {
    if (network_case.value("name", "") == options.network) {
      return Measure(network_case, options, *backend);
    }
  }
  return absl::NotFoundError(absl::StrCat("networks.json has no ", options.network));
}

bool Set(Options& options, absl::string_view name, const std::string& value) {
  if (name == "--cases") options.cases = value;
  if (name == "--network") options.network = value;
  if (name == "--precision") options.precision = value;
  if (name == "--rows") return absl::SimpleAtoi(value, &options.rows);
  if (name == "--size") return absl::SimpleAtoi(value, &options.size);
  if (name == "--runs") return absl::SimpleAtoi(value, &options.runs);
  return absl::StartsWith(name, "--");
}

}  // namespace
}  // namespace latentd

int main(int argc, char** argv) {
  latentd::Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--kernels") {
      options.kernels = true;
    } else if (i + 1 == argc || !latentd::Set(options, argv[i], argv[i + 1])) {
      std::fprintf(stderr, "%s is not understood, or lacks a value\n", argv[i]);
      return 2;
    } else {
      ++i;
    }
  }
  const absl::Status status = latentd::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
