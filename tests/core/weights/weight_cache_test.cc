// Results of recipes that survive the store that made them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/files.h"
#include "core/graph/graph_builder.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/core/weights/function_maker.h"
#include "tests/support/on_host.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::DType;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FilledTensor;

// A disk cache in memory.
struct FakeArchive {
  std::map<std::string, device::ConstBuffer> kept;
  std::vector<device::Place> places;  // places of the buffers to keep
  int found = 0, asked = 0;

  WeightCache Functions(size_t least_bytes = 0) {
    return {[this](absl::string_view key) -> std::optional<device::ConstBuffer> {
              ++asked;
              const auto entry = kept.find(std::string(key));
              if (entry == kept.end()) return std::nullopt;
              ++found;
              return entry->second;
            },
            [this](absl::string_view key, const device::ConstBuffer& bytes) {
              Buffer copy = Buffer::Allocate(DType::kU8, {static_cast<int64_t>(bytes.bytes())});
              std::memcpy(copy.data(), bytes.data(), bytes.bytes());
              kept[std::string(key)] = copy;
              places.push_back(bytes.place());
            },
            least_bytes};
  }
};

graph::Graph Twice(const std::string& name, int64_t size) {
  graph::GraphBuilder builder;
  const graph::Value weight = builder.Weight(name, {size});
  builder.Output("result", builder.Concat({weight, weight}, 0));
  return *std::move(builder).Build();
}

graph::Graph Bare(const std::string& name, int64_t size) {
  graph::GraphBuilder builder;
  builder.Output("result", builder.Weight(name, {size}));
  return *std::move(builder).Build();
}

class WeightCacheTest : public ::testing::Test {
 protected:
  WeightCacheTest() {
    for (const char* form : {"negated", "negated on another machine"}) {
      maker_.packers[form] = [this](const device::ConstBuffer& plain) { return Negate(plain); };
    }
  }

  WeightSet SetFromFile(WeightStore& store, float value, int64_t size = 4) {
    const std::string path = directory_.File(absl::StrCat(files_++, ".safetensors"));
    testing::WriteSafetensors(path, {FilledTensor("a", {size}, value)});
    WeightSet set(&store);
    set.Add("c", *ReadSafetensors(path));
    return set;
  }

  // A store as after a restart: it has the archive and nothing else.
  WeightStore NewStore(size_t least_bytes = 0) {
    return WeightStore(maker_, archive_.Functions(least_bytes));
  }

  static absl::StatusOr<Buffer> Doubled(const graph::Graph&,
                                        absl::Span<const device::ConstBuffer> sources) {
    Buffer twice = Buffer::Allocate(DType::kF32, {2 * sources[0].elements()});
    std::memcpy(twice.data(), sources[0].data(), sources[0].bytes());
    std::memcpy(static_cast<char*>(twice.data()) + sources[0].bytes(), sources[0].data(),
                sources[0].bytes());
    return twice;
  }

  absl::StatusOr<Buffer> Negate(const device::ConstBuffer& plain) {
    ++packs_;
    Buffer packed = Buffer::Allocate(DType::kF32, plain.shape());
    for (int64_t i = 0; i < plain.elements(); ++i) packed.as<float>()[i] = -plain.as<float>()[i];
    return packed;
  }

  static WeightFormat Negated(size_t bytes) { return {"negated", bytes}; }

  static float FirstOf(const WeightRef& held) { return *static_cast<const float*>(held->data()); }

  testing::TemporaryDirectory directory_;
  int files_ = 0, packs_ = 0;
  FakeArchive archive_;
  FunctionMaker maker_{Doubled};
};

TEST_F(WeightCacheTest, GivesTheNextStoreWhatWasMadeWithoutMakingOrCopyingIt) {
  {
    WeightStore store = NewStore();
    const WeightSet set = SetFromFile(store, 7);
    ASSERT_OK_AND_ASSIGN(const WeightRef made, store.Get(Twice("c/a", 4), set, Negated(32)));
    EXPECT_EQ(FirstOf(made), -7);
    EXPECT_EQ(store.mapped_bytes(), 0u);
  }
  WeightStore store = NewStore();
  const WeightSet set = SetFromFile(store, 7);
  ASSERT_OK_AND_ASSIGN(const WeightRef found, store.Get(Twice("c/a", 4), set, Negated(32)));
  EXPECT_EQ(FirstOf(found), -7);
  EXPECT_EQ(found->bytes(), 32u);
  ASSERT_EQ(archive_.kept.size(), 1u);
  EXPECT_EQ(found->data(), archive_.kept.begin()->second.data());
  EXPECT_EQ(store.mapped_bytes(), 32u);
  EXPECT_EQ(store.bytes_held(), 32u);
  EXPECT_EQ(maker_.evaluations, 1);
  EXPECT_EQ(packs_, 1);
}

TEST_F(WeightCacheTest, KeepsPlainResultsToo) {
  for (int start = 0; start < 2; ++start) {
    WeightStore store = NewStore();
    const WeightSet set = SetFromFile(store, 7);
    ASSERT_OK_AND_ASSIGN(const WeightRef held, store.Get(Twice("c/a", 4), set));
    EXPECT_EQ(held->shape(), device::Shape({8}));
    EXPECT_THAT(testing::OnHost(*held).as<float>(), Each(7));
  }
  EXPECT_EQ(maker_.evaluations, 1);
}

TEST_F(WeightCacheTest, NeverGivesAnotherContentFormOrRecipe) {
  WeightStore store = NewStore();
  const WeightSet seven = SetFromFile(store, 7), eight = SetFromFile(store, 8);
  WeightFormat again = Negated(32);
  again.form = "negated on another machine";
  EXPECT_OK(store.Get(Twice("c/a", 4), seven, Negated(32)));
  EXPECT_OK(store.Get(Twice("c/a", 4), eight, Negated(32)));
  EXPECT_OK(store.Get(Twice("c/a", 4), seven, again));
  EXPECT_OK(store.Get(Twice("c/a", 4), seven));
  EXPECT_OK(store.Get(Bare("c/a", 4), seven, Negated(16)));
  EXPECT_EQ(archive_.found, 0);
  EXPECT_EQ(archive_.kept.size(), 5u);
}

TEST_F(WeightCacheTest, NeverGivesWhatAnotherBuildMade) {
  WeightCache old = archive_.Functions(), today = archive_.Functions();
  old.version = "old";
  today.version = "today";
  for (const WeightCache& archive : {old, today}) {
    WeightStore store(maker_, archive);
    const WeightSet set = SetFromFile(store, 7);
    EXPECT_OK(store.Get(Bare("c/a", 4), set, Negated(16)));
  }
  EXPECT_EQ(archive_.found, 0);
  EXPECT_EQ(archive_.kept.size(), 2u);
}

TEST_F(WeightCacheTest, MakesAnewWhatWasKeptInAnotherSizeOrOutOfLine) {
  WeightStore first = NewStore();
  const WeightSet set = SetFromFile(first, 7);
  EXPECT_OK(first.Get(Twice("c/a", 4), set, Negated(32)));
  const std::string key = archive_.kept.begin()->first;
  const Buffer large = Buffer::Allocate(DType::kU8, {128});
  for (const Buffer& wrong : {large.Rows(0, 31), large.Rows(0, 33), large.Rows(4, 36)}) {
    archive_.kept[key] = wrong;
    WeightStore store = NewStore();
    ASSERT_OK_AND_ASSIGN(const WeightRef made, store.Get(Twice("c/a", 4), set, Negated(32)));
    EXPECT_EQ(FirstOf(made), -7);
    EXPECT_EQ(store.mapped_bytes(), 0u);
    EXPECT_EQ(archive_.kept[key].bytes(), 32u) << "was not kept again";
  }
}

TEST_F(WeightCacheTest, LeavesOutSmallResultsAndTensorsAsTheyAre) {
  WeightStore store = NewStore(/*least_bytes=*/33);
  const WeightSet set = SetFromFile(store, 7), large = SetFromFile(store, 7, /*size=*/64);
  EXPECT_OK(store.Get(Twice("c/a", 4), set, Negated(32)));
  EXPECT_OK(store.Get(Bare("c/a", 64), large));
  EXPECT_EQ(archive_.asked, 0);
  EXPECT_EQ(archive_.kept.size(), 0u);
}

TEST_F(WeightCacheTest, KeepsNothingOfAFailure) {
  WeightStore store = NewStore();
  const WeightSet set = SetFromFile(store, 7);
  EXPECT_FALSE(store.Get(Twice("c/a", 4), set, Negated(31)).ok());
  EXPECT_EQ(archive_.kept.size(), 0u);
}

class PackingDevice : public device::HostDevice {
 public:
  absl::StatusOr<Buffer> AllocatePacked(DType dtype, device::Shape shape) override {
    ++packed;
    return HostDevice::AllocatePacked(dtype, std::move(shape));
  }

  int packed = 0;
};

// Weights in a file are no memory of any other device than the host.
TEST_F(WeightCacheTest, CopiesWhatWasKeptIntoTheMemoryOfAnotherDevice) {
  PackingDevice other;
  FunctionMaker maker(Doubled, other);
  for (int start = 0; start < 2; ++start) {
    WeightStore store(maker, archive_.Functions());
    const WeightSet set = SetFromFile(store, 7);
    ASSERT_OK_AND_ASSIGN(const WeightRef held, store.Get(Twice("c/a", 4), set));
    EXPECT_EQ(held->place(), device::Place::kDevice);
    EXPECT_THAT(testing::OnHost(*held).as<float>(), Each(7));
    EXPECT_EQ(store.mapped_bytes(), 0u);
    EXPECT_EQ(other.packed, start + 1);
  }
  EXPECT_EQ(maker.evaluations, 1);
  ASSERT_EQ(archive_.kept.size(), 1u);
  EXPECT_EQ(archive_.places, std::vector{device::Place::kHost});
}

// True if the page at an address is in the process's memory; nullopt: the kernel does not say.
std::optional<bool> IsPresent(const void* address) {
  const FileDescriptor map(open("/proc/self/pagemap", O_RDONLY));
  uint64_t entry = 0;
  const auto page = reinterpret_cast<uintptr_t>(address) / static_cast<uintptr_t>(getpagesize());
  if (pread(map.get(), &entry, sizeof(entry), static_cast<off_t>(page * sizeof(entry))) !=
      sizeof(entry)) {
    return std::nullopt;
  }
  return (entry >> 63) != 0;
}

TEST_F(WeightCacheTest, StopsKeepingWhatIsOnAnotherDevice) {
  PackingDevice other;
  FunctionMaker maker(Doubled, other);
  WeightStore store(maker, archive_.Functions());
  store.StopKeeping();
  const WeightSet set = SetFromFile(store, 7);
  ASSERT_OK(store.Get(Twice("c/a", 4), set));
  EXPECT_TRUE(archive_.kept.empty());
}

TEST_F(WeightCacheTest, KeepsOnWhatIsOnTheHost) {
  WeightStore store(maker_, archive_.Functions());
  store.StopKeeping();
  const WeightSet set = SetFromFile(store, 7);
  ASSERT_OK(store.Get(Twice("c/a", 4), set));
  EXPECT_EQ(archive_.kept.size(), 1u);
}

TEST_F(WeightCacheTest, TakesATensorsPagesOutOfMemoryOnceItIsPacked) {
  constexpr int64_t kSize = 64 << 10;
  WeightStore store = NewStore();
  const WeightSet set = SetFromFile(store, 7, kSize);
  const device::ConstBuffer tensor = set.Find("c/a")->from[0].data;
  const char* middle = static_cast<const char*>(tensor.data()) + tensor.bytes() / 2;
  EXPECT_EQ(tensor.as<float>()[kSize / 2], 7);
  if (!IsPresent(middle)) GTEST_SKIP() << "the kernel does not say which pages are present";
  EXPECT_EQ(IsPresent(middle), true);
  EXPECT_OK(store.Get(Bare("c/a", kSize), set, Negated(4 * kSize)));
  EXPECT_EQ(IsPresent(middle), false);
  EXPECT_THAT(tensor.as<float>(), Each(7));
}

TEST_F(WeightCacheTest, LeavesTensorsAloneThatAreInNoFile) {
  constexpr int64_t kSize = 64 << 10;
  WeightStore store = NewStore();
  const Buffer sevens = Buffer::Allocate(DType::kF32, {kSize});
  for (float& x : sevens.as<float>()) x = 7;
  const StoredTensor tensor = {sevens, "memory"};
  WeightSet set(&store);
  set.Add("c", {{"a", tensor}});
  EXPECT_OK(store.Get(Bare("c/a", kSize), set, Negated(4 * kSize)));
  EXPECT_THAT(tensor.data.as<float>(), Each(7));
  ASSERT_OK_AND_ASSIGN(const WeightRef bare, store.Get(Bare("c/a", kSize), set));
  EXPECT_EQ(store.mapped_bytes(), 0u);
}

}  // namespace
}  // namespace latentd::weights
