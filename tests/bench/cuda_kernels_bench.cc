// How near to the speed of memory the CUDA backend's own kernels are, at SDXL's shapes in bf16:
// what each must at least read and write, over the time of a launch of a graph of 20, beside a copy
// of as many bytes. Buffers are taken in turn, so that no cache holds the next one's.
//
// Usage: cuda_kernels_bench
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/backends/cuda/kernels/attention/short_attention.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/backends/cuda/kernels/norms/group_norm.h"
#include "core/backends/cuda/kernels/norms/row_norms.h"
#include "core/backends/cuda/kernels/values/elementwise.h"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr Element kElement = Element::kBF16;
constexpr int64_t kBytes = 2, kLaunches = 20, kRounds = 15;
constexpr int64_t kMemory = int64_t{4} << 30;

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Random bytes of finite bf16 numbers around 1; zeros would run faster than data.
char* Memory() {
  static char* const memory = [] {
    constexpr int64_t kPiece = int64_t{64} << 20;
    std::vector<uint16_t> piece(kPiece / 2);
    uint32_t state = 1;
    for (uint16_t& value : piece) {
      state = state * 1664525 + 1013904223;
      value = 0x3f00 | (state >> 24) | (state >> 16 & 0x8000);
    }
    void* memory = nullptr;
    Check(cudaMalloc(&memory, kMemory));
    for (int64_t at = 0; at < kMemory; at += kPiece) {
      Check(cudaMemcpy(static_cast<char*>(memory) + at, piece.data(), kPiece,
                       cudaMemcpyHostToDevice));
    }
    return static_cast<char*>(memory);
  }();
  return memory;
}

using Call = std::function<cudaError_t(const char* from, char* to, cudaStream_t)>;

// Microseconds of one call that reads so many bytes and writes so many.
double MicrosecondsOf(int64_t read, int64_t written, const Call& call) {
  const int64_t both = (read + written + 255) / 256 * 256;
  const int64_t places = std::max<int64_t>(1, kMemory / both);
  cudaStream_t stream;
  Check(cudaStreamCreate(&stream));
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int64_t i = 0; i < kLaunches; ++i) {
    char* const from = Memory() + i % places * both;
    Check(call(from, from + both - written, stream));
  }
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  Check(cudaStreamEndCapture(stream, &graph));
  Check(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int64_t round = 0; round < kRounds + 3; ++round) {
    Check(cudaEventRecord(begin, stream));
    Check(cudaGraphLaunch(executable, stream));
    Check(cudaEventRecord(end, stream));
    Check(cudaEventSynchronize(end));
    float milliseconds;
    Check(cudaEventElapsedTime(&milliseconds, begin, end));
    if (round >= 3) times.push_back(milliseconds * 1000 / kLaunches);
  }
  std::sort(times.begin(), times.end());
  Check(cudaGraphExecDestroy(executable));
  Check(cudaGraphDestroy(graph));
  Check(cudaStreamDestroy(stream));
  return times[times.size() / 2];
}

void Measure(const std::string& name, int64_t read, int64_t written, const Call& call) {
  const double own = MicrosecondsOf(read, written, call);
  const int64_t half = (read + written) / 2;
  const double copy = MicrosecondsOf(half, half, [&](const char* from, char* to, cudaStream_t s) {
    return cudaMemcpyAsync(to, from, half, cudaMemcpyDeviceToDevice, s);
  });
  const double gigabytes = static_cast<double>(read + written) * 1e-3;
  std::printf("%-36s %8.1f %8.0f %8.0f %6.0f%%\n", name.c_str(), own, gigabytes / own,
              gigabytes / copy, copy / own * 100);
  std::fflush(stdout);
}

std::string Named(const char* what, std::initializer_list<int64_t> shape) {
  std::string name = what;
  for (int64_t size : shape) name += " " + std::to_string(size);
  return name;
}

void* Workspace() {
  static void* const workspace = [] {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, int64_t{64} << 20));
    Check(cudaMemcpy(memory, Memory(), int64_t{64} << 20, cudaMemcpyDeviceToDevice));
    return memory;
  }();
  return workspace;
}

// gamma and beta lie in the middle of the workspace, where no kernel writes.
const void* Parameters() { return static_cast<char*>(Workspace()) + (int64_t{32} << 20); }

void MeasureGroupNorm(int64_t rows, int64_t side, int64_t channels) {
  const int64_t bytes = rows * side * side * channels * kBytes;
  Measure(Named("group_norm + silu", {rows, side, side, channels}), bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return GroupNorm(
                {kElement, true, from, nullptr, 0, Parameters(), Parameters(), to,
                 UnaryFunction::kSilu, rows, side * side, channels, 32, 1e-5f, Workspace()},
                stream);
          });
}

void MeasureLayerNorm(int64_t rows, int64_t size) {
  const int64_t bytes = rows * size * kBytes;
  Measure(Named("layer_norm", {rows, size}), bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return LayerNorm({kElement, from, Parameters(), Parameters(), to, rows, size, 1e-5f},
                             stream);
          });
}

void MeasureSoftmax(int64_t rows, int64_t size) {
  const int64_t bytes = rows * size * kBytes;
  Measure(Named("softmax", {rows, size}), bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Softmax({kElement, from, to, rows, size}, stream);
          });
}

// Attention to 77 tokens of a prompt. Every head's keys and values are read once; queries are most.
void MeasureShortAttention(int64_t queries, int64_t heads) {
  constexpr int64_t kRows = 2, kKeys = 77;
  const int64_t channels = heads * kAttentionSize;
  const int64_t bytes = kRows * queries * channels * kBytes;
  const int64_t prompt = kRows * kKeys * channels * kBytes;
  Measure(Named("attention over 77 keys", {kRows, queries, channels}), bytes + 2 * prompt, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            AttentionArgs args;
            args.element = kElement;
            args.query = {from, queries * channels, channels};
            args.key = {from + bytes, kKeys * channels, channels};
            args.value = {from + bytes + prompt, kKeys * channels, channels};
            args.result = to;
            args.rows = kRows;
            args.heads = heads;
            args.queries = queries;
            args.keys = kKeys;
            args.scale = 0.125f;
            return ShortAttention(args, stream);
          });
}

void MeasureGeglu(int64_t rows, int64_t channels) {
  const int64_t bytes = rows * channels * kBytes;
  Measure(Named("geglu", {rows, 2 * channels}), 2 * bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Geglu({kElement, from, to, rows, channels}, stream);
          });
}

void MeasurePointwise(int64_t size) {
  const int64_t bytes = size * kBytes;
  Measure(Named("add", {size}), 2 * bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Binary(
                {BinaryFunction::kAdd, kElement, 1, {size}, from, {1}, from + bytes, {1}, to, {1}},
                stream);
          });
  Measure(Named("silu", {size}), bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Unary({UnaryFunction::kSilu, kElement, from, to, size}, stream);
          });
  Measure(Named("cast to f32", {size}), bytes, 2 * bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Cast({kElement, Element::kF32, from, to, size}, stream);
          });
}

// Half of a concatenation of channels.
void MeasureConcat(int64_t pixels, int64_t channels) {
  const int64_t bytes = pixels * channels * kBytes;
  Measure(Named("copy into half of", {pixels, 2 * channels}), bytes, bytes,
          [=](const char* from, char* to, cudaStream_t stream) {
            return Copy({kElement,
                         2,
                         {pixels / 2, channels},
                         from,
                         {channels, 1},
                         to,
                         {2 * channels, 1}},
                        stream) == cudaSuccess
                       ? Copy({kElement,
                               2,
                               {pixels / 2, channels},
                               from + bytes / 2,
                               {channels, 1},
                               to + channels * kBytes,
                               {2 * channels, 1}},
                              stream)
                       : cudaErrorUnknown;
          });
}

void MeasureAll() {
  Workspace();  // cannot be made during a capture
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, bf16\n%-36s %8s %8s %8s %7s\n", properties.name, "", "us", "GB/s", "copy's",
              "of it");
  MeasureGroupNorm(2, 128, 320);
  MeasureGroupNorm(2, 128, 960);
  MeasureGroupNorm(2, 64, 640);
  MeasureGroupNorm(2, 64, 1920);
  MeasureGroupNorm(2, 32, 1280);
  MeasureGroupNorm(2, 32, 2560);
  MeasureGroupNorm(1, 1024, 128);
  MeasureGroupNorm(1, 512, 512);
  MeasureLayerNorm(2 * 4096, 640);
  MeasureLayerNorm(2 * 1024, 1280);
  MeasureSoftmax(16384, 16384);
  MeasureShortAttention(4096, 10);
  MeasureShortAttention(1024, 20);
  MeasureGeglu(2 * 4096, 2560);
  MeasureGeglu(2 * 1024, 5120);
  MeasurePointwise(2 * 128 * 128 * 320);
  MeasurePointwise(2 * 32 * 32 * 1280);
  MeasureConcat(2 * 64 * 64, 640);
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels

int main() { latentd::backends::cuda::kernels::MeasureAll(); }
