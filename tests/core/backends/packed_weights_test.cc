// Packed weights that are kept over a restart, on machines that differ in what oneDNN may use: the
// cap is read once in a process, so each start is a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/files/files.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::backends::cpu {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Layout;
using graph::Rate;
using graph::Value;

constexpr char kDirectory[] = "LATENTD_TEST_KEPT_WEIGHTS";

// A convolution, a linear layer and a GEGLU: every kernel that packs its weight.
graph::Graph PackingGraph() {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 8, 8, 32}, Rate::kStep);
  const Value conv = b.Conv2d(x, b.Weight("net/conv.weight", {32, 32, 3, 3}), graph::kNone,
                              {.padding = {1, 1, 1, 1}, .layout = Layout::kNhwc});
  const Value tokens = b.Reshape(conv, {1, 64, 32});
  const Value wide = b.Linear(tokens, b.Weight("net/wide.weight", {128, 32}));
  b.Output("y", b.Linear(b.Geglu(wide), b.Weight("net/linear.weight", {48, 64})));
  return std::move(b).Build().value();
}

// Files by the digest of their key: what a disk cache does, without its care.
struct FileArchive {
  std::string directory;
  int found = 0, kept = 0;

  std::string PathOf(absl::string_view key) const {
    return absl::StrCat(directory, "/", DigestOf(key).ToString());
  }
  weights::WeightCache Functions() {
    return {
        [this](absl::string_view key) -> std::optional<device::ConstBuffer> {
          const absl::StatusOr<std::string> bytes = ReadFile(PathOf(key), 1 << 24);
          if (!bytes.ok()) return std::nullopt;
          ++found;
          Buffer buffer = Buffer::Allocate(DType::kU8, {static_cast<int64_t>(bytes->size())});
          bytes->copy(static_cast<char*>(buffer.data()), bytes->size());
          return buffer;
        },
        [this](absl::string_view key, const device::ConstBuffer& bytes) {
          ++kept;
          testing::WriteFile(PathOf(key), {static_cast<const char*>(bytes.data()), bytes.bytes()});
        },
        /*least_bytes=*/0};
  }
};

// Farther from the reference than `tolerance` of its largest value?
void ExpectWhatTheReferenceComputes(CpuBackend& backend, const graph::Graph& graph,
                                    double tolerance, FileArchive& archive) {
  const auto shared = std::make_shared<const graph::Graph>(graph);
  const testing::Leaves leaves = testing::RandomLeaves(graph, /*seed=*/4);
  weights::WeightStore store(backend, archive.Functions());
  weights::WeightSet set(&store);
  set.Add("net", leaves.weights);
  ASSERT_OK_AND_ASSIGN(const auto made, testing::RunGraph(backend, shared, set, leaves.inputs));
  reference::ReferenceBackend reference;
  weights::WeightStore plain(reference);
  weights::WeightSet plain_set(&plain);
  plain_set.Add("net", leaves.weights);
  ASSERT_OK_AND_ASSIGN(const auto right,
                       testing::RunGraph(reference, shared, plain_set, leaves.inputs));
  const std::vector<double> values = testing::ToDoubles(made[0]),
                            wanted = testing::ToDoubles(right[0]);
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0.1);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(values[i], wanted[i], tolerance * largest);
  }
}

// One start: what it draws is right whatever is in the directory, in f32 and in bf16, whose weights
// are of the same names and shapes. Run by the test below.
TEST(PackedWeightsStart, DISABLED_ComputesWhatTheReferenceDoes) {
  const char* directory = std::getenv(kDirectory);
  ASSERT_NE(directory, nullptr);
  FileArchive archive = {directory};
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  const graph::Graph graph = PackingGraph();
  ExpectWhatTheReferenceComputes(*backend, graph, 1e-5, archive);
  ExpectWhatTheReferenceComputes(*backend, testing::InDType(graph, DType::kBF16), 1.0 / 128,
                                 archive);
  testing::WriteFile(absl::StrCat(directory, "/report"),
                     absl::StrCat(archive.found, "|", archive.kept, "|", backend->Fingerprint()));
}

struct Start {
  int found = -1, kept = -1;
  std::string fingerprint;
};

Start StartUnder(const std::string& cap, const std::string& directory) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      absl::StrCat("DNNL_MAX_CPU_ISA=", cap, " ", kDirectory, "='", directory, "' '", program,
                   "' --gtest_also_run_disabled_tests --gtest_filter='PackedWeightsStart.*'");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  const absl::StatusOr<std::string> report = ReadFile(directory + "/report", 4096);
  EXPECT_OK(report);
  if (!report.ok()) return {};
  const std::vector<std::string> parts = absl::StrSplit(*report, '|');
  return {std::stoi(parts[0]), std::stoi(parts[1]), parts[2]};
}

TEST(PackedWeights, AreSharedByStartsOfOneInstructionSetAndByNoOthers) {
  const testing::TemporaryDirectory directory;
  std::map<std::string, int> kept;  // by fingerprint
  const std::vector<std::string> caps = {"AVX2", "AVX512_CORE", "AVX512_CORE_BF16"};
  for (int i = 0; i < 6; ++i) {
    const std::string& cap = caps[i % 3];
    SCOPED_TRACE(cap);
    const Start start = StartUnder(cap, directory.path());
    const bool is_first = kept.emplace(start.fingerprint, start.kept).second;
    EXPECT_EQ(start.kept, is_first ? kept[start.fingerprint] : 0);
    EXPECT_EQ(start.found, is_first ? 0 : kept[start.fingerprint]);
    EXPECT_GE(kept[start.fingerprint], 6);
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
