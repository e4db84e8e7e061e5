// libFuzzer target: any bytes as an artifact; a sound artifact flipped, cut and extended as the
// bytes say; and the same damage under a checksum that is right, all the way to a run on the CPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/status_macros.h"
#include "core/compiler/artifact.h"
#include "core/compiler/compile.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/weights/weight_store.h"

namespace latentd::compiler {
namespace {

constexpr int64_t kMaxElements = 1 << 16;  // of inputs and outputs of what is run

graph::Graph SmallNetwork() {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {1, 4, 4, 4}, graph::Rate::kStep);
  const graph::Value image = b.Silu(
      b.Conv2d(x, b.Weight("net/conv", {8, 4, 3, 3}), graph::kNone, {.padding = {1, 1, 1, 1}}));
  const graph::Value tokens = b.Reshape(image, {1, 8, 16});
  b.Output("y", b.Linear(tokens, b.Weight("net/linear", {16, 16})));
  return *std::move(b).Build();
}

// A backend, weights and a sound artifact, made once.
struct Sound {
  Sound() {
    const auto weight = [](device::Shape shape) {
      return weights::StoredTensor{device::Buffer::Allocate(device::DType::kF32, shape), "file"};
    };
    weights.Add("net", {{"conv", weight({8, 4, 3, 3})}, {"linear", weight({16, 16})}});
    const CompiledGraph compiled = *Compile(graph, *backend, {});
    artifact = Seal(compiled, key, {.component = "net"}, absl::Seconds(1));
  }

  std::unique_ptr<backends::cpu::CpuBackend> backend =
      *backends::cpu::CpuBackend::Create({.threads = 1});
  weights::WeightStore store{backends::reference::EvaluateRecipe};
  weights::WeightSet weights{&store};
  graph::Graph graph = SmallNetwork();
  GraphKey key = KeyOf(graph, *backend, {});
  std::string artifact;
};

// What four bytes of the input do to a text: which byte, and whether it is changed, or pieces are
// cut or put in.
void Damage(std::string& text, const uint8_t* edit) {
  if (text.empty()) return;
  const size_t at = (size_t{edit[1]} * 256 + edit[2]) * text.size() / 65536;
  switch (edit[0] % 4) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ std::max<uint8_t>(edit[3], 1));
      break;
    case 1:
      text[at] = static_cast<char>(edit[3]);
      break;
    case 2:
      text.erase(at, 1 + edit[3] % 16);
      break;
    default:
      text.insert(at, 1 + edit[3] % 16, static_cast<char>(edit[3]));
  }
}

std::vector<device::Buffer> Zeros(const std::vector<backends::Port>& ports) {
  std::vector<device::Buffer> buffers;
  for (const backends::Port& port : ports) {
    if (port.shape.elements() > kMaxElements) return {};
    buffers.push_back(device::Buffer::Allocate(port.dtype, port.shape));
  }
  return buffers;
}

absl::Status OpenLoadAndRun(Sound& sound, const std::string& artifact) {
  ASSIGN_OR_RETURN(const CompiledGraph opened, Open(artifact, sound.key));
  CheckSamePorts(sound.graph, *opened.graph).IgnoreError();
  sound.backend->Predict(*opened.graph, opened.plan, sound.weights).status().IgnoreError();
  ASSIGN_OR_RETURN(const auto executable,
                   sound.backend->Load(opened.graph, opened.plan, sound.weights));
  const std::vector<device::Buffer> inputs = Zeros(executable->inputs());
  std::vector<device::Buffer> outputs = Zeros(executable->outputs());
  return executable->Run(inputs, absl::MakeSpan(outputs));
}

void AnyBytes(absl::string_view bytes) {
  if (const auto artifact = ParseArtifact(bytes); artifact.ok()) {
    if (WriteArtifact(*artifact) != bytes) std::abort();
  }
  const std::string whole = WriteArtifact({"key\n", "label", bytes, "plan", {}});
  const auto artifact = ParseArtifact(whole);
  if (!artifact.ok() || artifact->graph != bytes) std::abort();
}

void DamagedArtifact(Sound& sound, const uint8_t* data, size_t size) {
  std::string flipped = sound.artifact;
  const Artifact parts = *ParseArtifact(sound.artifact);
  std::string graph(parts.graph), plan(parts.plan);
  for (size_t i = 0; i + 4 <= size; i += 4) {
    Damage(flipped, data + i);
    Damage((data[i] & 0x80) != 0 ? graph : plan, data + i);
  }
  if (Open(flipped, sound.key).ok() != (flipped == sound.artifact)) std::abort();
  const absl::Status ran = OpenLoadAndRun(
      sound, WriteArtifact({parts.key, parts.label, graph, plan, parts.compile_time}));
  if (size < 4 && !ran.ok()) std::abort();  // nothing was damaged
}

}  // namespace
}  // namespace latentd::compiler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& sound = *new latentd::compiler::Sound;
  latentd::compiler::AnyBytes({reinterpret_cast<const char*>(data), size});
  latentd::compiler::DamagedArtifact(sound, data, std::min<size_t>(size, 64));
  return 0;
}
