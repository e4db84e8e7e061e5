#include "core/pipeline/spec/models/model_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ModelTableTest, HasARowForEachFlag) {
  const ModelTable both = ModelTable::FromFlags("/models/b", "/models/r");
  EXPECT_THAT(both.Names(), ElementsAre("base", "refiner"));
  EXPECT_EQ(both[ModelId{0}].checkpoint, "/models/b");
  EXPECT_EQ(both[ModelId{1}].checkpoint, "/models/r");
  EXPECT_FALSE(both[ModelId{0}].is_refiner);
  EXPECT_TRUE(both[ModelId{1}].is_refiner);
  EXPECT_THAT(ModelTable::FromFlags("/models/b", "").Names(), ElementsAre("base"));
}

TEST(ModelTableTest, FindsModelsByNameAndTheFirstWithoutOne) {
  const ModelTable both = ModelTable::FromFlags("b", "r");
  EXPECT_EQ(both.Find("")->id, ModelId{0});
  EXPECT_EQ(both.Find("base")->id, ModelId{0});
  EXPECT_EQ(both.Find("refiner")->id, ModelId{1});
  EXPECT_EQ(both.Find("Refiner"), nullptr);
  EXPECT_EQ(ModelTable::FromFlags("b", "").Find("refiner"), nullptr);
}

TEST(ModelTableTest, ChainsWhatHandsOver) {
  const ModelTable both = ModelTable::FromFlags("b", "r");
  EXPECT_THAT(both.Chain("", false), ElementsAre(ModelId{0}));
  EXPECT_THAT(both.Chain("base", true), ElementsAre(ModelId{0}, ModelId{1}));
  EXPECT_THAT(both.Chain("refiner", false), ElementsAre(ModelId{1}));
  EXPECT_THAT(both.Chain("refiner", true), IsEmpty());
  EXPECT_THAT(both.Chain("another", false), IsEmpty());
  EXPECT_THAT(ModelTable::FromFlags("b", "").Chain("base", true), IsEmpty());
}

TEST(ModelTableTest, HasAModelOfVideosByItsOwnFlag) {
  const ModelTable table = ModelTable::FromFlags("b", "",
                                                 {{.name = "video",
                                                   .checkpoint = "v",
                                                   .buckets = {{64, 64, 5}},
                                                   .draws_videos = true,
                                                   .decode_chunk = 2}});
  const ModelRow* video = table.Find("video");
  ASSERT_NE(video, nullptr);
  EXPECT_EQ(video->flag, "video");
  EXPECT_TRUE(video->draws_videos);
  EXPECT_EQ(video->decode_chunk, 2);
  EXPECT_EQ(video->buckets.front().frames, 5);
  EXPECT_FALSE(table.first().draws_videos);
}

TEST(ModelTableTest, HasFurtherModelsBehindTheFlags) {
  const std::vector<ModelSource> more = {
      {.name = "anime", .checkpoint = "a", .residency = Residency::kOnDemand},
      {.name = "turbo", .checkpoint = "t", .preset = "turbo"}};
  const ModelTable all = ModelTable::FromFlags("b", "r", more);
  EXPECT_THAT(all.Names(), ElementsAre("base", "refiner", "anime", "turbo"));
  EXPECT_THAT(all.Leaders(), ElementsAre(ModelId{0}, ModelId{2}, ModelId{3}));
  EXPECT_EQ(all.Find("refiner")->leader, ModelId{0});
  EXPECT_EQ(all.Find("anime")->residency, Residency::kOnDemand);
  EXPECT_EQ(all.Find("turbo")->preset_name, "turbo");
  EXPECT_THAT(all.Chain("anime", true), IsEmpty());
  const ModelTable alone = ModelTable::FromFlags("", "", more);
  EXPECT_EQ(alone.Find("")->name, "anime");
  EXPECT_EQ(alone.FindOrFirst("nothing").name, "anime");
}

}  // namespace
}  // namespace latentd::pipeline
