// Images whose steps read deep features of earlier ones, what ControlNets add and low-rank paths of
// LoRAs, in one lane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/image/encode.h"
#include "tests/core/pipeline/control_net_folder.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/source_directory.h"

namespace latentd::pipeline {
namespace {

constexpr int kSlots = 2, kRanks = 8;

class AdaptedFeatureCacheTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ControlNetFolder>();
    folder_->Add("edges", /*seed=*/1, /*gain=*/0.3f);
    folder_->Add("depth", /*seed=*/2, /*gain=*/0.3f);
    std::filesystem::copy_file(testing::SourcePath("tests/golden/loras/kohya.safetensors"),
                               folder_->path() + "/film.safetensors");
    catalogue_ = std::make_unique<adapters::Catalogue>(adapters::FolderOnDisk(folder_->path()));
    rig_ = std::make_unique<Rig>(LoadOptions{.base = testing::kDemoBase,
                                             .adapters = catalogue_.get(),
                                             .path_slots = kSlots,
                                             .path_ranks = kRanks,
                                             .row_counts = {2, 4},
                                             .feature_cache = true},
                                 "", backends::cpu::CpuBackend::Create().value());
    ModelGraphs& graphs = rig_->pipeline->first().graphs();
    for (const DeepFeatures deep : DepthsOf(/*caches=*/true)) {
      const StepShape shape{
          .rows = 4, .height = 72 / 8, .width = 64 / 8, .ranks = kRanks, .deep = deep};
      rig_->kept.push_back(graphs.Find({.shape = shape, .controlled = true}).value());
      ASSERT_OK(graphs.Get(rig_->kept.back()));
    }
  }
  static void TearDownTestSuite() {
    rig_.reset();
    catalogue_.reset();
    folder_.reset();
  }

  static Asked Spec(int interval, int steps, double lora, const std::string& net) {
    Asked asked = SmallSpec();
    asked.seed = 40 + steps;
    asked.num_inference_steps = steps;
    asked.guidance_scale = 4;
    asked.feature_cache_interval = interval;
    asked.adapters = {{"film", lora}};
    asked.controls = {{.name = net, .scale = 0.8, .start = 0, .end = 1}};
    image::Image map{64, 72, {}};
    for (int i = 0; i < 64 * 72 * 3; ++i) map.rgb.push_back(static_cast<uint8_t>(i * 7 / 3));
    asked.inputs.control_images = {image::Encode(map, {}).value()};
    return asked;
  }

  // One evaluation of those that are to take one of the same kind; false: all are through.
  bool Step(const std::vector<std::unique_ptr<Picture>>& pictures, std::mt19937& random) {
    std::vector<Picture*> stepping;
    for (const auto& picture : pictures) {
      if (picture->next == UnitKind::kStep) stepping.push_back(picture.get());
    }
    if (stepping.empty()) return false;
    std::shuffle(stepping.begin(), stepping.end(), random);
    PendingUnit unit = EnqueueUnit(stepping, lanes_, *stream_).value();
    most_rows_ = std::max(most_rows_, unit.computed_rows);
    for (size_t i = 0; i < stepping.size(); ++i) {
      EXPECT_OK(unit.parts[i].status);
      shallow_ += unit.parts[i].is_shallow ? 1 : 0;
      EXPECT_OK(CompleteUnit(unit, *stepping[i], unit.parts[i]));
    }
    return true;
  }

  static inline std::unique_ptr<ControlNetFolder> folder_;
  static inline std::unique_ptr<adapters::Catalogue> catalogue_;
  static inline std::unique_ptr<Rig> rig_;
  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
  Lanes lanes_;
  int most_rows_ = 0, shallow_ = 0;
};

TEST_F(AdaptedFeatureCacheTest, EachHasAnEffectBesideTheOthers) {
  const std::vector<float> all = rig_->Latents(Spec(2, 8, 0.8, "edges"));
  EXPECT_NE(all, rig_->Latents(Spec(4, 8, 0.8, "edges")));
  EXPECT_NE(all, rig_->Latents(Spec(2, 8, -0.5, "edges")));
  EXPECT_NE(all, rig_->Latents(Spec(2, 8, 0.8, "depth")));
}

// They have other LoRAs, nets, parts of the schedule, intervals and lengths; one waits for a slot.
TEST_F(AdaptedFeatureCacheTest, PicturesSideBySideAreWhatTheyAreAlone) {
  std::vector<Asked> all = {Spec(2, 8, 0.8, "edges"), Spec(3, 9, -0.5, "depth"),
                            Spec(4, 10, 0.8, "depth"), Spec(2, 7, 0.3, "edges")};
  all[1].scheduler.name = "dpmpp_2m";
  all[2].controls.front().end = 0.5;
  all[3].scheduler.name = "euler_ancestral";
  std::vector<std::vector<float>> alone;
  for (const Asked& asked : all) {
    EXPECT_EQ(rig_->Resolve(asked).value()->ranks, kRanks);
    alone.push_back(rig_->Latents(asked));
  }
  std::mt19937 random(5);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Picture>> pictures;
    for (const Asked& asked : all) {
      pictures.push_back(rig_->BeginSteps(asked));
      for (int more = static_cast<int>(random() % 3); more > 0; --more) Step(pictures, random);
    }
    while (Step(pictures, random)) continue;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(ValuesOf(pictures[i]->latents), alone[i]) << "round " << round << ", " << i;
    }
  }
  EXPECT_EQ(most_rows_, 4);
  EXPECT_GT(shallow_, 0);
}

}  // namespace
}  // namespace latentd::pipeline
