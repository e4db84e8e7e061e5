// Steps that two devices share: the parts of a step's graph, and pictures on two of the tests' own
// devices, which have memory of their own and work as late as they may.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/image/encode.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/separate_device.h"

namespace latentd::pipeline {
namespace {

using backends::NamedBuffers;
using device::Buffer;
using device::DType;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::Pointwise;
using testing::SeparateDevice;

// One thread each, so that two devices do not get in each other's way.
std::unique_ptr<backends::Backend> OneThreadOn(device::HostDevice& device) {
  return backends::cpu::CpuBackend::Create({.threads = 1, .device = &device}).value();
}

LoadOptions SplitDemo() {
  LoadOptions options = Demo();
  options.split = true;
  return options;
}

// Names of inputs and outputs with memory of the host, of this many rows.
NamedBuffers PortsOf(const backends::Executable& executable) {
  NamedBuffers ports;
  for (const auto* all : {&executable.inputs(), &executable.outputs()}) {
    for (const backends::Port& port : *all) {
      if (!ports.contains(port.name)) ports[port.name] = Buffer::Allocate(port.dtype, port.shape);
    }
  }
  return ports;
}

void Run(const ExecutablePointer& executable, const NamedBuffers& ports) {
  auto bound = backends::BoundGraph::Create(executable, ports).value();
  const auto stream = device::Host().NewStream(SystemClock()).value();
  EXPECT_OK(bound.Enqueue(*stream));
  EXPECT_OK(stream->Synchronize());
}

NamedBuffers RowOf(const NamedBuffers& ports, int row) {
  NamedBuffers one;
  for (const auto& [name, memory] : ports) one[name] = memory.Rows(row, row + 1);
  return one;
}

// Numbers that differ from row to row, small enough for any network.
void Fill(const Buffer& memory, float scale) {
  if (memory.dtype() == DType::kF32) {
    auto values = memory.as<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * static_cast<float>(static_cast<int>(i * 7919 % 1013) - 506) / 506;
    }
  } else if (memory.dtype() == DType::kBF16) {
    auto values = memory.as<uint16_t>();  // from 2^-4 to 2^-2, of both signs
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<uint16_t>(0x3d80 + i * 7919 % 0x100 + i % 2 * 0x8000);
    }
  }
}

struct Outcome {
  std::vector<float> state;
  std::vector<int64_t> step;
  std::vector<uint8_t> finite;
  std::vector<float> contrast;
};

// A step of two rows of one picture, as one graph and as a network of one row twice and an advance.
struct Parts {
  Outcome whole, parts;
};

Parts RunBoth(const Rig& rig) {
  ModelGraphs& graphs = rig.pipeline->first().graphs();
  const auto get = [&](GraphKind kind, int rows) {
    rig.kept.push_back(graphs.Find({kind, {rows, /*height=*/9, /*width=*/8}}).value());
    return graphs.Get(rig.kept.back()).value();
  };
  const ExecutablePointer step = get(GraphKind::kStep, 2);
  const auto filled = [&] {
    NamedBuffers ports = PortsOf(*step);
    for (const auto& [name, memory] : ports) Fill(memory, name == "state" ? 2 : 0.5F);
    ports["guidance_scale"].as<float>()[0] = ports["guidance_scale"].as<float>()[1] = 5;
    ports["guidance_rescale"].as<float>()[0] = ports["guidance_rescale"].as<float>()[1] = 0.25F;
    ports["text_rows"].as<int64_t>()[0] = ports["text_rows"].as<int64_t>()[1] = 1;
    ports["step"].as<int64_t>()[0] = ports["step"].as<int64_t>()[1] = 3;
    return ports;
  };
  const auto outcome = [](const NamedBuffers& ports) {
    const auto state = ports.at("state").as<float>();
    const auto at = ports.at("step").as<int64_t>();
    const auto finite = ports.at("finite").as<uint8_t>();
    const auto contrast = ports.at("contrast").as<float>();
    return Outcome{{state.begin(), state.end()},
                   {at.begin(), at.end()},
                   {finite.begin(), finite.end()},
                   {contrast.begin(), contrast.end()}};
  };
  NamedBuffers whole = filled(), parts = filled();
  Run(step, whole);
  const ExecutablePointer network = get(GraphKind::kNetwork, 1);
  const ExecutablePointer advance = get(GraphKind::kAdvance, 2);
  for (const auto& [name, memory] : PortsOf(*advance)) parts.try_emplace(name, memory);
  for (int row : {1, 0}) Run(network, RowOf(parts, row));
  Run(advance, parts);
  return {outcome(whole), outcome(parts)};
}

TEST(StepPartsTest, ComputeTheBytesOfTheStep) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    LoadOptions options = {.base = testing::kDemoBase};
    options.precision = {{"unet_base", dtype}};
    const Parts both = RunBoth(Rig(options, "", OneThreadOn(device::Host())));
    EXPECT_EQ(both.parts.state, both.whole.state) << device::Name(dtype);
    EXPECT_THAT(both.parts.step, ElementsAre(4, 4));
    EXPECT_THAT(both.parts.finite, ElementsAre(1, 1));
    EXPECT_EQ(both.parts.contrast, both.whole.contrast) << device::Name(dtype);
    EXPECT_THAT(both.parts.contrast, Each(Gt(0)));
  }
}

// The oracle computes rows together or one by one, and rounds as it likes.
TEST(StepPartsTest, ComputeWhatTheStepDoesByTheReferenceBackend) {
  const Parts both = RunBoth(Rig({.base = testing::kDemoBase}));
  EXPECT_THAT(both.parts.state, Pointwise(::testing::FloatNear(1e-4), both.whole.state));
  EXPECT_THAT(both.parts.step, ElementsAreArray(both.whole.step));
}

// A picture's way over two devices.
class SplitStepsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { suite_ = std::make_unique<Suite>(); }
  static void TearDownTestSuite() { suite_.reset(); }

  struct Drawn {
    image::Image pixels;
    int stopped_after = 0;
    int split = 0;      // steps that were
    int64_t bytes = 0;  // the helper's, at most
  };

  // The request's first picture, on a device of which another one helps with steps that are
  // `wanted`, by their numbers.
  Drawn Draw(const Asked& spec, const std::function<bool(size_t step)>& wanted,
             const Lanes::AskRoom& ask_room = {}) {
    const auto picture = suite_->here.Start(spec), other = suite_->there.Start(spec);
    if (ready_) picture->AddHelper(kHelper, *other);
    const auto stream = suite_->devices[0].NewStream(SystemClock()).value();
    const auto helps = suite_->devices[1].NewStream(SystemClock()).value();
    const StepHelper helper = {kHelper, *helps, ask_room};
    Lanes lanes;
    Drawn drawn;
    std::deque<PendingUnit> pending;
    size_t step = 0;
    while (picture->next != UnitKind::kDone) {
      if (picture->next != UnitKind::kWait) {
        const bool is_step = picture->next == UnitKind::kStep;
        const bool splits = is_step && wanted(step) && picture->helpers() != 0;
        step += is_step ? 1 : 0;
        pending.push_back(
            EnqueueUnit({picture.get()}, lanes, *stream, splits ? &helper : nullptr).value());
        EXPECT_OK(pending.back().parts[0].status);
        EXPECT_FALSE(pending.back().done->Reached());
        drawn.split += pending.back().is_split ? 1 : 0;
        drawn.bytes = std::max<int64_t>(drawn.bytes, *helper.held);
      }
      if (pending.size() < 2 && picture->next != UnitKind::kWait) continue;
      EXPECT_OK(CompleteUnit(pending.front(), *picture, pending.front().parts[0]));
      pending.pop_front();
    }
    pending.clear();
    EXPECT_EQ(*helper.held, 0);
    drawn.pixels = picture->pixels;
    drawn.stopped_after = picture->guidance_stopped_after();
    return drawn;
  }

  // The picture that the host draws at once.
  image::Image Expected(const Asked& spec) const { return suite_->host.Finish(spec)->pixels; }

  static constexpr int kHelper = 1;
  struct Suite {
    Suite() {
      EXPECT_OK(devices[0].Meet(devices[1]));
      EXPECT_OK(devices[1].Meet(devices[0]));
      for (Rig* rig : {&here, &there}) {
        const auto graphs = rig->pipeline->SplitStepsOf({}, {64, 72}).value();
        for (const GraphHandle& graph : graphs) {
          EXPECT_OK(rig->graphs.Get(graph));
          rig->kept.push_back(graph);
        }
      }
    }
    SeparateDevice devices[2];
    Rig host{Demo(), "", OneThreadOn(device::Host())};
    Rig here{SplitDemo(), "", OneThreadOn(devices[0])},
        there{SplitDemo(), "", OneThreadOn(devices[1])};
  };
  static inline std::unique_ptr<Suite> suite_;
  bool ready_ = true;  // the other device's graphs are
};

PictureSpec Steps(int count) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = count;
  return spec;
}

TEST_F(SplitStepsTest, DrawsTheSamePicture) {
  PictureSpec spec = Steps(5);
  spec.guidance_rescale = 0.5;
  const Drawn drawn = Draw(spec, [](size_t) { return true; });
  EXPECT_EQ(drawn.pixels, Expected(spec));
  EXPECT_EQ(drawn.split, 5);
  EXPECT_GT(drawn.bytes, 0);
}

// Rows that come back, and go again: what does not change is on the helper still.
TEST_F(SplitStepsTest, DrawsTheSamePictureWhereSomeStepsAreSplit) {
  PictureSpec spec = Steps(8);
  spec.scheduler.name = "euler_ancestral";  // noise of each step
  const Drawn drawn = Draw(spec, [](size_t step) { return step % 3 != 1; });
  EXPECT_EQ(drawn.pixels, Expected(spec));
  EXPECT_EQ(drawn.split, 5);
}

// Two networks, each with a lane and helper's memory of its own, and schedulers with a history.
TEST_F(SplitStepsTest, DrawsTheSamePictureWithTheRefiner) {
  PictureSpec spec = Steps(10);
  spec.refine = true;
  spec.scheduler.name = "dpmpp_2m";
  const Drawn drawn = Draw(spec, [](size_t step) { return step != 2; });
  EXPECT_EQ(drawn.pixels, Expected(spec));
  EXPECT_EQ(drawn.split, 9);
}

TEST_F(SplitStepsTest, SplitsNoStepOfOneRow) {
  PictureSpec spec = Steps(8);
  spec.guidance_interval = GuidanceInterval{0.25, 0.75};
  const Drawn drawn = Draw(spec, [](size_t) { return true; });
  EXPECT_EQ(drawn.pixels, Expected(spec));
  EXPECT_EQ(drawn.split, 4);
}

// Decided by numbers that the steps give, which are the same.
TEST_F(SplitStepsTest, StopsGuidanceWhereItStopsUnsplit) {
  PictureSpec spec = Steps(9);
  spec.guidance_scale = 1.1;
  spec.guidance_stop = GuidanceStop::kAuto;
  const auto expected = suite_->host.Finish(spec);
  const int stopped_after = expected->guidance_stopped_after();
  ASSERT_GT(stopped_after, 2);
  ASSERT_LT(stopped_after, 9);
  for (const bool all : {true, false}) {
    const Drawn drawn = Draw(spec, [&](size_t step) { return all || step % 2 == 0; });
    EXPECT_EQ(drawn.pixels, expected->pixels);
    EXPECT_EQ(drawn.stopped_after, stopped_after);
    EXPECT_EQ(drawn.split, all ? stopped_after : (stopped_after + 1) / 2);
  }
}

// After each step the image is put back where the mask keeps it: the helper's row reads that.
TEST_F(SplitStepsTest, DrawsTheSamePictureOverAMask) {
  image::Image mask{64, 72, {}};
  for (int i = 0; i < 64 * 72; ++i) mask.rgb.insert(mask.rgb.end(), 3, i % 64 < 32 ? 0 : 255);
  image::Image image{64, 72, {}};
  for (int i = 0; i < 64 * 72; ++i) {
    image.rgb.insert(image.rgb.end(), {static_cast<uint8_t>(i % 64 * 4), 90, 30});
  }
  Asked asked = Steps(6);
  asked.strength = 0.7;
  asked.inputs.image = image::Encode(image, {}).value();
  asked.inputs.mask_image = image::Encode(mask, {}).value();
  const Drawn drawn = Draw(asked, [](size_t step) { return step != 1; });
  EXPECT_EQ(drawn.pixels, Expected(asked));
  EXPECT_EQ(drawn.split, 3);
}

TEST_F(SplitStepsTest, DrawsWithoutAHelperThatHasNoGraphs) {
  ready_ = false;
  const PictureSpec spec = Steps(2);
  EXPECT_EQ(Draw(spec, [](size_t) { return true; }).split, 0);
}

// A device makes room for others, also where it may help.
TEST_F(SplitStepsTest, HoldsNoNetworkOfADeviceThatMayHelp) {
  const Asked spec = Steps(2);
  const auto picture = suite_->here.Start(spec), other = suite_->there.Start(spec);
  const ExecutablePointer& network = other->stage().network;
  ASSERT_NE(network, nullptr);
  const auto users = network.use_count();
  picture->AddHelper(kHelper, *other);
  EXPECT_EQ(picture->NetworkOn(kHelper), network);
  EXPECT_EQ(network.use_count(), users);
}

// It is asked once: that takes a while.
TEST_F(SplitStepsTest, DrawsTheSamePictureWithAHelperThatHasNoRoom) {
  const PictureSpec spec = Steps(4);
  int asked = 0;
  const Drawn drawn = Draw(
      spec, [](size_t) { return true; },
      [&](const LaneMemory& memory) {
        ++asked;
        EXPECT_GT(memory.bytes, 0);
        EXPECT_FALSE(memory.is_least);  // nothing leaves for it
        return absl::ResourceExhaustedError("none");
      });
  EXPECT_EQ(drawn.pixels, Expected(spec));
  EXPECT_EQ(drawn.split, 0);
  EXPECT_EQ(asked, 1);
}

TEST_F(SplitStepsTest, PlansNoSplitOfStepsThatReadMore) {
  const auto splits = [](const PictureSpec& spec) {
    return suite_->here.Resolve(spec).value()->may_split();
  };
  PictureSpec spec = SmallSpec();
  EXPECT_TRUE(splits(spec));
  spec.guidance_scale = 1;
  EXPECT_FALSE(splits(spec));
  EXPECT_FALSE(suite_->host.Resolve(SmallSpec()).value()->may_split());
}

}  // namespace
}  // namespace latentd::pipeline
