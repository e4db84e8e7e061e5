// The heap over memory of the test's: which addresses it gives, and which pieces it holds.
#include "core/device/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/alignment.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Block = std::shared_ptr<void>;

constexpr size_t kPiece = 8192;
constexpr size_t kBase = size_t{1} << 40;  // no memory is there: a heap must not touch it

// The memory that there is, in pieces.
class FakeMemory {
 public:
  explicit FakeMemory(size_t pieces) : count_(pieces) {}

  std::shared_ptr<Heap> MakeHeap() {
    return std::make_shared<Heap>(Pieces{reinterpret_cast<char*>(kBase), count_, kPiece,
                                         [this](size_t piece) { return Map(piece); },
                                         [this](size_t piece) { Unmap(piece); }});
  }

  const std::set<size_t>& mapped() const { return mapped_; }

  size_t left = SIZE_MAX;  // pieces that can be mapped yet
  bool throws = false;     // if none is left

 private:
  absl::Status Map(size_t piece) {
    EXPECT_LT(piece, count_);
    if (left == 0 && throws) throw std::bad_alloc();
    if (left == 0) return OutOfMemoryError("the test's memory");
    --left;
    EXPECT_TRUE(mapped_.insert(piece).second) << piece << " is mapped already";
    return absl::OkStatus();
  }
  void Unmap(size_t piece) {
    ++left;
    EXPECT_EQ(mapped_.erase(piece), 1u) << piece << " is not mapped";
  }

  const size_t count_;
  std::set<size_t> mapped_;
};

size_t OffsetOf(const Block& block) { return reinterpret_cast<size_t>(block.get()) - kBase; }

class HeapTest : public ::testing::Test {
 protected:
  Block Take(size_t bytes) {
    absl::StatusOr<Block> block = heap_->Take(bytes);
    EXPECT_OK(block);
    return block.ok() ? *std::move(block) : nullptr;
  }
  void ExpectNoMemoryFor(size_t bytes, const char* why) {
    const absl::StatusOr<Block> refused = CatchOutOfMemory([&] { return heap_->Take(bytes); });
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(why)));
    EXPECT_EQ(GetReason(refused.status()), "OUT_OF_MEMORY");
  }

  FakeMemory memory_{8};
  std::shared_ptr<Heap> heap_ = memory_.MakeHeap();
};

TEST_F(HeapTest, PacksBlocksOneBehindTheOther) {
  const Block a = Take(1), b = Take(513), c = Take(512), d = Take(0), e = Take(1);
  EXPECT_EQ(OffsetOf(a), 0u);
  EXPECT_EQ(OffsetOf(b), 512u);
  EXPECT_EQ(OffsetOf(c), 1536u);
  EXPECT_EQ(OffsetOf(d), 2048u);
  EXPECT_EQ(OffsetOf(e), 2560u);
  EXPECT_EQ(heap_->used_bytes(), 3072u);
}

TEST_F(HeapTest, HoldsThePiecesInWhichSomethingLies) {
  EXPECT_THAT(memory_.mapped(), IsEmpty());
  Block a = Take(kPiece - 512);
  EXPECT_THAT(memory_.mapped(), ElementsAre(0));
  Block b = Take(512);  // fills it
  EXPECT_THAT(memory_.mapped(), ElementsAre(0));
  Block c = Take(2 * kPiece + 512);
  EXPECT_THAT(memory_.mapped(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(heap_->mapped_bytes(), 4 * kPiece);
  a = nullptr;
  EXPECT_THAT(memory_.mapped(), ElementsAre(0, 1, 2, 3));
  b = nullptr;
  EXPECT_THAT(memory_.mapped(), ElementsAre(1, 2, 3));
  c = nullptr;
  EXPECT_THAT(memory_.mapped(), IsEmpty());
  EXPECT_EQ(heap_->mapped_bytes(), 0u);
  EXPECT_EQ(heap_->used_bytes(), 0u);
}

TEST_F(HeapTest, FillsTheLowestHoleThatIsLargeEnough) {
  const Block a = Take(512);
  Block hole = Take(512);
  const Block b = Take(512);
  Block larger = Take(2048);
  const Block c = Take(512);
  hole = nullptr;
  larger = nullptr;
  const Block first = Take(1024), second = Take(512), third = Take(1024), fourth = Take(512);
  EXPECT_EQ(OffsetOf(first), 1536u);
  EXPECT_EQ(OffsetOf(second), 512u);
  EXPECT_EQ(OffsetOf(third), 2560u);
  EXPECT_EQ(OffsetOf(fourth), OffsetOf(c) + 512);
}

// Blocks freed in any order make one hole with their neighbours.
TEST_F(HeapTest, HolesThatTouchAreOne) {
  std::vector<int> order = {0, 1, 2};
  do {
    Block blocks[] = {Take(512), Take(1024), Take(512)};
    const Block end = Take(512);
    for (const int i : order) blocks[i] = nullptr;
    EXPECT_EQ(OffsetOf(Take(2048)), 0u) << order[0] << order[1] << order[2];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(HeapTest, MapsAHoleWhosePiecesHaveLeft) {
  const Block a = Take(512);
  Block hole = Take(3 * kPiece);
  const Block b = Take(512);
  hole = nullptr;
  EXPECT_THAT(memory_.mapped(), ElementsAre(0, 3));
  const Block again = Take(2 * kPiece);
  EXPECT_EQ(OffsetOf(again), 512u);
  EXPECT_THAT(memory_.mapped(), ElementsAre(0, 1, 2, 3));
}

TEST_F(HeapTest, RefusesMoreThanTheRangeHas) {
  ExpectNoMemoryFor(8 * kPiece + 1, "no addresses");
  ExpectNoMemoryFor(SIZE_MAX, "no addresses");
  const Block a = Take(512);
  ExpectNoMemoryFor(8 * kPiece, "no addresses");
  EXPECT_THAT(memory_.mapped(), ElementsAre(0));
  const Block rest = Take(8 * kPiece - 512);
  ExpectNoMemoryFor(1, "no addresses");
}

TEST_F(HeapTest, WhatFailsHalfwayLeavesEverythingAsItWas) {
  const Block a = Take(512);
  memory_.left = 2;
  for (const bool throws : {false, true}) {
    memory_.throws = throws;
    ExpectNoMemoryFor(3 * kPiece, throws ? "out of memory" : "the test's memory");
    EXPECT_THAT(memory_.mapped(), ElementsAre(0));
    EXPECT_EQ(memory_.left, 2u);
    EXPECT_EQ(heap_->used_bytes(), 512u);
  }
  const Block fits = Take(2 * kPiece);
  EXPECT_EQ(OffsetOf(fits), 512u);
}

// The last one to go takes the heap with it.
TEST_F(HeapTest, BlocksOutliveWhoMadeIt) {
  Block a = Take(512), copy = a;
  heap_ = nullptr;
  a = nullptr;
  EXPECT_THAT(memory_.mapped(), ElementsAre(0));
  copy = nullptr;
  EXPECT_THAT(memory_.mapped(), IsEmpty());
}

// The expected contents of the heap, by units of 512 bytes.
class Model {
 public:
  explicit Model(size_t pieces) : taken_(pieces * kPiece / kHeapAlignment) {}

  // The place for so many units; the end if they do not fit.
  size_t FirstFit(size_t units) const {
    size_t free = 0;
    for (size_t at = 0; at < taken_.size(); ++at) {
      free = taken_[at] ? 0 : free + 1;
      if (free == units) return at + 1 - units;
    }
    return taken_.size();
  }
  void Set(size_t begin, size_t units, bool taken) {
    std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(begin), units, taken);
  }
  size_t size() const { return taken_.size(); }
  std::set<size_t> pieces() const {
    std::set<size_t> pieces;
    for (size_t at = 0; at < taken_.size(); ++at) {
      if (taken_[at]) pieces.insert(at * kHeapAlignment / kPiece);
    }
    return pieces;
  }

 private:
  std::vector<bool> taken_;
};

TEST(HeapRandomTest, DoesWhatAModelDoes) {
  constexpr size_t kPieces = 12;
  FakeMemory memory(kPieces);
  memory.left = kPieces - 3;  // less than the addresses
  const auto heap = memory.MakeHeap();
  Model model(kPieces);
  std::map<size_t, std::pair<size_t, Block>> taken;
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !taken.empty()) {
      auto leaving = std::next(taken.begin(), static_cast<int>(random() % taken.size()));
      model.Set(leaving->first, leaving->second.first, false);
      taken.erase(leaving);
    } else {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kPiece : kPiece / 4);
      const size_t units = RoundUp(bytes, kHeapAlignment) / kHeapAlignment;
      const size_t at = model.FirstFit(units);
      absl::StatusOr<Block> block = heap->Take(bytes);
      if (at < model.size()) model.Set(at, units, true);
      const bool fits = at < model.size() && model.pieces().size() <= kPieces - 3;
      ASSERT_EQ(block.ok(), fits) << "operation " << i;
      if (fits) {
        ASSERT_EQ(OffsetOf(*block), at * kHeapAlignment) << "operation " << i;
        taken[at] = {units, *std::move(block)};
      } else {
        ++refused;
        if (at < model.size()) model.Set(at, units, false);
      }
    }
    ASSERT_EQ(memory.mapped(), model.pieces()) << "operation " << i;
  }
  EXPECT_GT(refused, 100);
  taken.clear();
  EXPECT_THAT(memory.mapped(), IsEmpty());
}

TEST(HeapThreadsTest, MayTakeAndLeaveAtOneTime) {
  FakeMemory memory(64);
  const auto heap = memory.MakeHeap();
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Block> mine(8);
      for (int i = 0; i < 2000; ++i) {
        absl::StatusOr<Block> block = heap->Take(1 + random() % kPiece);
        EXPECT_OK(block);
        if (block.ok()) mine[random() % mine.size()] = *std::move(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(memory.mapped(), IsEmpty());
  EXPECT_EQ(heap->used_bytes(), 0u);
}

}  // namespace
}  // namespace latentd::device
