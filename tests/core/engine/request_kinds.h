// Kinds of requests that random schedules draw from, and the files that each gets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/image/encode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/inputs.h"

namespace latentd::engine {

// Files by the index of their image or video, and their frame; of a video's one file it is 0.
using Files = std::map<std::pair<int, int>, std::string>;

// A kind of request, and what it gets alone.
struct Kind {
  GenerateSpec spec;
  Files alone = {};
};

inline Kind KindOf(int steps, double guidance_scale, int pictures, const std::string& scheduler) {
  Kind kind{SmallSpec(steps)};
  pipeline::PictureSpec& picture = kind.spec.picture;
  picture.guidance_scale = guidance_scale;
  picture.num_images_per_prompt = pictures;
  picture.scheduler.name = scheduler;
  return kind;
}

inline std::string GreyImage() {
  const image::Image grey{.width = 64, .height = 64, .rgb = std::vector<uint8_t>(64 * 64 * 3, 99)};
  return image::Encode(grey, {}).value();
}

// From text and from images, with base, refiner and both.
inline std::vector<Kind> AllKinds() {
  const std::string image = GreyImage();
  std::vector<Kind> kinds = {KindOf(1, 1, 1, "euler"),
                             KindOf(3, 4, 1, "heun"),
                             KindOf(2, 1, 3, "lcm"),
                             KindOf(4, 6, 2, "dpmpp_2m"),
                             KindOf(5, 5, 1, "euler_ancestral"),
                             KindOf(6, 3, 1, "ddim"),
                             KindOf(4, 1, 2, "dpmpp_2m_sde"),
                             KindOf(6, 4, 1, "euler"),
                             KindOf(4, 5, 1, "euler_ancestral")};
  kinds[4].spec.picture.guidance_interval = {.start = 0.4, .stop = 0.7};
  for (size_t i : {5, 6, 8}) {
    kinds[i].spec.inputs = ::latentd::testing::ImageInput(image);
    kinds[i].spec.picture.strength = 0.7;
  }
  kinds[7].spec.picture.refine = true;
  kinds[7].spec.picture.denoising_end = 0.5;
  kinds[8].spec.picture.model = "refiner";
  kinds[3].spec.picture.guidance_rescale = 0.5;
  for (size_t i : {1, 3, 5, 7}) {
    kinds[i].spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  }
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i].spec.picture.seed = i;
  return kinds;
}

// Likewise, whose steps are full and shallow ones. For models with feature_cache.
inline std::vector<Kind> CachingKinds() {
  std::vector<Kind> kinds = {KindOf(9, 4, 2, "euler_ancestral"), KindOf(7, 1, 1, "dpmpp_2m"),
                             KindOf(4, 4, 1, "heun"), KindOf(8, 5, 1, "ddim"),
                             KindOf(12, 4, 1, "euler")};
  for (size_t i = 0; i < kinds.size(); ++i) {
    kinds[i].spec.picture.seed = 200 + i;
    kinds[i].spec.picture.feature_cache_interval = 2 + i % 3;
  }
  for (size_t i : {2, 4}) {
    kinds[i].spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  }
  kinds[3].spec.inputs = ::latentd::testing::ImageInput(GreyImage());
  kinds[3].spec.picture.strength = 0.9;
  kinds[4].spec.picture.refine = true;
  kinds[4].spec.picture.denoising_end = 0.5;
  return kinds;
}

inline Files FilesOf(const std::vector<Event>& events) {
  Files files;
  for (const Image& image : Only<Image>(events)) {
    std::string& file = files[{image.index, image.part ? 0 : image.frame}];
    if (image.part) {
      EXPECT_EQ(image.part->offset, static_cast<int64_t>(file.size()));
    } else {
      EXPECT_EQ(file, "");
    }
    file += image.bytes;
  }
  return files;
}

// Number of files that a request of the kind gets.
inline size_t FileCountOf(const Kind& kind) {
  const pipeline::PictureSpec& picture = kind.spec.picture;
  const bool has_frames = picture.video && !kind.spec.video_file;
  return *picture.num_images_per_prompt * (has_frames ? *picture.video->num_frames : 1);
}

}  // namespace latentd::engine
