// How long a checkpoint's networks take, and on an NVIDIA GPU which kernels take it:
//
//   cuda_network_bench --checkpoint DIR [--component unet] [--shapes 2@1024x1024,1@1152x896]
//                      [--backend cuda] [--precision bf16] [--paths 8x32] [--runs 30] [--kernels]
//                      [--parts]
//
// A shape is rows@WIDTHxHEIGHT in pixels, and rows@WIDTHxHEIGHTxFRAMES of a UNet of Stable Video
// Diffusion, whose decoder has frames as rows. Inputs are random; `tests/bench/gpu
// --checkpoint-only` makes a checkpoint of SDXL's architecture. Prints for each shape what
// planning, hashing the weights and loading them took and the milliseconds of each run, one launch,
// and with --kernels each kind of instruction's share, timed alone. Of an autoencoder the decoder
// runs. With --paths linears have low-rank paths beside them, of so many slots and ranks, and each
// row its own slot as long as there are some; --paths 0x32 is what they cost rows without one. With
// --parts the decoder of videos runs as a whole and in its parts, as units do, and their pixels are
// compared: it fails where a byte differs. Run by hand or by tests/bench/gpu, on a machine that is
// idle.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/backends/bound_graph.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/compile.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/families/svd/video_graphs.h"
#include "core/graph/low_rank_paths.h"
#include "core/graph/op_table.h"
#include "core/networks/autoencoder_temporal.h"
#include "core/passes/pipeline.h"
#include "core/pipeline/graphs/f8_policy.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/golden/network_graphs.h"

namespace latentd {
namespace {

using backends::Backend;
using backends::BoundGraph;
using backends::Executable;
using backends::cuda::CudaExecutable;
using backends::cuda::CudaSession;
using nlohmann::json;

struct Shape {
  int64_t rows = 2, width = 1024, height = 1024, frames = 0;  // frames: of videos alone
};

// Low-rank paths of the linears; none: 0 ranks.
struct Paths {
  int64_t slots = 0, ranks = 0;
};

struct Options {
  std::string checkpoint, component = "unet", backend = "cuda", precision = "bf16";
  std::vector<Shape> shapes = {Shape{}};
  Paths paths;
  int runs = 30;
  bool kernels = false, parts = false;
};

// A component of a checkpoint, and what graphs of it need.
struct Network {
  std::string class_name, config;
  int64_t time_ids = 6;
  weights::WeightSet weights;
};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

absl::StatusOr<Network> OpenNetwork(const Options& options, weights::WeightStore& store) {
  ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint,
                   weights::Checkpoint::Open({options.checkpoint}));
  if (!checkpoint.Has(options.component)) {
    return absl::NotFoundError(
        absl::StrCat(options.checkpoint, " has no component ", options.component));
  }
  ASSIGN_OR_RETURN(std::string config, checkpoint.ConfigText(options.component));
  ASSIGN_OR_RETURN(const weights::SourceMap sources, checkpoint.LoadWeights(options.component));
  Network network{.class_name = checkpoint.components().at(options.component).class_name,
                  .config = std::move(config),
                  .time_ids = checkpoint.requires_aesthetics_score() ? 5 : 6,
                  .weights = weights::WeightSet(&store)};
  network.weights.Add(options.parts ? families::svd::kVae : golden::kComponent, sources);
  return network;
}

// Inputs of Stable Video Diffusion's UNet, for which the image is one token.
golden::InputShapes VideoInputsOf(const json& config, const Shape& shape) {
  const auto number = [&](const char* field) { return config.at(field).get<int64_t>(); };
  const int64_t numbers =
      number("projection_class_embeddings_input_dim") / number("addition_time_embed_dim");
  return {{"sample",
           {shape.rows, shape.frames, number("in_channels"), shape.height / 8, shape.width / 8}},
          {"timestep", {shape.rows}},
          {"time_ids", {shape.rows, numbers}},
          {"encoder_hidden_states", {shape.rows, 1, number("cross_attention_dim")}}};
}

golden::InputShapes InputsOf(const Network& network, const Shape& shape) {
  const json config = json::parse(network.config);
  if (shape.frames > 0) return VideoInputsOf(config, shape);
  const int64_t rows = shape.rows, height = shape.height / 8, width = shape.width / 8;
  const int64_t pooled = config.value("projection_class_embeddings_input_dim", int64_t{0}) -
                         network.time_ids * config.value("addition_time_embed_dim", int64_t{0});
  golden::InputShapes shapes = {{"sample", {rows, 4, height, width}},
                                {"timestep", {rows}},
                                {"time_ids", {rows, network.time_ids}},
                                {"latents", {rows, 4, height, width}},
                                {"image", {rows, 3, shape.height, shape.width}},
                                {"input_ids", {rows, 77}}};
  if (pooled > 0) shapes["text_embeds"] = {rows, pooled};
  if (config.contains("cross_attention_dim")) {
    shapes["encoder_hidden_states"] = {rows, 77, config["cross_attention_dim"].get<int64_t>()};
  }
  return shapes;
}

// As latentd's --precision, but that fp8 takes every linear that it can; fp8_all has the
// convolutions that latentd's has.
absl::StatusOr<graph::Precision> PrecisionOf(const std::string& precision) {
  if (precision == "fp32" || precision == "tf32") return graph::Precision{};
  if (precision == "bf16") return graph::Precision{graph::DType::kBF16};
  if (precision == "fp16") return graph::Precision{graph::DType::kF16};
  if (precision == "fp8") return graph::Precision{graph::DType::kBF16, {}, {"*"}};
  if (precision == "fp8_all") {
    graph::Precision f8{graph::DType::kBF16, {}, {"*"}};
    pipeline::AddF8Convolutions(f8);
    for (std::vector<std::string>* patterns : {&f8.f8_convolutions, &f8.f8_exceptions}) {
      for (std::string& pattern : *patterns) {
        pattern = absl::StrCat(golden::kComponent, "/", absl::StripPrefix(pattern, "unet/"));
      }
    }
    return f8;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no precision ", precision, ": fp32, bf16, fp16, fp8, fp8_all, tf32"));
}

// The part of the network's last graph that every step runs: of an autoencoder, the decoder.
absl::StatusOr<graph::Graph> GraphOf(const Network& network, const Shape& shape,
                                     const Options& options, const graph::Target& target) {
  ASSIGN_OR_RETURN(
      std::vector<graph::Graph> graphs,
      golden::BuildNetworkGraphs(network.class_name, network.config, InputsOf(network, shape)));
  ASSIGN_OR_RETURN(const graph::Precision asked, PrecisionOf(options.precision));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, compiler::SplitInPrecision(graphs.back(), asked));
  if (const auto [slots, ranks] = options.paths; ranks > 0) {
    ASSIGN_OR_RETURN(split.step,
                     graph::AddPaths(split.step, shape.rows, std::max<int64_t>(slots, 1), ranks));
  }
  return passes::RunPasses(std::move(split.step), target,
                           {.evaluate = backends::reference::EvaluateRecipe});
}

// The slots of rows, and factors that are as small as those of LoRAs, so that numbers stay finite.
void SetPaths(const Paths& paths, const std::string& input, const device::Buffer& values) {
  if (input == graph::kPathSlotInput) {
    int64_t next = 0;
    for (int64_t& slot : values.as<int64_t>()) slot = next < paths.slots ? next++ : -1;
  }
  if (input != graph::kPathScalesInput) return;
  for (float& scale : values.as<float>()) scale = 1e-3f;
}

absl::Status FillInputs(const BoundGraph& bound, const backends::Executable& executable,
                        const Paths& paths, device::Stream& stream) {
  std::mt19937 random(7);
  for (const backends::Port& port : executable.inputs()) {
    const device::Buffer values = testing::RandomBuffer(port.name, port.dtype, port.shape, random);
    SetPaths(paths, port.name, values);
    RETURN_IF_ERROR(bound.device().Copy(values, bound.input(port.name), stream));
    RETURN_IF_ERROR(stream.Synchronize());
  }
  return absl::OkStatus();
}

// Milliseconds of each of so many runs of `enqueue` behind each other.
template <typename Enqueue>
absl::StatusOr<std::vector<double>> Milliseconds(device::Stream& stream, int runs,
                                                 const Enqueue& enqueue) {
  RETURN_IF_ERROR(enqueue());
  std::vector<std::shared_ptr<const device::Event>> events;
  for (int i = 0; i <= runs; ++i) {
    if (i > 0) RETURN_IF_ERROR(enqueue());
    ASSIGN_OR_RETURN(events.emplace_back(), stream.Record());
  }
  RETURN_IF_ERROR(events.back()->Wait());
  std::vector<double> milliseconds;
  for (int i = 0; i < runs; ++i) {
    milliseconds.push_back(absl::ToDoubleMilliseconds(events[i + 1]->time() - events[i]->time()));
  }
  return milliseconds;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Milliseconds of one of `enqueue`'s kernels, ten behind each other in a graph: what launching them
// one by one costs the host is left out, as in a step.
template <typename Enqueue>
absl::StatusOr<double> KernelMilliseconds(device::Stream& stream, const Enqueue& enqueue) {
  using device::cuda::ToStatus;
  constexpr int kCopies = 10;
  const cudaStream_t handle = static_cast<device::cuda::CudaStream&>(stream).handle();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t captured = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal),
                           "beginning a graph"));
  absl::Status status;
  for (int i = 0; i < kCopies && status.ok(); ++i) status = enqueue();
  status.Update(ToStatus(cudaStreamEndCapture(handle, &graph), "ending a graph"));
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ToStatus(cudaGraphInstantiate(&captured, graph, 0), "instantiating a graph"));
  const absl::StatusOr<std::vector<double>> runs = Milliseconds(
      stream, 2, [&] { return ToStatus(cudaGraphLaunch(captured, handle), "launching a graph"); });
  cudaGraphExecDestroy(captured);
  cudaGraphDestroy(graph);
  if (!runs.ok()) return runs.status();
  return Mean(*runs) / kCopies;
}

std::string Describe(const backends::lowering::Instruction& instruction) {
  std::string text(graph::RowOf(instruction.op).name);
  if (instruction.kernel == backends::lowering::Kernel::kCopy) text = "copy";
  if (instruction.kernel == backends::lowering::Kernel::kLinearGeglu) text = "linear_geglu";
  if (instruction.kernel == backends::lowering::Kernel::kF8LinearGeglu) text = "f8_linear_geglu";
  if (instruction.kernel == backends::lowering::Kernel::kUpsampleConvolution) {
    text = "upsample_conv2d";
  }
  absl::StrAppend(&text, " ", device::Name(instruction.result.dtype));
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
    ASSIGN_OR_RETURN(const double own, KernelMilliseconds(stream, [&] {
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

// A GPU that draws less power for numbers like NaN is faster with them.
absl::StatusOr<int64_t> CountNotFinite(const BoundGraph& bound, device::Stream& stream) {
  int64_t count = 0;
  for (const device::Buffer& output : bound.outputs()) {
    const device::Buffer values = device::Buffer::Allocate(output.dtype(), output.shape());
    RETURN_IF_ERROR(bound.device().Copy(output, values, stream));
    RETURN_IF_ERROR(stream.Synchronize());
    for (const double value : testing::ToDoubles(values)) count += std::isfinite(value) ? 0 : 1;
  }
  return count;
}

absl::Status Run(const Options& options, const std::shared_ptr<Executable>& executable) {
  const auto since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const BoundGraph bound, BoundGraph::Create(executable));
  std::printf(", capture %.3f s\n", Seconds(since));
  ASSIGN_OR_RETURN(const auto stream, executable->device().NewStream(SystemClock()));
  RETURN_IF_ERROR(FillInputs(bound, *executable, options.paths, *stream));
  const auto run = [&] { return bound.session().Enqueue(*stream); };
  const int warm_runs = std::min(3, options.runs);
  RETURN_IF_ERROR(Milliseconds(*stream, warm_runs, run).status());
  ASSIGN_OR_RETURN(const std::vector<double> runs, Milliseconds(*stream, options.runs, run));
  std::printf("  %.3f ms a run, the mean of %d\n  runs: %s\n", Mean(runs), options.runs,
              absl::StrJoin(runs, " ", [](std::string* text, double value) {
                absl::StrAppendFormat(text, "%.4f", value);
              }).c_str());
  ASSIGN_OR_RETURN(const int64_t not_finite, CountNotFinite(bound, *stream));
  if (not_finite > 0)
    std::printf("  not finite: %lld values\n", static_cast<long long>(not_finite));
  if (!options.kernels || options.backend != "cuda") return absl::OkStatus();
  return PrintKernels(static_cast<const CudaExecutable&>(*executable),
                      static_cast<const CudaSession&>(bound.session()), *stream);
}

// Hashes what the graph's weights contain, by which the store names them: a server that starts has
// that in its cache. As there, loading begins without the file's pages.
absl::Status FindDigests(const graph::Graph& graph, const weights::WeightSet& weights) {
  RETURN_IF_ERROR(weights.ContentDigest(graph).status());
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    ASSIGN_OR_RETURN(const weights::Source source, weights.Find(graph.node(id).name));
    for (const weights::StoredTensor& tensor : source.from) weights::ReleasePages(tensor);
  }
  return absl::OkStatus();
}

std::string NameOf(const Shape& shape) {
  const std::string name = absl::StrCat(shape.rows, "@", shape.width, "x", shape.height);
  return shape.frames > 0 ? absl::StrCat(name, "x", shape.frames) : name;
}

// Runs of a graph of the decoder, and its first output.
struct DecoderRuns {
  std::vector<double> milliseconds;
  device::Buffer output;
};

absl::StatusOr<DecoderRuns> RunDecoder(const Options& options, const graph::Graph& whole,
                                       const device::Buffer& input,
                                       const weights::WeightSet& weights, Backend& backend) {
  ASSIGN_OR_RETURN(const graph::Precision precision, PrecisionOf(options.precision));
  ASSIGN_OR_RETURN(graph::SplitGraphs split, compiler::SplitInPrecision(whole, precision));
  ASSIGN_OR_RETURN(graph::Graph passed,
                   passes::RunPasses(std::move(split.step), backend.target(),
                                     {.evaluate = backends::reference::EvaluateRecipe}));
  const auto graph = std::make_shared<const graph::Graph>(std::move(passed));
  ASSIGN_OR_RETURN(const backends::Plan plan, backend.MakePlan(*graph));
  ASSIGN_OR_RETURN(const std::shared_ptr<Executable> executable,
                   backend.Load(graph, plan, weights));
  ASSIGN_OR_RETURN(const BoundGraph bound, BoundGraph::Create(executable));
  ASSIGN_OR_RETURN(const auto stream, executable->device().NewStream(SystemClock()));
  RETURN_IF_ERROR(bound.device().Copy(input, bound.input(executable->inputs()[0].name), *stream));
  DecoderRuns runs;
  ASSIGN_OR_RETURN(runs.milliseconds, Milliseconds(*stream, options.runs, [&] {
                     return bound.session().Enqueue(*stream);
                   }));
  RETURN_IF_ERROR(stream->Synchronize());
  runs.output = bound.output(executable->outputs()[0].name);
  std::printf("  %.3f ms, arena %.1f MiB\n", Mean(runs.milliseconds),
              static_cast<double>(plan.arena_bytes) / (1 << 20));
  std::fflush(stdout);
  return runs;
}

absl::StatusOr<int64_t> CountDifferentBytes(const device::Buffer& a, const device::Buffer& b,
                                            device::Device& device) {
  std::vector<device::Buffer> copies;
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  for (const device::Buffer* buffer : {&a, &b}) {
    copies.push_back(device::Buffer::Allocate(buffer->dtype(), buffer->shape()));
    RETURN_IF_ERROR(device.Copy(*buffer, copies.back(), *stream));
    RETURN_IF_ERROR(stream->Synchronize());
  }
  int64_t count = 0;
  const auto first = copies[0].as<uint8_t>(), second = copies[1].as<uint8_t>();
  for (size_t i = 0; i < first.size(); ++i) count += first[i] == second[i] ? 0 : 1;
  return count;
}

// The whole decoder, then its parts, one after the other.
absl::Status CompareParts(const Options& options, const Shape& shape, const Network& network,
                          Backend& backend) {
  namespace svd = families::svd;
  std::printf("%s of %lld frames of %lldx%lld, whole, then in parts\n", options.component.c_str(),
              static_cast<long long>(shape.rows), static_cast<long long>(shape.width),
              static_cast<long long>(shape.height));
  svd::VideoConfigs configs;
  ASSIGN_OR_RETURN(configs.vae,
                   networks::ParseAutoencoderTemporalConfig(network.config, options.component));
  ASSIGN_OR_RETURN(const graph::Precision precision, PrecisionOf(options.precision));
  const svd::VideoShape chunk = {1, shape.rows, shape.height / 8, shape.width / 8};
  std::mt19937 random(7);
  device::Buffer input = testing::RandomBuffer(
      "latents", device::DType::kF32,
      {chunk.frames, configs.vae.latent_channels, chunk.height, chunk.width}, random);
  ASSIGN_OR_RETURN(const graph::Graph whole, svd::MakeFramesGraph(configs, chunk));
  ASSIGN_OR_RETURN(const DecoderRuns expected,
                   RunDecoder(options, whole, input, network.weights, backend));
  for (int part = 1; part <= networks::DecoderPartsOf(configs.vae); ++part) {
    ASSIGN_OR_RETURN(const graph::Graph graph,
                     svd::MakeFramesPartGraph(configs, chunk, part, precision.dtype));
    ASSIGN_OR_RETURN(DecoderRuns runs, RunDecoder(options, graph, input, network.weights, backend));
    input = std::move(runs.output);
  }
  ASSIGN_OR_RETURN(const int64_t different,
                   CountDifferentBytes(expected.output, input, backend.device()));
  std::printf("  %lld of %lld bytes of pixels differ\n", static_cast<long long>(different),
              static_cast<long long>(input.bytes()));
  if (different == 0) return absl::OkStatus();
  return absl::InternalError("the parts give other pixels than the whole");
}

// The executable of the shape before this one is held until this one has its weights.
absl::Status Measure(const Options& options, const Shape& shape, const Network& network,
                     Backend& backend, std::shared_ptr<Executable>& executable) {
  std::printf("%s %s %s\n", options.component.c_str(), NameOf(shape).c_str(),
              options.precision.c_str());
  auto since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(graph::Graph step, GraphOf(network, shape, options, backend.target()));
  const auto graph = std::make_shared<const graph::Graph>(std::move(step));
  RETURN_IF_ERROR(network.weights.Check(*graph));
  std::printf("  passes %.3f s", Seconds(since));
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const backends::Plan plan, backend.MakePlan(*graph));
  std::printf(", plan %.3f s (%zu bytes, arena %.1f MiB)", Seconds(since), plan.bytes.size(),
              static_cast<double>(plan.arena_bytes) / (1 << 20));
  since = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(FindDigests(*graph, network.weights));
  std::printf(", digests %.3f s", Seconds(since));
  since = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(executable, backend.Load(graph, plan, network.weights));
  std::printf(", load %.3f s (%.3f GB of weights)", Seconds(since),
              static_cast<double>(network.weights.store().bytes_held()) / 1e9);
  return Run(options, executable);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Options& options) {
  const std::string& name = options.backend;
  const bool tf32 = options.precision == "tf32";
  using BackendOr = absl::StatusOr<std::unique_ptr<Backend>>;
  if (name == "cuda") return BackendOr(backends::cuda::CudaBackend::Create({.tf32 = tf32}));
  if (name == "cpu" && !tf32) return BackendOr(backends::cpu::CpuBackend::Create());
  return absl::InvalidArgumentError(
      absl::StrCat("no backend ", name, " for ", options.precision, ": cuda, cpu"));
}

absl::Status MeasureAll(const Options& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(options));
  std::printf("%s\n", backend->Fingerprint().c_str());
  weights::WeightStore store(*backend);
  ASSIGN_OR_RETURN(const Network network, OpenNetwork(options, store));
  std::shared_ptr<Executable> executable;
  for (const Shape& shape : options.shapes) {
    const absl::Status measured = options.parts
                                      ? CompareParts(options, shape, network, *backend)
                                      : Measure(options, shape, network, *backend, executable);
    if (!measured.ok()) std::printf("\n");
    RETURN_IF_ERROR(measured);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

// "2@1024x1024,1@1152x896", "2@1024x576x25"
bool SetShapes(const std::string& text, std::vector<Shape>& shapes) {
  shapes.clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> numbers = absl::StrSplit(part, absl::ByAnyChar("@x"));
    Shape shape;
    if (numbers.size() < 3 || numbers.size() > 4) return false;
    int64_t* const places[] = {&shape.rows, &shape.width, &shape.height, &shape.frames};
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!absl::SimpleAtoi(numbers[i], places[i])) return false;
    }
    shapes.push_back(shape);
  }
  return true;
}

// "8x32"
bool SetPathsOf(const std::string& text, Paths& paths) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(text, 'x');
  return numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &paths.slots) &&
         absl::SimpleAtoi(numbers[1], &paths.ranks) && paths.slots >= 0 && paths.ranks > 0;
}

bool Set(Options& options, absl::string_view name, const std::string& value) {
  std::map<absl::string_view, std::string*> texts = {{"--checkpoint", &options.checkpoint},
                                                     {"--component", &options.component},
                                                     {"--backend", &options.backend},
                                                     {"--precision", &options.precision}};
  if (name == "--shapes") return SetShapes(value, options.shapes);
  if (name == "--paths") return SetPathsOf(value, options.paths);
  if (name == "--runs") return absl::SimpleAtoi(value, &options.runs) && options.runs > 0;
  const auto found = texts.find(name);
  if (found == texts.end()) return false;
  *found->second = value;
  return true;
}

}  // namespace
}  // namespace latentd

int main(int argc, char** argv) {
  latentd::Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--kernels") {
      options.kernels = true;
    } else if (std::string(argv[i]) == "--parts") {
      options.parts = true;
    } else if (i + 1 == argc || !latentd::Set(options, argv[i], argv[i + 1])) {
      std::fprintf(stderr, "%s is not understood, or lacks a value\n", argv[i]);
      return 2;
    } else {
      ++i;
    }
  }
  const absl::Status status = latentd::MeasureAll(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
