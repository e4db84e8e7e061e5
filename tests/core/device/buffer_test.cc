#include "core/device/buffer.h"

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(BufferTest, AFreshBufferHasNoMemoryAndNoElements) {
  const Buffer buffer;
  EXPECT_FALSE(buffer.has_memory());
  EXPECT_EQ(buffer.elements(), 0);
  EXPECT_EQ(buffer.bytes(), 0u);
}

TEST(BufferTest, AllocatedMemoryIsZeroAndAligned) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {3, 5});
  EXPECT_EQ(buffer.bytes(), 60u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
  EXPECT_THAT(buffer.as<float>(), Each(0.0f));
}

TEST(BufferTest, NoElementsStillHaveAnAddress) {
  EXPECT_TRUE(Buffer::Allocate(DType::kI64, {0, 7}).has_memory());
}

TEST(BufferTest, BytesFollowTheDtype) {
  EXPECT_EQ(Buffer::Allocate(DType::kU8, {6}).bytes(), 6u);
  EXPECT_EQ(Buffer::Allocate(DType::kBF16, {6}).bytes(), 12u);
  EXPECT_EQ(Buffer::Allocate(DType::kI64, {6}).bytes(), 48u);
}

TEST(BufferTest, CopiesShareTheMemory) {
  Buffer buffer = Buffer::Allocate(DType::kI64, {2});
  const Buffer copy = buffer;
  buffer.as<int64_t>()[1] = 42;
  EXPECT_THAT(copy.as<int64_t>(), ElementsAre(0, 42));
}

TEST(BufferTest, TheLastCopyFreesWhatItsOwnerKeeps) {
  auto owner = std::make_shared<std::vector<float>>(4, 1.5f);
  const std::weak_ptr<std::vector<float>> alive = owner;
  Buffer buffer = Buffer::Wrap(owner->data(), DType::kF32, {4}, owner);
  owner.reset();
  Buffer rows = buffer.Rows(1, 2);
  buffer = Buffer();
  EXPECT_FALSE(alive.expired());
  EXPECT_THAT(rows.as<float>(), ElementsAre(1.5f));
  rows = Buffer();
  EXPECT_TRUE(alive.expired());
}

TEST(BufferTest, BorrowedMemoryStaysTheCallers) {
  float memory[] = {1, 2};
  { const Buffer buffer = Buffer::Wrap(memory, DType::kF32, {2}, nullptr); }
  EXPECT_THAT(memory, ElementsAre(1, 2));
}

TEST(BufferTest, ReshapedIsTheSameMemoryUnderAnotherShape) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {2, 6});
  const Buffer reshaped = buffer.Reshaped({3, 4});
  EXPECT_EQ(reshaped.data(), buffer.data());
  EXPECT_EQ(reshaped.shape(), Shape({3, 4}));
  EXPECT_EQ(buffer.shape(), Shape({2, 6}));
}

TEST(BufferTest, RowsAreASliceOfTheOutermostDimension) {
  Buffer buffer = Buffer::Allocate(DType::kI64, {3, 2});
  for (int64_t i = 0; i < 6; ++i) buffer.as<int64_t>()[i] = i;
  Buffer rows = buffer.Rows(1, 3);
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  EXPECT_THAT(rows.as<int64_t>(), ElementsAre(2, 3, 4, 5));
  rows.as<int64_t>()[0] = 20;
  EXPECT_EQ(buffer.as<int64_t>()[2], 20);
}

TEST(BufferTest, NoRowsHaveNoElements) {
  const Buffer buffer = Buffer::Allocate(DType::kF32, {3, 2});
  EXPECT_EQ(buffer.Rows(3, 3).elements(), 0);
  EXPECT_EQ(buffer.Rows(1, 1).shape(), Shape({0, 2}));
}

TEST(BufferTest, IsReadableByThoseThatMustNotWrite) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {2});
  const ConstBuffer seen = buffer;
  buffer.as<float>()[0] = 3;
  EXPECT_THAT(seen.as<float>(), ElementsAre(3, 0));
  static_assert(std::is_same_v<decltype(seen.as<float>()), absl::Span<const float>>);
  static_assert(!std::is_convertible_v<ConstBuffer, Buffer>);
}

using BufferDeathTest = ::testing::Test;

TEST(BufferDeathTest, TheHostMustNotFollowAnAddressOfADevice) {
  float memory[] = {1, 2};
  const Buffer buffer = Buffer::Wrap(memory, DType::kF32, {2}, nullptr, Place::kDevice);
  EXPECT_DEATH(buffer.as<float>(), "a buffer f32\\[2\\] in a device's memory was read");
  EXPECT_DEATH(ConstBuffer(buffer).Rows(0, 1).as<float>(), "f32\\[1\\] in a device's memory");
  EXPECT_DEATH(buffer.Reshaped({1, 2}).as<float>(), "in a device's memory");
}

TEST(BufferDeathTest, ElementsHaveTheTypeOfTheDtype) {
  EXPECT_DEATH(Buffer::Allocate(DType::kBF16, {2}).as<float>(), "as numbers of 4 bytes");
  EXPECT_DEATH(Buffer::Allocate(DType::kF32, {2}).as<int32_t>(), "as integers of 4 bytes");
  EXPECT_DEATH(Buffer::Allocate(DType::kI64, {2}).as<double>(), "as numbers of 8 bytes");
}

}  // namespace
}  // namespace latentd::device
