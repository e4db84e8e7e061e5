#include "core/compiler/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/compiler/artifact.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class Compiling : public ::testing::Test {
 protected:
  std::string Sealed() const {
    return Seal(*Compile(graph, backend, {}), key, {.component = "part"}, absl::Seconds(3));
  }

  FakeBackend backend;
  const graph::Graph graph = SiluGraph(4);
  const GraphKey key = KeyOf(graph, backend, {});
};

TEST_F(Compiling, RunsThePassesAndPlansWhatTheyLeave) {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {4}, graph::Rate::kStep);
  b.Gelu(x);  // dead
  b.Output("y", b.Silu(x));
  ASSERT_OK_AND_ASSIGN(const graph::Graph wasteful, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const CompiledGraph compiled, Compile(wasteful, backend, {}));
  EXPECT_EQ(ToText(*compiled.graph), ToText(graph));
  EXPECT_EQ(compiled.plan, "plan of 2");
}

TEST_F(Compiling, AnArtifactHoldsAllOfIt) {
  const std::string bytes = Sealed();
  ASSERT_OK_AND_ASSIGN(const Artifact artifact, ParseArtifact(bytes));
  EXPECT_EQ(artifact.key, key.ToText());
  EXPECT_EQ(artifact.label, "part rows 1");
  EXPECT_EQ(artifact.graph, ToText(graph));
  EXPECT_EQ(artifact.plan, "plan of 2");
  EXPECT_EQ(artifact.compile_time, absl::Seconds(3));
}

TEST_F(Compiling, IsDeterministic) { EXPECT_EQ(Sealed(), Sealed()); }

TEST_F(Compiling, WhatWasSealedOpens) {
  ASSERT_OK_AND_ASSIGN(const CompiledGraph opened, Open(Sealed(), key));
  EXPECT_EQ(ToText(*opened.graph), ToText(graph));
  EXPECT_EQ(opened.plan, "plan of 2");
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
  const std::string bytes = Sealed();
  backend.fingerprint = "fake 2";
  EXPECT_THAT(Open(bytes, KeyOf(graph, backend, {})),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("fingerprint fake 1, wanted fake 2")));
}

TEST_F(Compiling, ADamagedArtifactDoesNotOpen) {
  const std::string bytes = Sealed();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    EXPECT_THAT(Open(changed, key), StatusIs(absl::StatusCode::kDataLoss, _)) << i;
  }
}

// A checksum is no proof: whoever writes a file can write that too.
TEST_F(Compiling, AnArtifactWithAGraphThatIsNoneIsRefused) {
  const std::string bytes = WriteArtifact({key.ToText(), "", "latentd graph 1\n", "plan of 2"});
  EXPECT_THAT(Open(bytes, key),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("needs an output")));
}

TEST_F(Compiling, OtherPortsAreDamage) {
  EXPECT_OK(CheckSamePorts(graph, SiluGraph(4)));
  EXPECT_THAT(CheckSamePorts(graph, SiluGraph(5)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inputs or outputs")));
}

}  // namespace
}  // namespace latentd::compiler
