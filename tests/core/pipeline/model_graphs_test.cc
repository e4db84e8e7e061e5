#include "core/pipeline/model_graphs.h"

#include <set>
#include <string>

#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class ModelGraphsTest : public ::testing::Test {
 protected:
  // "LABEL: users" of what is declared.
  std::vector<std::string> Declared() const {
    std::vector<std::string> lines;
    for (const compiler::GraphInfo& info : rig_.graphs.List()) {
      std::string users;
      for (const std::string& user : info.users) users += " " + user;
      lines.push_back(info.label.ToText() + ":" + users);
    }
    return lines;
  }

  Rig rig_;
};

TEST_F(ModelGraphsTest, DeclaresWhatPicturesOfAShapeNeedWithItsUsers) {
  ASSERT_OK(rig_.pipeline->GraphsOf({72, 64}, 2));
  EXPECT_THAT(
      Declared(),
      UnorderedElementsAre(
          "text_encoder rows 1: base", "text_encoder_2 rows 1: base refiner",
          "unet_base request rows 1: base", "unet_refiner request rows 1: refiner",
          "unet_base step 72x64 rows 2: base", "unet_refiner step 72x64 rows 2: refiner",
          "vae_decoder 72x64 rows 1: base refiner", "vae_encoder 72x64 rows 1: base refiner"));
  EXPECT_EQ(rig_.compilations(), 0);
}

TEST_F(ModelGraphsTest, AddsOnlyTheStepsForAnotherNumberOfRows) {
  ASSERT_OK(rig_.pipeline->GraphsOf({72, 64}, 2));
  const size_t before = Declared().size();
  ASSERT_OK(rig_.pipeline->GraphsOf({72, 64}, 1));
  EXPECT_EQ(Declared().size(), before + 2);
}

TEST_F(ModelGraphsTest, KeepsTheReferencesByShape) {
  ModelGraphs& graphs = rig_.pipeline->base().graphs();
  EXPECT_EQ(graphs.Step({2, 8, 9}).value(), graphs.Step({2, 8, 9}).value());
  EXPECT_NE(graphs.Step({2, 8, 9}).value(), graphs.Step({2, 9, 8}).value());
  EXPECT_NE(graphs.Decode(8, 9).value(), graphs.Encode(8, 9).value());
}

TEST_F(ModelGraphsTest, HoldsNoMoreThanAFixedNumberOfShapes) {
  ModelGraphs& graphs = rig_.pipeline->base().graphs();
  const GraphRef first = graphs.Decode(8, 8).value();
  const std::weak_ptr<compiler::GraphStore::Use> second = graphs.Decode(9, 8).value();
  for (size_t i = 2; i <= ModelGraphs::kMaxShapes; ++i) {
    EXPECT_EQ(graphs.Decode(8, 8).value(),
              first);  // used all the time: it stays
    ASSERT_OK(graphs.Decode(8 + static_cast<int>(i), 8));
  }
  EXPECT_TRUE(second.expired());
}

TEST_F(ModelGraphsTest, StartsNothingThatWouldHaveToBeCompiledWhereThatIsNotAllowed) {
  const PictureSpec resolved = rig_.pipeline->Resolve(SmallSpec()).value();
  const auto started = rig_.pipeline->Start(resolved, {.allow = compiler::Allow::kReady});
  EXPECT_EQ(GetReason(started.status()), "GRAPH_COLD");
  EXPECT_EQ(rig_.compilations(), 0);
  rig_.Finish(SmallSpec());
  EXPECT_OK(rig_.pipeline->Start(resolved, {.allow = compiler::Allow::kReady}));
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
