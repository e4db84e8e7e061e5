// Plans of a server with several models are those of the model alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using testing::kDemoBase;

TEST(SeveralModelsPlanTest, ARequestHoldsWhatItWouldHoldAlone) {
  const Rig alone({.base = kDemoBase});
  const Rig among({.base = kDemoBase,
                   .models = {{.name = "one", .checkpoint = kDemoBase},
                              {.name = "two", .checkpoint = kDemoBase}}});
  PictureSpec spec;
  spec.prompt = "a star";
  spec.width = spec.height = 64;
  const int64_t bytes = alone.pipeline->Resolve(spec).value()->state_bytes;
  EXPECT_EQ(among.pipeline->Resolve(spec).value()->state_bytes, bytes);
  EXPECT_EQ(among.pipeline->StateBytes({64, 64}, 2), alone.pipeline->StateBytes({64, 64}, 2));
  spec.model = "two";
  const SharedPlan two = among.pipeline->Resolve(spec).value();
  EXPECT_EQ(two->state_bytes, bytes);
  EXPECT_EQ(two->last_model().row().name, "two");
}

TEST(SeveralModelsPlanTest, AModelHasItsOwnSettings) {
  const Rig rig({.base = kDemoBase,
                 .models = {{.name = "turbo",
                             .checkpoint = kDemoBase,
                             .preset = "lightning-4",
                             .scheduler = "heun"}},
                 .buckets = {{64, 64}}});
  PictureSpec spec;
  spec.prompt = "a star";
  EXPECT_EQ(rig.pipeline->Resolve(spec).value()->spec.num_inference_steps, 50);
  spec.model = "turbo";
  const SharedPlan plan = rig.pipeline->Resolve(spec).value();
  EXPECT_EQ(plan->spec.num_inference_steps, 4);
  EXPECT_EQ(plan->spec.scheduler.name, "heun");
  EXPECT_EQ(plan->spec.width, 64);
}

}  // namespace
}  // namespace latentd::pipeline
