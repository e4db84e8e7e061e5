// Memory of adapters: it goes with the sets and networks that it is for, never from under an image
// that is drawn, and where there is none the request for it fails alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/files/files.h"
#include "core/base/text/digest.h"
#include "core/pipeline/graphs/adapter_sets.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/core/engine/request_kinds.h"
#include "tests/core/pipeline/control_net_folder.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_directory.h"

namespace latentd::engine {
namespace {

using pipeline::Adapter;
using ::testing::Le;

// Noise of the heap and of resident memory, which is far less than the LoRAs that are read in so
// many rounds. A sanitizer's heap keeps what was freed for a while, so that it says nothing.
#ifdef LATENTD_SANITIZED
constexpr int kFiles = 18, kRounds = 4;
constexpr int64_t kHeapNoise = int64_t{1} << 40, kResidentNoise = int64_t{1} << 40;
#else
constexpr int kFiles = 100, kRounds = 40;
constexpr int64_t kHeapNoise = int64_t{1} << 20, kResidentNoise = int64_t{6} << 20;
#endif
constexpr int kWarmRounds = 3;

// A backend and a device that find no memory for what a test names.
class PoorDevice : public device::HostDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override {
    if (slots != 0 && shape.rank() == 2 && shape[0] == slots) {
      return absl::ResourceExhaustedError("no memory for slots");
    }
    return HostDevice::Allocate(dtype, std::move(shape), place);
  }

  std::atomic<int> slots = 0;  // rows of a pool that it refuses
};

class PoorBackend : public WatchedBackend {
 public:
  explicit PoorBackend(device::HostDevice& device)
      : WatchedBackend(*backends::cpu::CpuBackend::Create({.device = &device}),
                       [](const graph::Graph&) { return absl::OkStatus(); }) {}

  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override {
    if (refuses) return absl::ResourceExhaustedError("no memory for weights");
    return WatchedBackend::MakeWeight(recipe, sources, form, to, stream);
  }

  std::atomic<bool> refuses = false;  // all weights that are made from then on
};

// The file with its alphas, which lie before all else, multiplied: a LoRA of another content.
std::string WithAlphas(std::string file, float factor) {
  constexpr size_t kAlphas = 80, kLength = sizeof(uint64_t);
  uint64_t header = 0;
  std::memcpy(&header, file.data(), kLength);
  float alphas[kAlphas];
  std::memcpy(alphas, file.data() + kLength + header, sizeof(alphas));
  for (float& alpha : alphas) alpha *= factor;
  std::memcpy(file.data() + kLength + header, alphas, sizeof(alphas));
  return file;
}

class AdapterMemoryTest : public ::testing::Test {
 protected:
  AdapterMemoryTest() {
    for (const char* name : {"kohya", "diffusers", "dora"}) {
      std::filesystem::copy_file(LoraFileOf(name), File(name));
    }
  }

  static std::string LoraFileOf(const std::string& name) {
    return ::latentd::testing::SourcePath("tests/golden/loras/" + name + ".safetensors");
  }

  std::string File(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name, ".safetensors");
  }

  Config WithAdapters() const {
    Config config = SmallConfig();
    config.adapters = folder_.path();
    return config;
  }

  void Load(const Config& config) {
    auto backend = std::make_unique<PoorBackend>(device_);
    backend_ = backend.get();
    engine_ = std::make_unique<LocalEngine>(config, std::move(backend), SystemClock());
    ASSERT_OK(engine_->Load());
    engine_->FinishPreparing();
  }

  static GenerateSpec SpecWith(std::vector<Adapter> adapters, int steps = 1) {
    GenerateSpec spec = SmallSpec(steps);
    spec.picture.adapters = std::move(adapters);
    return spec;
  }

  uint64_t Draw(GenerateSpec spec) { return PixelsIn(RunOn(*engine_, std::move(spec))); }

  // Digest of the image's bytes without its texts, which have the adapters' digests once they are
  // known; 0: there is not one.
  static uint64_t PixelsIn(const std::vector<Event>& events) {
    const std::vector<Image> images = Only<Image>(events);
    EXPECT_EQ(images.size(), 1u);
    if (images.size() != 1) return 0;
    const std::string& png = images.front().bytes;
    return DigestOf(absl::string_view(png).substr(png.find("IDAT"))).low;
  }

  // Bytes of the process's heap that are in use, but for those that the engine's device counts.
  int64_t HeapBytes() const {
    const struct mallinfo2 heap = mallinfo2();
    return static_cast<int64_t>(heap.arena + heap.hblkhd - heap.fordblks) -
           engine_->memory().on_device();
  }

  // Expects that `spec` fails for want of memory, and neither an image that is drawn beside it nor
  // those that follow.
  void ExpectFailsAlone(const GenerateSpec& spec, std::function<void(bool)> is_poor) {
    const uint64_t wanted = Draw(SpecWith({}, kLong));
    is_poor(true);
    const auto beside = std::make_shared<::latentd::testing::RecordingSink>();
    ASSERT_OK(engine_->Submit(SpecWith({}, kLong), beside));
    beside->WaitFor<Progress>();
    const auto failing = std::make_shared<::latentd::testing::RecordingSink>();
    ASSERT_OK(engine_->Submit(spec, failing));
    EXPECT_EQ(PixelsIn(beside->WaitForEnd()), wanted);
    // It is tried again a few times, since others may let go of some.
    for (int i = 0; i < kMostTries && Only<Failed>(failing->events()).empty(); ++i) {
      engine_->CheckFiles();  // as every second
      engine_->FinishPreparing();
    }
    const std::vector<Failed> failed = Only<Failed>(failing->WaitForEnd());
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed.front().status.code(), absl::StatusCode::kResourceExhausted);
    is_poor(false);
    const uint64_t with = Draw(spec);
    EXPECT_NE(with, Draw(SpecWith({}, 1)));
    EXPECT_EQ(Draw(spec), with);
    EXPECT_EQ(Draw(SpecWith({}, kLong)), wanted);
  }

  static constexpr int kLong = 16;  // steps
  static constexpr int kMostTries = 20;

  pipeline::ControlNetFolder folder_;
  PoorDevice device_;
  std::unique_ptr<LocalEngine> engine_;
  PoorBackend* backend_ = nullptr;
};

TEST_F(AdapterMemoryTest, ManyFilesInTurnStayWithinABudget) {
  Load(SmallConfig());
  const int64_t alone = engine_->memory().on_device();
  engine_.reset();
  const std::string kohya = ReadFile(LoraFileOf("kohya"), size_t{1} << 20).value();
  for (int i = 0; i < kFiles; ++i) {
    ::latentd::testing::WriteFile(File(absl::StrCat("film", i)),
                                  WithAlphas(kohya, 1 + 0.01f * static_cast<float>(i)));
  }
  Config config = WithAdapters();
  config.memory_bytes = alone * 3;  // a few of the sets
  Load(config);
  std::vector<uint64_t> drawn;
  int64_t heap = 0;
  for (int i = 0; i < 2 * kFiles; ++i) {
    const uint64_t pixels = Draw(SpecWith({{absl::StrCat("film", i % kFiles)}}));
    ASSERT_THAT(engine_->memory().on_device(), Le(config.memory_bytes)) << i;
    if (i < kFiles) drawn.push_back(pixels);
    EXPECT_EQ(pixels, drawn[i % kFiles]) << i;
    if (i == kFiles - 1) heap = HeapBytes();
  }
  EXPECT_NE(drawn.front(), drawn.back());
  EXPECT_THAT(HeapBytes() - heap, Le(kHeapNoise));
}

TEST_F(AdapterMemoryTest, ManyLoadsAndEvictionsLeaveNothing) {
  Load(WithAdapters());
  const std::vector<std::string> names = {"kohya", "diffusers", "dora"};
  std::vector<uint64_t> wanted;
  for (const std::string& name : names) wanted.push_back(Draw(SpecWith({{name}})));
  int64_t heap = 0, weights = 0, resident = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      ASSERT_OK(engine_->adapters().Load(names[i]));
      EXPECT_EQ(Draw(SpecWith({{names[i]}})), wanted[i]);
    }
    Draw(SpecWith({}));  // the last request with one is over then
    for (const std::string& name : names) ASSERT_OK(engine_->adapters().Evict(name));
    if (round != kWarmRounds - 1) continue;
    heap = HeapBytes();
    resident = engine_->memory().resident_bytes;
    weights = engine_->memory().weight_bytes;
  }
  EXPECT_EQ(engine_->memory().weight_bytes, weights);
  EXPECT_THAT(HeapBytes() - heap, Le(kHeapNoise));
  // LoRAs are read into pages that are no heap.
  EXPECT_THAT(engine_->memory().resident_bytes - resident, Le(kResidentNoise));
}

TEST_F(AdapterMemoryTest, EvictionLeavesTheSetOfAnImageThatIsDrawn) {
  Load(WithAdapters());
  const std::vector<Adapter> kohya = {{"kohya", 0.8}};
  const uint64_t wanted = Draw(SpecWith(kohya, 4));
  Gate gate;
  gate.Close();
  const auto held = std::make_shared<WatchedSink>([&](const Event& event) {
    if (std::holds_alternative<Progress>(event)) gate.Pass();
  });
  ASSERT_OK(engine_->Submit(SpecWith(kohya, 4), held));
  gate.WaitForSomebody();
  EXPECT_EQ(GetReason(engine_->adapters().Evict("kohya")), "IN_USE");
  gate.Open();
  EXPECT_EQ(PixelsIn(held->WaitForEnd()), wanted);
  Draw(SpecWith({}));  // it is over then
  EXPECT_OK(engine_->adapters().Evict("kohya"));
}

TEST_F(AdapterMemoryTest, WithoutMemoryForItASetsRequestFailsAlone) {
  Load(WithAdapters());
  ExpectFailsAlone(SpecWith({{"kohya"}}), [&](bool poor) { backend_->refuses = poor; });
}

TEST_F(AdapterMemoryTest, WithoutMemoryForSlotsTheirRequestFailsAlone) {
  Config config = WithAdapters();
  config.adapter_slots = 5;
  config.adapter_ranks = 8;
  Load(config);
  ExpectFailsAlone(SpecWith({{"kohya"}}),
                   [&](bool poor) { device_.slots = poor ? config.adapter_slots : 0; });
}

TEST_F(AdapterMemoryTest, WithoutMemoryForANetItsRequestFailsAlone) {
  folder_.Add("edges", /*seed=*/1, /*gain=*/0.3f);
  Load(WithAdapters());
  GenerateSpec spec = SpecWith({});
  spec.picture.controls = {{.name = "edges", .scale = 1, .start = 0, .end = 1}};
  spec.inputs =
      std::make_shared<const pipeline::Inputs>(pipeline::Inputs{.control_images = {GreyImage()}});
  ExpectFailsAlone(spec, [&](bool poor) { backend_->refuses = poor; });
}

}  // namespace
}  // namespace latentd::engine
