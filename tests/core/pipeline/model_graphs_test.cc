#include "core/pipeline/graphs/model_graphs.h"

#include <set>
#include <string>
#include <vector>

#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/prompts/chunks.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using IfUnknown = ModelGraphs::IfUnknown;

class ModelGraphsTest : public ::testing::Test {
 protected:
  // "LABEL: users" of what is declared.
  std::vector<std::string> Declared() const {
    std::vector<std::string> lines;
    for (const compiler::GraphStatus& info : rig_.graphs.List()) {
      std::string users;
      for (const std::string& user : info.users) users += " " + user;
      lines.push_back(info.label.ToText() + ":" + users);
    }
    return lines;
  }

  Rig rig_;
};

TEST_F(ModelGraphsTest, DeclaresWhatPicturesOfAShapeNeedWithItsUsers) {
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig_.pipeline->GraphsOf({}, {72, 64}, 2));
  EXPECT_THAT(Declared(),
              UnorderedElementsAre(
                  "base text_encoder rows 1: base", "base text_encoder_2 rows 1: base refiner",
                  "base unet request rows 1: base", "refiner unet request rows 1: refiner",
                  "base unet step 72x64 rows 2: base", "refiner unet step 72x64 rows 2: refiner",
                  "base vae_decoder 72x64 rows 1: base refiner",
                  "base vae_encoder 72x64 rows 1: base refiner",
                  "base vae_encoder sample 72x64 rows 1: base refiner"));
  EXPECT_EQ(rig_.compilations(), 0);
}

// A graph of the disk cache is damage where its label is none.
TEST_F(ModelGraphsTest, HasNoLabelThatIsNotReadAgain) {
  const testing::TemporaryDirectory folder;
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig(
      {.base = testing::kDemoBase, .adapters = &catalogue, .path_slots = 2, .path_ranks = 256});
  GraphName longest = {.shape = {.rows = 16,
                                 .height = 256,
                                 .width = 256,
                                 .chunks = prompts::kMaxChunks,
                                 .ranks = 256,
                                 .image_tokens = ImageTokens(kMaxIpAdapters, 64)},
                       .controlled = true};
  for (const DeepFeatures deep : {DeepFeatures::kNone, DeepFeatures::kGiven, DeepFeatures::kRead}) {
    longest.shape.deep = deep;
    ASSERT_OK_AND_ASSIGN(const GraphHandle graph, rig.pipeline->first().graphs().Find(longest));
    const compiler::GraphLabel label = compiler::GraphStore::LabelOf(graph);
    EXPECT_EQ(compiler::GraphLabel::FromText(label.ToText()), label) << label.ToText();
  }
}

TEST_F(ModelGraphsTest, AddsOnlyTheStepsForAnotherNumberOfRows) {
  ASSERT_OK_AND_ASSIGN(const auto two, rig_.pipeline->GraphsOf({}, {72, 64}, 2));
  const size_t before = Declared().size();
  ASSERT_OK_AND_ASSIGN(const auto one, rig_.pipeline->GraphsOf({}, {72, 64}, 1));
  EXPECT_EQ(Declared().size(), before + 2);
}

TEST_F(ModelGraphsTest, FindsAShapeWhoseReferenceSomebodyKeeps) {
  ModelGraphs& graphs = rig_.pipeline->first().graphs();
  const GraphHandle kept = graphs.Find({.shape = {2, 8, 9}}).value();
  EXPECT_EQ(graphs.Find({.shape = {2, 8, 9}}, IfUnknown::kRefuse).value(), kept);
  EXPECT_NE(graphs.Find({.shape = {2, 9, 8}}).value(), kept);
  EXPECT_NE(graphs.Find({GraphKind::kDecode, {1, 8, 9}}).value(),
            graphs.Find({GraphKind::kEncode, {1, 8, 9}}).value());
}

TEST_F(ModelGraphsTest, ForgetsAShapeThatNobodyKeeps) {
  ModelGraphs& graphs = rig_.pipeline->first().graphs();
  rig_.graphs.DropUnused();
  const size_t declared = Declared().size();
  const int64_t bytes = rig_.graphs.totals().definition_bytes;
  for (int side = 8; side < 24; ++side) ASSERT_OK(graphs.Find({.shape = {1, side, 8}}));
  rig_.graphs.DropUnused();
  EXPECT_EQ(Declared().size(), declared);
  EXPECT_EQ(rig_.graphs.totals().definition_bytes, bytes);
  EXPECT_EQ(GetReason(graphs.Find({.shape = {1, 8, 8}}, IfUnknown::kRefuse).status()),
            "GRAPH_COLD");
}

TEST_F(ModelGraphsTest, CountsTheGraphsThatAreKept) {
  const int64_t before = rig_.graphs.totals().definition_bytes;
  const GraphHandle kept = rig_.pipeline->first().graphs().Find({.shape = {1, 8, 8}}).value();
  const auto graph_bytes = static_cast<int64_t>(compiler::GraphStore::DefinitionBytesOf(kept));
  EXPECT_GT(graph_bytes, 10000);  // hundreds of nodes
  EXPECT_EQ(rig_.graphs.totals().definition_bytes, before + graph_bytes);
  ASSERT_OK(rig_.graphs.Predict(kept));  // remembers what it came to
  EXPECT_GT(rig_.graphs.totals().definition_bytes, before + graph_bytes);
}

TEST_F(ModelGraphsTest, BuildsNothingForWhatMustBeReady) {
  rig_.graphs.DropUnused();
  const size_t declared = Declared().size();
  const SharedPlan plan = rig_.pipeline->Resolve(SmallSpec()).value();
  const auto started = rig_.pipeline->Start(plan, nullptr, {.mode = compiler::GetMode::kReady});
  EXPECT_EQ(GetReason(started.status()), "GRAPH_COLD");
  EXPECT_EQ(Declared().size(), declared);
}

TEST_F(ModelGraphsTest, StartsNothingThatWouldHaveToBeCompiledWhereThatIsNotAllowed) {
  const SharedPlan plan = rig_.pipeline->Resolve(SmallSpec()).value();
  const auto started = rig_.pipeline->Start(plan, nullptr, {.mode = compiler::GetMode::kReady});
  EXPECT_EQ(GetReason(started.status()), "GRAPH_COLD");
  EXPECT_EQ(rig_.compilations(), 0);
  rig_.Finish(SmallSpec());
  EXPECT_OK(rig_.pipeline->Start(plan, nullptr, {.mode = compiler::GetMode::kReady}));
}

TEST_F(ModelGraphsTest, CompilesAndLoadsNothingOnceAPictureHasStarted) {
  const auto picture = rig_.Start(SmallSpec());
  const auto before = rig_.graphs.totals();
  ASSERT_OK(rig_.Run(*picture));
  const auto after = rig_.graphs.totals();
  EXPECT_EQ(after.compilations, before.compilations);
  EXPECT_EQ(after.loads, before.loads);
  EXPECT_EQ(after.hits, before.hits);  // it does not even ask
}

}  // namespace
}  // namespace latentd::pipeline
