// Adapters of requests: sets of LoRAs that are merged on demand, and words of textual inversions.
#include "core/pipeline/graphs/adapter_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>

#include "core/base/errors/error_details.h"
#include "core/image/decode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using pipeline::Adapter;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

std::string GoldenPath(const std::string& name) {
  return ::latentd::testing::SourcePath("tests/golden/" + name + ".safetensors");
}

class AdapterSetsTest : public ::testing::Test {
 protected:
  AdapterSetsTest() {
    for (const char* name : {"loras/kohya", "loras/diffusers", "loras/dora", "embeddings/swirl"}) {
      const std::filesystem::path path = GoldenPath(name);
      std::filesystem::copy_file(path, folder_.File(path.filename()));
    }
  }

  Config WithAdapters() const {
    Config config = SmallConfig();
    config.adapters = folder_.path();
    return config;
  }

  static std::unique_ptr<LocalEngine> Load(const Config& config) {
    auto engine =
        std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine->Load());
    engine->FinishPreparing();
    return engine;
  }

  // With paths of sets for rows of steps.
  Config WithPaths() const {
    Config config = WithAdapters();
    config.adapter_slots = 2;
    config.adapter_ranks = 8;
    return config;
  }

  static std::string Draw(Engine& engine, std::vector<Adapter> adapters,
                          const std::string& prompt = "",
                          prompts::Syntax syntax = prompts::Syntax::kNone) {
    return PixelsOf(DrawFile(engine, std::move(adapters), prompt, syntax));
  }

  static std::string DrawFile(Engine& engine, std::vector<Adapter> adapters,
                              const std::string& prompt = "",
                              prompts::Syntax syntax = prompts::Syntax::kNone) {
    GenerateSpec spec = SmallSpec();
    spec.picture.adapters = std::move(adapters);
    spec.picture.prompt_syntax = syntax;
    if (!prompt.empty()) spec.picture.prompt = prompt;
    const std::vector<Image> images = Only<Image>(RunOn(engine, std::move(spec)));
    EXPECT_THAT(images, SizeIs(1));
    return images.empty() ? "" : images.front().bytes;
  }

  // The largest distance of two of their bytes.
  static int DistanceOf(const std::string& one, const std::string& other) {
    const image::Image a = image::Decode(one).value(), b = image::Decode(other).value();
    EXPECT_EQ(a.rgb.size(), b.rgb.size());
    int largest = 0;
    for (size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) {
      largest = std::max(largest, std::abs(int{a.rgb[i]} - int{b.rgb[i]}));
    }
    return largest;
  }

  // A file's bytes without the texts, which name the adapters.
  static std::string PixelsOf(const std::string& png) {
    const size_t data = png.find("IDAT");
    return data == std::string::npos ? png : png.substr(data);
  }

  static AdapterStatus StatusOf(Engine& engine, const std::string& name) {
    const auto adapters = engine.adapters().List();
    EXPECT_OK(adapters);
    for (const AdapterStatus& adapter : *adapters) {
      if (adapter.facts.name == name) return adapter;
    }
    ADD_FAILURE() << name;
    return {};
  }

  const ::latentd::testing::TemporaryDirectory folder_;
};

TEST_F(AdapterSetsTest, DrawWhatTheMergedModelDrawsAndCompileNothing) {
  Config config = WithAdapters();
  config.base_parts.loras = {{GoldenPath("loras/kohya"), 0.8, 0.5},
                             {GoldenPath("loras/diffusers"), -0.5, -0.5}};
  const std::string expected = Draw(*Load(config), {});
  const auto engine = Load(WithAdapters());
  const int compiled = CompilationsOf(*engine);
  const std::string plain = Draw(*engine, {});
  const Adapter kohya = {"kohya", 0.8, 0.5}, diffusers = {"diffusers", -0.5};
  EXPECT_EQ(Draw(*engine, {kohya, diffusers}), expected);
  EXPECT_EQ(Draw(*engine, {}), plain);
  EXPECT_EQ(Draw(*engine, {diffusers, kohya}), expected);
  EXPECT_NE(Draw(*engine, {kohya}), expected);
  EXPECT_EQ(Draw(*engine, {{"kohya", 0}}), plain);
  EXPECT_EQ(CompilationsOf(*engine), compiled);
}

// A set of weight 0 is not kept by the name of its adapter: merged, and as paths.
TEST_F(AdapterSetsTest, AreOfTheirWeightWhicheverIsAskedForFirst) {
  for (const Config& config : {WithAdapters(), WithPaths()}) {
    for (const bool zero_first : {true, false}) {
      const auto engine = Load(config);
      const std::string first = DrawFile(*engine, {{"kohya", zero_first ? 0 : 1}});
      const std::string second = DrawFile(*engine, {{"kohya", zero_first ? 1 : 0}});
      const std::string plain = DrawFile(*engine, {});
      EXPECT_THAT(DistanceOf(zero_first ? first : second, plain), Le(1));
      EXPECT_GT(DistanceOf(zero_first ? second : first, plain), 1);
    }
  }
}

TEST_F(AdapterSetsTest, AsPathsDrawWhatMergedOnesDoButForRounding) {
  const auto merging = Load(WithAdapters()), engine = Load(WithPaths());
  const int compiled = CompilationsOf(*engine);
  const Adapter kohya = {"kohya", 0.8, 0.5};
  const std::string plain = DrawFile(*merging, {});
  const std::string merged = DrawFile(*merging, {kohya});
  const std::string paths = DrawFile(*engine, {kohya});
  EXPECT_THAT(DistanceOf(paths, merged), Le(1));
  EXPECT_GT(DistanceOf(paths, plain), 1);
  // A convolution's LoRA is merged, and so is a set that has one.
  for (const std::vector<Adapter>& set : std::vector<std::vector<Adapter>>{
           {{"diffusers", -0.5}}, {kohya, {"diffusers", -0.5}}, {{"dora", 1}}}) {
    EXPECT_EQ(Draw(*engine, set), Draw(*merging, set));
  }
  EXPECT_EQ(Draw(*engine, {}), PixelsOf(plain));
  EXPECT_EQ(CompilationsOf(*engine), compiled);
}

TEST_F(AdapterSetsTest, GiveAnImageWhatItGetsAloneWhateverIsBesideIt) {
  Config config = WithPaths();
  config.rows = {1, 2, 4, 8};
  config.queue_capacity = 16;
  const auto engine = Load(config);
  const std::vector<std::vector<Adapter>> sets = {{{"kohya", 0.8}},   {{"kohya", -0.5}}, {},
                                                  {{"diffusers", 1}}, {{"kohya", 0.8}},  {}};
  std::vector<std::string> alone;
  for (const auto& set : sets) alone.push_back(Draw(*engine, set));
  EXPECT_EQ(alone[0], alone[4]);
  EXPECT_NE(alone[0], alone[1]);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<std::string>> drawn;
    for (const auto& set : sets) {
      drawn.push_back(std::async(std::launch::async, [&] { return Draw(*engine, set); }));
    }
    for (size_t i = 0; i < sets.size(); ++i) EXPECT_EQ(drawn[i].get(), alone[i]) << i;
  }
}

TEST_F(AdapterSetsTest, OfManyInTurnFewAreKept) {
  constexpr int kMany = pipeline::AdapterSets::kMostSets + 6;
  const auto engine = Load(WithAdapters());
  for (int i = 1; i <= kMany; ++i) Draw(*engine, {{"dora", i / 40.0}});
  engine->FinishPreparing();
  const int kept = StatusOf(*engine, "dora").sets;
  EXPECT_THAT(kept, Le(static_cast<int>(pipeline::AdapterSets::kMostSets) + 1));
  const int64_t bytes = engine->memory().weight_bytes;
  for (int i = 1; i <= 4; ++i) Draw(*engine, {{"dora", -i / 40.0}});
  engine->FinishPreparing();
  EXPECT_THAT(engine->memory().weight_bytes, Le(bytes + bytes / 50));
  Draw(*engine, {});  // the last request with one is over then
  ASSERT_OK(engine->adapters().Evict("dora"));
  EXPECT_EQ(StatusOf(*engine, "dora").sets, 0);
  EXPECT_FALSE(StatusOf(*engine, "dora").loaded);
}

TEST_F(AdapterSetsTest, LeaveMemoryForEachOtherUnderABudget) {
  const int64_t alone = Load(SmallConfig())->memory().on_device();
  Config config = WithAdapters();
  config.memory_bytes = alone * 3;  // far less than 12 sets take
  const auto engine = Load(config);
  const std::string first = Draw(*engine, {{"kohya", 0.1}});
  for (int i = 2; i <= 12; ++i) Draw(*engine, {{"kohya", i / 10.0}});
  EXPECT_THAT(engine->memory().on_device(), Le(config.memory_bytes));
  EXPECT_EQ(Draw(*engine, {{"kohya", 0.1}}), first);
}

TEST_F(AdapterSetsTest, ArePinnedByTheirAdapters) {
  const auto engine = Load(WithAdapters());
  ASSERT_OK(engine->adapters().Pin("kohya", true));
  EXPECT_TRUE(StatusOf(*engine, "kohya").pinned);
  Draw(*engine, {{"kohya", 0.5}});
  EXPECT_TRUE(StatusOf(*engine, "kohya").loaded);
  ASSERT_OK(engine->adapters().Pin("kohya", false));
  EXPECT_FALSE(StatusOf(*engine, "kohya").pinned);
  EXPECT_EQ(GetReason(engine->adapters().Pin("nothing", true)), "NO_SUCH_ADAPTER");
}

TEST_F(AdapterSetsTest, AreRefusedByTheNearestName) {
  const auto engine = Load(WithAdapters());
  GenerateSpec spec = SmallSpec();
  spec.picture.adapters = {{"kohya"}, {"diffuser"}, {"swirl"}};
  const std::vector<FieldViolation> found = engine->Validate(spec);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].field, "adapters[1].name");
  EXPECT_THAT(found[0].description, HasSubstr("the nearest is diffusers"));
  EXPECT_EQ(found[1].field, "adapters[2].name");
  EXPECT_THAT(found[1].description, HasSubstr("textual inversion"));
}

TEST_F(AdapterSetsTest, WordsAreVectorsAndLeavePlainPromptsTheirBytes) {
  const auto plain = Load(SmallConfig()), engine = Load(WithAdapters());
  EXPECT_EQ(Draw(*engine, {}), Draw(*plain, {}));
  const std::string word = Draw(*engine, {}, "a swirl");
  EXPECT_EQ(Draw(*engine, {}, "a <swirl>"), word);
  EXPECT_NE(Draw(*plain, {}, "a swirl"), word);
  EXPECT_EQ(Draw(*engine, {}, "a swirls"), Draw(*plain, {}, "a swirls"));
  EXPECT_NE(Draw(*engine, {{"kohya"}}, "a swirl"), word);
}

TEST_F(AdapterSetsTest, WordsDifferByUpperAndLowerCase) {
  const std::string path = GoldenPath("embeddings/swirl");
  std::filesystem::copy_file(path, folder_.File("Ink.safetensors"));
  std::filesystem::copy_file(path, folder_.File("InK.safetensors"));
  const auto plain = Load(SmallConfig()), engine = Load(WithAdapters());
  const std::string word = Draw(*engine, {}, "an Ink, a fox");
  EXPECT_EQ(Draw(*engine, {}, "an InK, a fox"), word);
  EXPECT_EQ(Draw(*engine, {}, "an swirl, a fox"), word);
  EXPECT_NE(Draw(*plain, {}, "an Ink, a fox"), word);
  for (const char* text : {"an ink, a fox", "an INK, a fox", "an Swirl, a fox"}) {
    EXPECT_EQ(Draw(*engine, {}, text), Draw(*plain, {}, text)) << text;
  }
}

TEST_F(AdapterSetsTest, MayBeBesideWeightsBelowOneOfCompel) {
  Config config = WithAdapters();
  config.prompt_blends = true;
  Config merged = SmallConfig();
  merged.prompt_blends = true;
  merged.base_parts.loras = {{GoldenPath("loras/kohya"), 1, 1}};
  const auto engine = Load(config), expected = Load(merged);
  const auto draw = [](Engine& of, std::vector<Adapter> adapters, const std::string& prompt) {
    return Draw(of, std::move(adapters), prompt, prompts::Syntax::kCompel);
  };
  const int64_t compiled = CompilationsOf(*engine);
  // The encoders that hide a piece are of the merged weights too.
  EXPECT_EQ(draw(*engine, {{"kohya"}}, "a (red)0.5 star"), draw(*expected, {}, "a (red)0.5 star"));
  const std::string less = draw(*engine, {}, "a (swirl)0.5 star");
  EXPECT_NE(draw(*engine, {}, "a swirl star"), less);
  EXPECT_NE(draw(*engine, {}, "a (swirl)0.2 star"), less);
  EXPECT_NE(draw(*engine, {}, "a (swirls)0.5 star"), less);
  EXPECT_NE(draw(*engine, {{"kohya"}}, "a (swirl)0.5 star"), less);
  EXPECT_EQ(draw(*engine, {}, "a (swirl)0.5 star"), less);
  EXPECT_EQ(CompilationsOf(*engine), compiled);
}

}  // namespace
}  // namespace latentd::engine
