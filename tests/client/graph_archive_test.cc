#include "client/commands/graph_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::latent::v1::GraphBytes;
using ::testing::HasSubstr;

GraphBytes Part(int64_t total, const std::string& data) {
  GraphBytes part;
  part.set_total_bytes(total);
  part.set_data(data);
  return part;
}

// An archive of these graphs, as messages of any size make it.
std::string ArchiveOf(const std::vector<std::string>& graphs) {
  GraphArchiveWriter writer;
  for (const std::string& graph : graphs) {
    const size_t half = graph.size() / 2;
    EXPECT_OK(writer.Add(Part(static_cast<int64_t>(graph.size()), graph.substr(0, half))));
    EXPECT_OK(writer.Add(Part(0, graph.substr(half))));
  }
  EXPECT_OK(writer.Finish());
  EXPECT_EQ(writer.graphs(), static_cast<int>(graphs.size()));
  return writer.bytes();
}

TEST(GraphArchiveTest, WhatWasWrittenComesBackInPartsOfAMebibyte) {
  const std::vector<std::string> graphs = {"one", std::string(5 << 19, 'x')};
  const std::string archive = ArchiveOf(graphs);
  ASSERT_OK(GraphArchiveReader::Check(archive));
  GraphArchiveReader reader(archive);
  std::vector<std::string> read;
  GraphBytes part;
  for (; reader.Next(part); part.Clear()) {
    EXPECT_LE(part.data().size(), 1u << 20);
    if (part.total_bytes() > 0) read.emplace_back();
    read.back() += part.data();
  }
  EXPECT_EQ(read, graphs);
}

TEST(GraphArchiveTest, EveryCutIsFound) {
  const std::string archive = ArchiveOf({"first graph", "second"});
  const size_t between = 8 + 8 + 11;  // an archive may end behind the first graph
  for (size_t size = 0; size < archive.size(); ++size) {
    if (size == 8 || size == between) continue;
    EXPECT_TRUE(absl::IsInvalidArgument(GraphArchiveReader::Check(archive.substr(0, size))))
        << size;
  }
}

TEST(GraphArchiveTest, SizesThatLieAreFound) {
  std::string archive = ArchiveOf({"graph"});
  archive[8 + 7] = '\x7f';
  EXPECT_THAT(GraphArchiveReader::Check(archive).message(), HasSubstr("cut short"));
  EXPECT_THAT(GraphArchiveReader::Check("PK archive").message(), HasSubstr("not a file"));
}

TEST(GraphArchiveTest, MessagesOutOfOrderAreRefused) {
  GraphArchiveWriter begins_in_the_middle;
  EXPECT_TRUE(absl::IsDataLoss(begins_in_the_middle.Add(Part(0, "x"))));
  GraphArchiveWriter begins_twice;
  ASSERT_OK(begins_twice.Add(Part(5, "x")));
  EXPECT_TRUE(absl::IsDataLoss(begins_twice.Finish()));
  EXPECT_TRUE(absl::IsDataLoss(begins_twice.Add(Part(5, "x"))));
  GraphArchiveWriter too_much;
  EXPECT_TRUE(absl::IsDataLoss(too_much.Add(Part(2, "xyz"))));
}

}  // namespace
}  // namespace latentd::client
