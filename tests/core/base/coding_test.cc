#include "core/base/text/coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace latentd {
namespace {

template <typename T>
std::string BytesOf(T value) {
  std::string bytes;
  PutLittleEndian(bytes, value);
  return bytes;
}

TEST(PutLittleEndianTest, AppendsTheLowestByteFirst) {
  std::string bytes = "x";
  PutLittleEndian(bytes, uint8_t{0x81});
  PutLittleEndian(bytes, uint32_t{0x80000001});
  PutLittleEndian(bytes, uint64_t{0x0102030405060788});
  EXPECT_EQ(bytes, std::string("x\x81\x01\0\0\x80\x88\x07\x06\x05\x04\x03\x02\x01", 14));
}

template <typename T>
void ExpectRoundTrips() {
  for (int bit = 0; bit < std::numeric_limits<T>::digits; ++bit) {
    const auto power = static_cast<T>(T{1} << bit);
    for (const T value : {static_cast<T>(power - 1), power, static_cast<T>(~power)}) {
      const std::string bytes = BytesOf(value);
      LittleEndianReader reader(bytes);
      EXPECT_EQ(reader.Take<T>(), value);
      EXPECT_TRUE(reader.done());
    }
  }
}

TEST(LittleEndianReaderTest, TakesWhatWasPut) {
  ExpectRoundTrips<uint8_t>();
  ExpectRoundTrips<uint16_t>();
  ExpectRoundTrips<uint32_t>();
  ExpectRoundTrips<uint64_t>();
}

TEST(LittleEndianReaderTest, TakesPiecesInTurn) {
  const std::string bytes = BytesOf(uint16_t{3}) + "abc" + "rest";
  LittleEndianReader reader(bytes);
  EXPECT_EQ(reader.TakeBytes(reader.Take<uint16_t>()), "abc");
  EXPECT_EQ(reader.rest(), "rest");
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.done());
}

TEST(LittleEndianReaderTest, GivesNothingMoreOnceSomethingWasCutShort) {
  for (size_t size = 0; size < sizeof(uint64_t); ++size) {
    const std::string bytes(size, '\xff');
    LittleEndianReader reader(bytes);
    EXPECT_EQ(reader.Take<uint64_t>(), 0u);
    EXPECT_EQ(reader.Take<uint8_t>(), 0u);
    EXPECT_EQ(reader.TakeBytes(0), "");
    EXPECT_FALSE(reader.ok());
    EXPECT_FALSE(reader.done());
  }
}

TEST(LittleEndianReaderTest, TakesNoPieceLongerThanWhatIsThere) {
  for (const uint64_t count : {uint64_t{4}, std::numeric_limits<uint64_t>::max()}) {
    LittleEndianReader reader("abc");
    EXPECT_EQ(reader.TakeBytes(count), "");
    EXPECT_FALSE(reader.ok());
  }
}

TEST(LittleEndianReaderTest, TakesNoCountThatThereAreNoBytesFor) {
  const std::string bytes = BytesOf(uint32_t{2}) + std::string(15, 'x');
  LittleEndianReader bytes_of_seven(bytes);
  EXPECT_EQ(bytes_of_seven.TakeCount(7), 2u);
  EXPECT_TRUE(bytes_of_seven.ok());
  LittleEndianReader bytes_of_eight(bytes);
  EXPECT_EQ(bytes_of_eight.TakeCount(8), 0u);
  EXPECT_FALSE(bytes_of_eight.ok());
}

}  // namespace
}  // namespace latentd
