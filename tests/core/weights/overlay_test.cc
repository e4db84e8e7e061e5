// Weight sets over others: what is laid over is found, named and noticed; all else is the base's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "core/base/errors/error_details.h"
#include "core/graph/graph_builder.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/core/weights/function_maker.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Value;
using testing::EditInPlace;
using testing::FilledTensor;
using ::testing::HasSubstr;
using testing::StatusIs;
using SetPointer = std::shared_ptr<const WeightSet>;

Graph Reads(const std::string& name) {
  GraphBuilder b;
  b.Output("result", b.Weight(name, {2, 2}));
  return *std::move(b).Build();
}

// A LoRA's change of a weight: w + scale * up * down.
Graph Merge(float scale) {
  GraphBuilder b;
  const Value w = b.Weight("w", {2, 2}), up = b.Weight("up", {2, 1}),
              down = b.Weight("down", {1, 2});
  b.Output("merged", b.Add(w, b.Mul(b.Matmul(up, down), b.Scalar(scale))));
  return *std::move(b).Build();
}

std::string BaseFile(float value) {
  return testing::SafetensorsBytes(
      {FilledTensor("a", {2, 2}, value), FilledTensor("b", {2, 2}, 2)});
}

std::string LoraFile(float value) {
  return testing::SafetensorsBytes(
      {FilledTensor("up", {2, 1}, value), FilledTensor("down", {1, 2}, 4)});
}

class OverlayTest : public ::testing::Test {
 protected:
  OverlayTest() {
    testing::WriteFile(base_path_, BaseFile(1));
    testing::WriteFile(lora_path_, LoraFile(3));
  }

  SetPointer Base() {
    auto set = std::make_shared<WeightSet>(&store_, "base");
    set->Add("unet", *ReadSafetensors(base_path_));
    return set;
  }

  SetPointer WithLora(const SetPointer& base, float scale) const {
    const TensorMap lora = *ReadSafetensors(lora_path_);
    const auto source = Compose(Merge(scale), {*base->Find("unet/a"), Source::Of(lora.at("up")),
                                               Source::Of(lora.at("down"))});
    EXPECT_OK(source);
    return WeightSet::Over(base, {{"unet/a", *source}}, "styled");
  }

  std::string KeyOf(const SetPointer& set, const std::string& name) const {
    return store_.NeedsOf(Reads(name), *set)->key;
  }

  testing::TemporaryDirectory directory_;
  const std::string base_path_ = directory_.File("base/model.safetensors"),
                    lora_path_ = directory_.File("lora.safetensors");
  FunctionMaker maker_{nullptr};
  WeightStore store_{maker_};
};

TEST_F(OverlayTest, StandsOverTheBaseAndLeavesTheRest) {
  const SetPointer base = Base(), styled = WithLora(base, 0.5f);
  EXPECT_EQ(styled->name(), "styled");
  EXPECT_EQ(&styled->store(), &store_);
  EXPECT_EQ(base->Find("unet/a")->from.size(), 1u);
  EXPECT_EQ(styled->Find("unet/a")->from.size(), 3u);
  EXPECT_EQ(styled->Find("unet/b")->from[0].data.data(), base->Find("unet/b")->from[0].data.data());
  EXPECT_OK(styled->Check(Reads("unet/a")));
  EXPECT_OK(styled->Check(Reads("unet/b")));
  EXPECT_THAT(styled->Find("unet/c"),
              StatusIs(absl::StatusCode::kNotFound,
                       "tensor unet/c is missing in " + directory_.File("base")));
  EXPECT_EQ(styled->Files().size(), 2u);
  EXPECT_EQ(base->Files().size(), 1u);
}

TEST_F(OverlayTest, TellsShapesOfBoth) {
  const absl::btree_map<std::string, device::Shape> shapes = {{"unet/a", {2, 2}},
                                                              {"unet/b", {2, 2}}};
  EXPECT_EQ(Base()->Shapes(), shapes);
  auto more = shapes;
  more["unet/a"] = {3};
  more["unet/c"] = {4, 1};
  const auto source = [](device::Shape shape) {
    return Source::Of({device::Buffer::Allocate(DType::kF32, std::move(shape)), "memory"});
  };
  EXPECT_EQ(
      WeightSet::Over(Base(), {{"unet/a", source({3})}, {"unet/c", source({4, 1})}})->Shapes(),
      more);
}

TEST_F(OverlayTest, StandsOverAnOverlay) {
  const SetPointer once = WithLora(Base(), 0.5f), twice = WithLora(once, 0.25f);
  ASSERT_OK_AND_ASSIGN(const Source source, twice->Find("unet/a"));
  EXPECT_EQ(source.make->Select(graph::Op::kMatmul).size(), 2u);
  EXPECT_EQ(twice->Find("unet/b")->make, nullptr);
}

TEST_F(OverlayTest, IsOtherContentThanTheBaseAndThanAnotherScale) {
  const SetPointer base = Base(), half = WithLora(base, 0.5f), same = WithLora(Base(), 0.5f),
                   quarter = WithLora(base, 0.25f);
  const Graph a = Reads("unet/a"), b = Reads("unet/b");
  EXPECT_EQ(*half->ContentDigest(a), *same->ContentDigest(a));
  EXPECT_NE(*half->ContentDigest(a), *base->ContentDigest(a));
  EXPECT_NE(*half->ContentDigest(a), *quarter->ContentDigest(a));
  EXPECT_EQ(*half->ContentDigest(b), *base->ContentDigest(b));
  EXPECT_EQ(KeyOf(half, "unet/a"), KeyOf(same, "unet/a"));
  EXPECT_NE(KeyOf(half, "unet/a"), KeyOf(base, "unet/a"));
  EXPECT_NE(KeyOf(half, "unet/a"), KeyOf(quarter, "unet/a"));
  EXPECT_EQ(KeyOf(half, "unet/b"), KeyOf(base, "unet/b"));
}

TEST_F(OverlayTest, IsOtherContentWhereEitherFileIs) {
  const auto digest = [&] { return *WithLora(Base(), 0.5f)->ContentDigest(Reads("unet/a")); };
  const Digest first = digest();
  testing::WriteFile(lora_path_, LoraFile(5));
  const Digest of_other_lora = digest();
  testing::WriteFile(base_path_, BaseFile(6));
  EXPECT_NE(of_other_lora, first);
  EXPECT_NE(digest(), of_other_lora);
}

TEST_F(OverlayTest, NoticesAnEditOfEitherFile) {
  for (const auto& [path, bytes] :
       {std::pair(base_path_, BaseFile(8)), std::pair(lora_path_, LoraFile(8))}) {
    const SetPointer styled = WithLora(Base(), 0.5f);
    ASSERT_OK(styled->Check(Reads("unet/a")));
    ASSERT_OK(styled->ContentDigest(Reads("unet/a")));
    EditInPlace(path, bytes);
    for (const absl::Status& status :
         {styled->Check(Reads("unet/a")), styled->ContentDigest(Reads("unet/a")).status(),
          store_.Get(Reads("unet/a"), *styled).status()}) {
      EXPECT_EQ(GetReason(status), kCheckpointChanged) << path << ": " << status;
    }
    EXPECT_EQ(store_.Get(Reads("unet/b"), *styled).ok(), path == lora_path_);
  }
}

TEST_F(OverlayTest, TakesTensorsThatAreInNoFile) {
  const SetPointer base = Base();
  const device::Buffer floats = device::Buffer::Allocate(DType::kF32, {2, 2});
  const SetPointer set =
      WeightSet::Over(base, {{"unet/a", Source::Of({floats, "memory"})}}, "zeros");
  EXPECT_NE(*set->ContentDigest(Reads("unet/a")), *base->ContentDigest(Reads("unet/a")));
  EXPECT_OK(store_.Get(Reads("unet/a"), *set));
}

TEST_F(OverlayTest, SaysThatAComponentHasNoTensors) {
  EXPECT_THAT(WithLora(Base(), 1)->Find("vae/a"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("its component has no tensors")));
}

}  // namespace
}  // namespace latentd::weights
