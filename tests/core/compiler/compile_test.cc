#include "core/compiler/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/compiler/artifact.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/weights/weight_store.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class Compiling : public ::testing::Test {
 protected:
  auto LoadIt(absl::string_view artifact, const GraphKey& key) {
    return Load(artifact, key, backend, weights);
  }

  FakeBackend backend;
  weights::WeightStore store{nullptr};
  weights::WeightSet weights{&store};
  const graph::Graph graph = SiluGraph(4);
  const GraphKey key = KeyOf(graph, backend, {});
};

TEST_F(Compiling, TheArtifactHoldsKeyOptimisedGraphAndPlan) {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {4}, graph::Rate::kStep);
  b.Gelu(x);  // dead
  b.Output("y", b.Silu(x));
  ASSERT_OK_AND_ASSIGN(const graph::Graph wasteful, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, Compile(wasteful, backend, {}));
  ASSERT_OK_AND_ASSIGN(const Artifact artifact, ParseArtifact(bytes));
  EXPECT_EQ(artifact.key, KeyOf(wasteful, backend, {}).ToText());
  EXPECT_EQ(artifact.graph, ToText(graph));
  EXPECT_EQ(artifact.plan, "plan of 2");
}

TEST_F(Compiling, IsDeterministic) {
  ASSERT_OK_AND_ASSIGN(const std::string a, Compile(graph, backend, {}));
  ASSERT_OK_AND_ASSIGN(const std::string b, Compile(graph, backend, {}));
  EXPECT_EQ(a, b);
}

TEST_F(Compiling, WhatWasCompiledLoads) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, Compile(graph, backend, {}));
  ASSERT_OK_AND_ASSIGN(const auto executable, LoadIt(bytes, key));
  EXPECT_EQ(executable->inputs()[0].name, "x");
  EXPECT_EQ(executable->outputs()[0].shape, (device::Shape{4}));
}

TEST_F(Compiling, AFailedPlanGivesItsReason) {
  backend.plan_status = absl::ResourceExhaustedError("no kernel fits into the arena");
  EXPECT_THAT(Compile(graph, backend, {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no kernel fits")));
}

TEST_F(Compiling, AnUnknownPassIsRefused) {
  EXPECT_THAT(Compile(graph, backend, {{"magic"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"magic\"")));
}

TEST_F(Compiling, AnArtifactForAnotherKeyIsRefusedAndSaysWhatDiffers) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, Compile(graph, backend, {}));
  backend.fingerprint = "fake 2";
  EXPECT_THAT(LoadIt(bytes, KeyOf(graph, backend, {})),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("fingerprint fake 1, wanted fingerprint fake 2")));
  EXPECT_EQ(backend.loads, 0);
}

TEST_F(Compiling, ADamagedArtifactNeverReachesTheBackend) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, Compile(graph, backend, {}));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    EXPECT_THAT(LoadIt(changed, key), StatusIs(absl::StatusCode::kDataLoss, _)) << i;
  }
  EXPECT_EQ(backend.loads, 0);
}

// A checksum is no proof: whoever writes a file can write that too.
TEST_F(Compiling, AnArtifactWithAGraphThatIsNoneIsRefused) {
  const std::string bytes = WriteArtifact({key.ToText(), "latentd graph 1\n", "plan of 2"});
  EXPECT_THAT(LoadIt(bytes, key),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs an output")));
  EXPECT_EQ(backend.loads, 0);
}

TEST_F(Compiling, APlanThatIsAnotherGraphsIsRefused) {
  const std::string bytes = WriteArtifact({key.ToText(), ToText(graph), "plan of 9"});
  EXPECT_THAT(LoadIt(bytes, key),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another graph's")));
}

}  // namespace
}  // namespace latentd::compiler
