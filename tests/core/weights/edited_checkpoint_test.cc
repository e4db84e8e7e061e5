// Files that are edited while they are open: the weight store makes nothing of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "core/base/errors/error_details.h"
#include "core/graph/graph_builder.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/core/weights/function_maker.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/on_host.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::DType;
using ::testing::Each;
using testing::EditInPlace;
using testing::FilledTensor;
using testing::UntilItShows;

constexpr int64_t kSize = 64;

std::string FileOf(float value) {
  return testing::SafetensorsBytes(
      {FilledTensor("a", {kSize}, value), FilledTensor("b", {kSize}, value)});
}

graph::Graph Bare(const std::string& name) {
  graph::GraphBuilder builder;
  builder.Output("result", builder.Weight(name, {kSize}));
  return *std::move(builder).Build();
}

absl::StatusOr<Buffer> Negate(const device::ConstBuffer& plain) {
  Buffer packed = Buffer::Allocate(DType::kF32, plain.shape());
  for (int64_t i = 0; i < plain.elements(); ++i) packed.as<float>()[i] = -plain.as<float>()[i];
  return packed;
}

// Packed results are bytes.
std::vector<float> Floats(const WeightRef& held) {
  std::vector<float> floats(kSize);
  std::memcpy(floats.data(), testing::OnHost(*held).data(), held->bytes());
  return floats;
}

const WeightFormat kNegated = {"negated", 4 * kSize};

class EditedCheckpointTest : public ::testing::Test {
 protected:
  EditedCheckpointTest() {
    testing::WriteFile(path_, FileOf(7));
    maker_.packers["negated"] = Negate;
  }

  WeightSet Open(const DigestArchive& digests = {}) {
    WeightSet set(&store_, "base");
    set.Add("c", *ReadSafetensors(path_, digests));
    return set;
  }

  static void ExpectRefused(const absl::StatusOr<WeightRef>& held) {
    EXPECT_EQ(held.status().code(), absl::StatusCode::kFailedPrecondition) << held.status();
    EXPECT_EQ(GetReason(held.status()), kCheckpointChanged);
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("model.safetensors");
  std::map<std::string, std::string> kept_;
  FunctionMaker maker_{nullptr};
  WeightStore store_{
      maker_,
      {.find = [](absl::string_view) { return std::nullopt; },
       .keep =
           [this](absl::string_view key, const device::ConstBuffer& bytes) {
             kept_[std::string(key)] = {static_cast<const char*>(bytes.data()), bytes.bytes()};
           },
       .least_bytes = 0}};
};

TEST_F(EditedCheckpointTest, NothingIsMadeOrKeptOfNewBytes) {
  const WeightSet set = Open();
  const std::string name = store_.NeedsOf(Bare("c/a"), set, kNegated)->key;  // name of the old ones
  EditInPlace(path_, FileOf(8));
  ExpectRefused(store_.Get(Bare("c/a"), set, kNegated));
  ExpectRefused(store_.Get(Bare("c/a"), set));
  EXPECT_EQ(store_.NeedsOf(Bare("c/a"), set, kNegated)->key, name);
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(store_.entries(), 0u);
}

TEST_F(EditedCheckpointTest, NothingIsKeptThatWasEditedWhileItWasPacked) {
  const WeightSet set = Open();
  maker_.packers["negated"] = [&](const device::ConstBuffer& plain) {
    EditInPlace(path_, FileOf(8));
    return Negate(plain);
  };
  ExpectRefused(store_.Get(Bare("c/a"), set, kNegated));
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(store_.entries(), 0u);
}

TEST_F(EditedCheckpointTest, WhatIsHeldStaysAsItWasAndIsGivenToNobodyElse) {
  const WeightSet set = Open();
  ASSERT_OK_AND_ASSIGN(const WeightRef plain, store_.Get(Bare("c/a"), set));
  ASSERT_OK_AND_ASSIGN(const WeightRef packed, store_.Get(Bare("c/a"), set, kNegated));
  EditInPlace(path_, FileOf(8));
  EXPECT_THAT(Floats(plain), Each(7));
  EXPECT_THAT(Floats(packed), Each(-7));
  ExpectRefused(store_.Get(Bare("c/a"), set));
  ExpectRefused(store_.Get(Bare("c/b"), set));
}

TEST_F(EditedCheckpointTest, ASetThatOpensItAnewGetsTheNewBytes) {
  const WeightSet old = Open();
  ASSERT_OK_AND_ASSIGN(const WeightRef before, store_.Get(Bare("c/a"), old, kNegated));
  EditInPlace(path_, FileOf(8));
  const WeightSet now = Open();
  ASSERT_OK_AND_ASSIGN(const WeightRef after, store_.Get(Bare("c/a"), now, kNegated));
  EXPECT_THAT(Floats(before), Each(-7));
  EXPECT_THAT(Floats(after), Each(-8));
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(EditedCheckpointTest, BytesThatTheirDigestDoesNotNameAreNotKept) {
  const std::string stale(2 * 16, 'x');  // for two tensors
  const WeightSet set = Open({.find = [&](absl::string_view) { return stale; }, .keep = {}});
  ExpectRefused(store_.Get(Bare("c/a"), set, kNegated));
  EXPECT_TRUE(kept_.empty());
}

TEST_F(EditedCheckpointTest, ContentDigestAndCheckSayItToo) {
  const WeightSet set = Open();
  const graph::Graph graph = Bare("c/a");
  ASSERT_OK(set.ContentDigest(graph));
  ASSERT_OK(set.Check(graph));
  EXPECT_EQ(set.Files().size(), 1u);
  EditInPlace(path_, FileOf(8));
  EXPECT_EQ(GetReason(set.ContentDigest(graph).status()), kCheckpointChanged);
  EXPECT_EQ(GetReason(set.Check(graph)), kCheckpointChanged);
}

TEST_F(EditedCheckpointTest, AnotherModeIsNoEdit) {
  const WeightSet set = Open();
  ASSERT_OK(store_.Get(Bare("c/a"), set, kNegated));
  UntilItShows(path_, [&] { ASSERT_EQ(chmod(path_.c_str(), 0600), 0); });
  EXPECT_OK(store_.Get(Bare("c/b"), set, kNegated));
}

}  // namespace
}  // namespace latentd::weights
