#include "core/pipeline/spec/models/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<DeviceRoom> Devices(const std::vector<int64_t>& bytes) {
  std::vector<DeviceRoom> devices;
  for (const int64_t one : bytes) devices.push_back({"", one});
  return devices;
}

TEST(PlacementTest, ModelsThatFitTogetherAreOnEachDevice) {
  EXPECT_THAT(PlaceModels({{30}, {50}}, Devices({100, 100})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
}

TEST(PlacementTest, ModelsThatFitAloneAreApart) {
  EXPECT_THAT(PlaceModels({{60}, {50}}, Devices({100, 100})),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(PlacementTest, AFifthIsLeftForWhatGraphsNeedButByAModelAlone) {
  EXPECT_THAT(PlaceModels({{40}, {40}}, Devices({100})),
              ElementsAre(ElementsAre(0), ElementsAre(0)));
  EXPECT_THAT(PlaceModels({{41}, {40}}, Devices({100})), ElementsAre(ElementsAre(0), IsEmpty()));
  EXPECT_THAT(PlaceModels({{100}}, Devices({100})), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(PlaceModels({{101}}, Devices({100})), ElementsAre(IsEmpty()));
}

TEST(PlacementTest, TheWiderDeviceTakesTheLargerModel) {
  EXPECT_THAT(PlaceModels({{30}, {90}}, Devices({50, 100})),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(PlacementTest, PinnedOnesComeFirstAndAreSomewhereInAnyCase) {
  EXPECT_THAT(PlaceModels({{90}, {50, true}}, Devices({100})),
              ElementsAre(IsEmpty(), ElementsAre(0)));
  EXPECT_THAT(PlaceModels({{200, true}}, Devices({100, 100})), ElementsAre(ElementsAre(0)));
}

TEST(PlacementTest, EachModelHasADeviceBeforeAnyHasTwo) {
  EXPECT_THAT(PlaceModels({{40}, {40}, {40}, {35}}, Devices({100, 100})),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(1)));
}

TEST(PlacementTest, RoomThatIsLeftGoesToModelsInTurn) {
  EXPECT_THAT(PlaceModels({{30}, {30}, {30}}, Devices({100, 100})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(1), ElementsAre(0)));
}

class RandomPlacementTest : public ::testing::TestWithParam<int> {
 protected:
  int64_t Draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomPlacementTest, NoDeviceIsOverfullAndAModelIsLeftOutWhereNoneHasRoom) {
  std::vector<PlacedModel> models(static_cast<size_t>(Draw(1, 6)));
  for (PlacedModel& model : models) model.weight_bytes = Draw(1, 60);
  std::vector<DeviceRoom> devices(static_cast<size_t>(Draw(1, 4)));
  for (DeviceRoom& device : devices) device.bytes = Draw(10, 150);
  const auto placed = PlaceModels(models, devices);
  ASSERT_EQ(placed.size(), models.size());
  std::vector<int64_t> used(devices.size());
  std::vector<int> count(devices.size());
  for (size_t i = 0; i < models.size(); ++i) {
    EXPECT_TRUE(std::is_sorted(placed[i].begin(), placed[i].end()));
    EXPECT_EQ(std::adjacent_find(placed[i].begin(), placed[i].end()), placed[i].end());
    for (const size_t device : placed[i]) {
      used[device] += models[i].weight_bytes;
      ++count[device];
    }
  }
  for (size_t device = 0; device < devices.size(); ++device) {
    const int64_t all = devices[device].bytes;
    EXPECT_LE(used[device], count[device] > 1 ? all - all / 5 : all) << device;
  }
  for (size_t i = 0; i < models.size(); ++i) {
    if (!placed[i].empty()) continue;
    for (size_t device = 0; device < devices.size(); ++device) {
      const int64_t all = devices[device].bytes;
      const int64_t room = used[device] == 0 ? all : all - all / 5 - used[device];
      EXPECT_GT(models[i].weight_bytes, room) << "model " << i << " on device " << device;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacementTest, ::testing::Range(0, 200));

}  // namespace
}  // namespace latentd::pipeline
