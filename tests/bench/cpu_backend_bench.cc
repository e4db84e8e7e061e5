// Times of the CPU backend for one UNet step and one VAE decode of the demo model, and for parts of
// them:
//
//   cpu_backend_bench                      milliseconds of each network
//   cpu_backend_bench --without=epilogues  and of each compiled without that pass; name more than
//                                          one by several options, all of them by "all"
//   cpu_backend_bench --instructions=step  a line for each instruction, dearest first, and the sum
//   cpu_backend_bench --instructions=decode   by kernel; each is run alone, the least of many
//   cpu_backend_bench --algorithms=step   of each instruction that has several algorithms
//   cpu_backend_bench --algorithms=decode what each algorithm takes, and in all what the rules of
//                                          core/backends/cpu/binding/algorithms.h take and what the
//                                          best would
//
// All of them in f32, or with --precision=bf16 (or f16) as the last argument in that. Other
// arguments are Google Benchmark's. Built with the tests, run only by hand.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/backends/bound_graph.h"
#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/cpu_executable.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/clock.h"
#include "core/families/families.h"
#include "core/graph/op_table.h"
#include "core/passes/pipeline.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/weights/weight_store.h"
#include "tests/support/run_executable.h"
#include "tests/support/source_directory.h"

namespace latentd {
namespace {

using backends::cpu::CpuExecutable;
using backends::cpu::CpuSession;
using backends::cpu::Instruction;

constexpr int kLatentSide = 32;

// The dtype in which the demo model computes.
device::DType& Precision() {
  static device::DType precision = device::DType::kF32;
  return precision;
}

// The demo model on the CPU backend, compiled without some passes.
struct Rig {
  std::unique_ptr<backends::cpu::CpuBackend> backend = backends::cpu::CpuBackend::Create().value();
  weights::WeightStore store{*backend};
  metrics::Registry registry;
  compiler::GraphStore graphs;
  std::unique_ptr<const pipeline::LoadedModel> model;

  explicit Rig(const std::set<std::string>& skipped_passes)
      : graphs(*backend, SystemClock(), registry, nullptr,
               {.compile = {skipped_passes, backends::reference::EvaluateRecipe}}) {
    const auto checkpoint =
        weights::Checkpoint::Open({::latentd::testing::SourcePath("deploy/demo-model/base")})
            .value();
    pipeline::ModelOptions options;
    options.precision = {{"unet_base", Precision()}, {"vae_decoder", Precision()}};
    const pipeline::ModelTable table = pipeline::ModelTable::FromFlags(checkpoint.path(), "");
    const pipeline::ModelRow& row = table.rows().front();
    model = pipeline::LoadedModel::Load(row, *families::FindFamily(row, checkpoint).value(),
                                        checkpoint, store, graphs, options)
                .value();
  }

  std::shared_ptr<backends::Executable> Load(const std::string& name) const {
    pipeline::ModelGraphs& all = model->graphs();
    const bool decodes = name == "decode";
    const auto graph =
        all.Find({.kind = decodes ? pipeline::GraphKind::kDecode : pipeline::GraphKind::kStep,
                  .shape = {decodes ? 1 : 2, kLatentSide, kLatentSide}});
    return all.Get(graph.value()).value();
  }
};

// `pass` may be empty.
Rig& RigWithout(const std::string& pass) {
  static auto& rigs = *new std::map<std::string, std::unique_ptr<Rig>>;
  std::unique_ptr<Rig>& rig = rigs[pass];
  if (rig == nullptr) {
    rig = std::make_unique<Rig>(pass.empty() ? std::set<std::string>() : std::set{pass});
  }
  return *rig;
}

std::vector<device::Buffer> Buffers(const std::vector<backends::Port>& ports) {
  std::vector<device::Buffer> buffers;
  for (const backends::Port& port : ports) {
    buffers.push_back(device::Buffer::Allocate(port.dtype, port.shape));
    if (port.dtype != device::DType::kF32) continue;
    float value = 0.1f;
    for (float& x : buffers.back().as<float>()) x = value = value > 1 ? -1 : value + 0.37f;
  }
  return buffers;
}

device::Buffer Scratch(int64_t bytes) {
  return Buffers({{"", device::DType::kF32, {(bytes + 3) / 4}}})[0];
}

// An executable bound to memory of its own.
backends::BoundGraph Bind(const std::shared_ptr<backends::Executable>& executable) {
  backends::NamedBuffers inputs;
  for (const backends::Port& port : executable->inputs()) inputs[port.name] = Buffers({port})[0];
  return backends::BoundGraph::Create(executable, inputs).value();
}

void RunNetwork(benchmark::State& state, const std::string& name, const std::string& without) {
  const auto executable = RigWithout(without).Load(name);
  const backends::BoundGraph bound = Bind(executable);
  for (auto _ : state) {
    if (!testing::RunSession(bound.session(), executable->device()).ok())
      state.SkipWithError("Run");
  }
  state.counters["arena_MiB"] = static_cast<double>(executable->info().arena_bytes) / (1 << 20);
}

std::string Describe(const Instruction& instruction) {
  std::string text(graph::RowOf(instruction.op).name);
  for (const auto& operand : instruction.operands) {
    absl::StrAppend(&text, " ", operand.present() ? operand.shape.ToString() : "-");
  }
  absl::StrAppend(&text, " -> ", instruction.result.shape.ToString());
  if (instruction.activation != graph::Op::kInput) {
    absl::StrAppend(&text, " ", graph::RowOf(instruction.activation).name);
  }
  return text;
}

// The least microseconds of many runs of one instruction.
double LeastMicroseconds(CpuSession& session, size_t index) {
  double least = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!session.RunInstruction(index).ok()) return 0;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

void PrintInstructions(const std::string& name) {
  const auto shared = RigWithout("").Load(name);
  auto& executable = static_cast<CpuExecutable&>(*shared);
  const backends::BoundGraph bound = Bind(shared);
  auto& session = static_cast<CpuSession&>(bound.session());
  if (!testing::RunSession(session, executable.device()).ok()) return;
  std::vector<std::pair<double, std::string>> lines;
  std::map<std::string, std::pair<double, int>> kinds;
  double total = 0;
  for (size_t i = 0; i < executable.program().instructions.size(); ++i) {
    const Instruction& instruction = executable.program().instructions[i];
    const double us = LeastMicroseconds(session, i);
    lines.emplace_back(us, absl::StrCat(i, " ", Describe(instruction)));
    auto& kind = kinds[std::string(graph::RowOf(instruction.op).name)];
    kind.first += us;
    ++kind.second;
    total += us;
  }
  std::sort(lines.rbegin(), lines.rend());
  for (const auto& [us, text] : lines) std::printf("%9.1f us  %s\n", us, text.c_str());
  for (const auto& [kind, sum] : kinds) {
    std::printf("%9.1f us  %4d x %s\n", sum.first, sum.second, kind.c_str());
  }
  std::printf("%9.1f us  in all\n", total);
}

// One instruction, by one of its algorithms, on memory of its own.
class Alone {
 public:
  Alone(const backends::cpu::Program& program, const Instruction& instruction,
        backends::cpu::Algorithm algorithm, const backends::cpu::Machine& machine)
      : kernel_(BindKernel(program, instruction, algorithm, machine).value()),
        storages_(program.storages.size(), nullptr),
        workspace_(Scratch(kernel_.workspace_bytes)),
        packed_(Scratch(kernel_.packing.has_value() ? kernel_.packing->bytes : 0)) {
    Hold(program, instruction.result);
    for (const auto& operand : instruction.operands) Hold(program, operand);
  }

  // The least microseconds until now.
  double Run() {
    const auto start = std::chrono::steady_clock::now();
    const void* packed = kernel_.packing.has_value() ? packed_.data() : nullptr;
    if (!kernel_.run({storages_.data(), static_cast<char*>(workspace_.data()), packed}).ok())
      return least_;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    return least_ = std::min(least_, took.count());
  }

 private:
  void Hold(const backends::cpu::Program& program, const backends::cpu::View& view) {
    if (!view.present() || storages_[view.storage] != nullptr) return;
    const backends::cpu::Storage& storage = program.storages[view.storage];
    held_.push_back(Scratch(storage.elements * device::SizeOf(storage.dtype)));
    storages_[view.storage] = static_cast<char*>(held_.back().data());
  }

  backends::cpu::BoundKernel kernel_;
  std::vector<char*> storages_;
  device::Buffer workspace_, packed_;
  std::vector<device::Buffer> held_;
  double least_ = 1e9;
};

void PrintAlgorithms(const std::string& name) {
  const auto shared = RigWithout("").Load(name);
  const auto& program = static_cast<CpuExecutable&>(*shared).program();
  const backends::cpu::Machine machine = {&backends::cpu::KernelsOfThisMachine(),
                                          omp_get_max_threads()};
  double by_rules = 0, by_best = 0;
  for (const Instruction& instruction : program.instructions) {
    const std::vector<backends::cpu::Algorithm> algorithms =
        backends::cpu::AlgorithmsFor(program, instruction);
    if (algorithms.size() == 1) continue;
    std::vector<Alone> alone;
    for (const auto algorithm : algorithms)
      alone.emplace_back(program, instruction, algorithm, machine);
    std::vector<double> least(algorithms.size());
    for (int round = 0; round < 60; ++round) {
      for (size_t i = 0; i < algorithms.size(); ++i) least[i] = alone[i].Run();
    }
    const auto rule = ChooseAlgorithm(program, instruction, machine);
    for (size_t i = 0; i < algorithms.size(); ++i) {
      std::printf("%9.1f us by algorithm %d%s", least[i], static_cast<int>(algorithms[i]),
                  algorithms[i] == rule ? "* " : "  ");
      if (algorithms[i] == rule) by_rules += least[i];
    }
    std::printf("%s\n", Describe(instruction).c_str());
    by_best += *std::min_element(least.begin(), least.end());
  }
  std::printf("%9.1f us by the rules, %.1f us by the best\n", by_rules, by_best);
}

void Register(const std::string& without) {
  for (const std::string name : {"step", "decode"}) {
    const std::string title = without.empty() ? name : absl::StrCat(name, " without ", without);
    benchmark::RegisterBenchmark(title.c_str(), RunNetwork, name, without)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

// Takes the options --without out of the arguments.
void RegisterAll(int* argc, char** argv) {
  constexpr absl::string_view kFlag = "--without=";
  std::set<std::string> names = {""};
  char** const end = std::remove_if(argv + 1, argv + *argc, [&](absl::string_view argument) {
    if (!absl::ConsumePrefix(&argument, kFlag)) return false;
    if (argument != "all") names.emplace(argument);
    for (const passes::Pass& pass : passes::Passes()) {
      if (argument == "all") names.emplace(pass.name);
    }
    return true;
  });
  *argc = static_cast<int>(end - argv);
  for (const std::string& name : names) Register(name);
}

}  // namespace
}  // namespace latentd

int main(int argc, char** argv) {
  constexpr absl::string_view kFlag = "--instructions=", kAlgorithms = "--algorithms=",
                              kPrecision = "--precision=";
  if (argc > 1 && absl::StartsWith(argv[argc - 1], kPrecision)) {
    latentd::Precision() = latentd::device::ParseDType(argv[--argc] + kPrecision.size()).value();
  }
  if (argc > 1 && absl::StartsWith(argv[1], kFlag)) {
    latentd::PrintInstructions(argv[1] + kFlag.size());
    return 0;
  }
  if (argc > 1 && absl::StartsWith(argv[1], kAlgorithms)) {
    latentd::PrintAlgorithms(argv[1] + kAlgorithms.size());
    return 0;
  }
  latentd::RegisterAll(&argc, argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
