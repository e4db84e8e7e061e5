// Outputs that are written over the input of their name, on both backends of the host.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/cpu_executable.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/graph_builder.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using device::Buffer;
using graph::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value Input(GraphBuilder& b, const char* name) {
  return b.Input(name, DType::kF32, {4}, Rate::kStep);
}

Buffer Floats(std::vector<float> values) {
  const Buffer buffer = Buffer::Allocate(DType::kF32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), buffer.as<float>().begin());
  return buffer;
}

class UpdatedInputs : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Executable> Load(GraphBuilder b) {
    const auto graph = std::make_shared<const graph::Graph>(*std::move(b).Build());
    return *backend_->Load(graph, *backend_->MakePlan(*graph), set_);
  }

  std::unique_ptr<Backend> backend_ = MakeBackend();
  weights::WeightStore store_{*backend_};
  weights::WeightSet set_{&store_};

 private:
  static std::unique_ptr<Backend> MakeBackend() {
    if (GetParam() == "cpu") return *cpu::CpuBackend::Create();
    return std::make_unique<reference::ReferenceBackend>();
  }
};

TEST_P(UpdatedInputs, GoOnFromRunToRun) {
  GraphBuilder b;
  b.Output("x", b.Add(Input(b, "x"), b.Scalar(1)));
  const auto executable = Load(std::move(b));
  EXPECT_EQ(executable->outputs()[0].updates, 0);
  const Buffer x = Floats({1, 2, 3, 4});
  ASSERT_OK_AND_ASSIGN(const auto session, executable->Bind({x}, {x}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(testing::RunSession(*session, executable->device()));
  EXPECT_THAT(x.as<float>(), ElementsAre(4, 5, 6, 7));
}

TEST_P(UpdatedInputs, AreReadAsTheyWereByWhatComesLater) {
  GraphBuilder b;
  const Value x = Input(b, "x");
  b.Output("x", b.Add(x, b.Scalar(1)));
  b.Output("twice", b.Mul(b.Slice(x, 0, 1, 3), b.Scalar(2)));
  b.Output("part", b.Slice(x, 0, 0, 2));
  const auto executable = Load(std::move(b));
  const Buffer x_memory = Floats({1, 2, 3, 4}), twice = Floats({0, 0}), part = Floats({0, 0});
  ASSERT_OK_AND_ASSIGN(const auto session, executable->Bind({x_memory}, {x_memory, twice, part}));
  ASSERT_OK(testing::RunSession(*session, executable->device()));
  EXPECT_THAT(x_memory.as<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(twice.as<float>(), ElementsAre(4, 6));
  EXPECT_THAT(part.as<float>(), ElementsAre(1, 2));
}

TEST_P(UpdatedInputs, CanChangePlaces) {
  GraphBuilder b;
  const Value x = Input(b, "x"), y = Input(b, "y");
  b.Output("x", y);
  b.Output("y", x);
  const auto executable = Load(std::move(b));
  const Buffer x_memory = Floats({1, 2, 3, 4}), y_memory = Floats({5, 6, 7, 8});
  ASSERT_OK_AND_ASSIGN(const auto session,
                       executable->Bind({x_memory, y_memory}, {x_memory, y_memory}));
  ASSERT_OK(testing::RunSession(*session, executable->device()));
  EXPECT_THAT(x_memory.as<float>(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(y_memory.as<float>(), ElementsAre(1, 2, 3, 4));
}

TEST_P(UpdatedInputs, NeedTheOutputsMemory) {
  GraphBuilder b;
  b.Output("x", b.Silu(Input(b, "x")));
  const auto executable = Load(std::move(b));
  EXPECT_THAT(executable->Bind({Floats({1, 2, 3, 4})}, {Floats({0, 0, 0, 0})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs the same memory")));
}

INSTANTIATE_TEST_SUITE_P(Backends, UpdatedInputs, ::testing::Values("cpu", "reference"));

TEST(CpuUpdates, AreWrittenByTheInstructionThatMakesThem) {
  ASSERT_OK_AND_ASSIGN(const auto backend, cpu::CpuBackend::Create());
  GraphBuilder b;
  b.Output("x", b.Increment(b.Input("x", DType::kI64, {4}, Rate::kStep)));
  const auto graph = std::make_shared<const graph::Graph>(*std::move(b).Build());
  weights::WeightStore store{*backend};
  const weights::WeightSet set{&store};
  ASSERT_OK_AND_ASSIGN(const auto executable,
                       backend->Load(graph, *backend->MakePlan(*graph), set));
  EXPECT_EQ(static_cast<cpu::CpuExecutable&>(*executable).program().instructions.size(), 1u);
  EXPECT_EQ(executable->info().arena_bytes, 0u);
}

}  // namespace
}  // namespace latentd::backends
