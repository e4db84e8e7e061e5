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
#include "core/backends/bound_graph.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/artifact.h"
#include "core/compiler/compile.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/weights/weight_store.h"

namespace latentd::compiler {
namespace {

constexpr int64_t kMaxElements = 1 << 16;  // limit for inputs and outputs of graphs that run

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
    artifact =
        *Compile(key, {.model = "base", .component = "net"}, graph, *backend, {}, SystemClock());
    file = WriteArtifact(*artifact);
  }

  std::unique_ptr<backends::cpu::CpuBackend> backend =
      *backends::cpu::CpuBackend::Create({.threads = 1});
  weights::WeightStore store{*backend};
  weights::WeightSet weights{&store};
  graph::Graph graph = SmallNetwork();
  GraphKey key = KeyOf(graph, *backend, {});
  ArtifactPointer artifact;
  std::string file;
};

// Damages a text as four bytes of the input say: they choose a byte, which is changed, or from
// which pieces are cut or put in.
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

bool IsSmall(const std::vector<backends::Port>& ports) {
  return std::all_of(ports.begin(), ports.end(), [](const backends::Port& port) {
    return port.shape.elements() <= kMaxElements;
  });
}

absl::Status ParseLoadAndRun(Sound& sound, const std::string& payload) {
  ASSIGN_OR_RETURN(const ArtifactPointer artifact, ParsePayload(sound.key, payload));
  if (WritePayload(*artifact) != payload) std::abort();
  CheckSamePorts(sound.graph, *artifact->graph).IgnoreError();
  backends::NeedsOf(*artifact->graph, artifact->plan, sound.weights).status().IgnoreError();
  const absl::Status checked = sound.backend->CheckPlan(*artifact->graph, artifact->plan);
  auto executable = sound.backend->Load(artifact->graph, artifact->plan, sound.weights);
  if (absl::IsDataLoss(executable.status()) != absl::IsDataLoss(checked)) std::abort();
  if (!executable.ok()) return executable.status();
  if (!IsSmall((*executable)->inputs()) || !IsSmall((*executable)->outputs())) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(backends::BoundGraph zeros,
                   backends::BoundGraph::Create(*std::move(executable)));
  ASSIGN_OR_RETURN(const auto stream, zeros.device().NewStream(SystemClock()));
  RETURN_IF_ERROR(zeros.Enqueue(*stream));
  return stream->Synchronize();
}

void AnyBytes(const Sound& sound, absl::string_view bytes) {
  if (const auto artifact = ParseArtifact(bytes); artifact.ok()) {
    if (WriteArtifact(**artifact) != bytes) std::abort();
  }
  ParsePayload(sound.key, bytes).status().IgnoreError();
  ParsePayloadHead(bytes).status().IgnoreError();
}

// The payload where a checksum would not show it, and the file where one does.
void DamagedArtifact(Sound& sound, const uint8_t* data, size_t size) {
  std::string file = sound.file, payload = WritePayload(*sound.artifact);
  Artifact artifact = *sound.artifact;
  for (size_t i = 0; i + 4 <= size; i += 4) {
    Damage(file, data + i);
    Damage((data[i] & 0x80) != 0 ? payload : artifact.plan.bytes, data + i);
  }
  if (ParseArtifact(file).ok() != (file == sound.file)) std::abort();
  const absl::Status ran = ParseLoadAndRun(sound, WritePayload(artifact));
  const absl::Status also_ran = ParseLoadAndRun(sound, payload);
  if (size < 4 && !(ran.ok() && also_ran.ok())) std::abort();  // nothing was damaged
}

}  // namespace
}  // namespace latentd::compiler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& sound = *new latentd::compiler::Sound;
  latentd::compiler::AnyBytes(sound, {reinterpret_cast<const char*>(data), size});
  latentd::compiler::DamagedArtifact(sound, data, std::min<size_t>(size, 64));
  return 0;
}
