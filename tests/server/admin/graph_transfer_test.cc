// ExportGraphs and ImportGraphs: graphs as streams of bytes.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/admin/graph_bytes_reader.h"
#include "tests/server/running_server.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

std::string RandomBytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

v1::GraphBytes Message(int64_t total, const std::string& data) {
  v1::GraphBytes message;
  message.set_total_bytes(total);
  message.set_data(data);
  return message;
}

TEST(GraphBytesReaderTest, PutsGraphsTogether) {
  GraphBytesReader reader({100, 100});
  EXPECT_THAT(*reader.Add(Message(3, "ab")), std::nullopt);
  EXPECT_THAT(*reader.Add(Message(0, "c")), Optional(std::string("abc")));
  EXPECT_THAT(*reader.Add(Message(2, "de")), Optional(std::string("de")));
  EXPECT_OK(reader.End());
}

TEST(GraphBytesReaderTest, DamageIsDataLoss) {
  const auto damaged = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged"));
  EXPECT_THAT(GraphBytesReader({100, 100}).Add(Message(0, "a")), damaged);
  EXPECT_THAT(GraphBytesReader({100, 100}).Add(Message(-1, "a")), damaged);
  EXPECT_THAT(GraphBytesReader({100, 100}).Add(Message(2, "abc")), damaged);
  GraphBytesReader begun({100, 100});
  ASSERT_OK(begun.Add(Message(3, "ab")));
  EXPECT_THAT(begun.End(), damaged);
  EXPECT_THAT(begun.Add(Message(3, "ab")), damaged);
}

TEST(GraphBytesReaderTest, AStreamWithoutAGraphIsNoImport) {
  EXPECT_THAT(GraphBytesReader({100, 100}).End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no graph")));
}

TEST(GraphBytesReaderTest, LimitsHold) {
  const auto too_much = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--cache-max"));
  EXPECT_THAT(GraphBytesReader({4, 100}).Add(Message(5, "a")), too_much);
  EXPECT_THAT(GraphBytesReader({4, 100}).Add(Message(int64_t{1} << 62, "a")), too_much);
  GraphBytesReader reader({4, 6});
  ASSERT_OK(reader.Add(Message(4, "abcd")));
  EXPECT_THAT(reader.Add(Message(3, "abc")), too_much);
  EXPECT_THAT(GraphBytesReader({int64_t{4} << 20, int64_t{4} << 20})
                  .Add(Message(2 << 20, std::string(kMaxGraphChunkBytes + 1, 'a'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data")));
  GraphBytesReader many({1, 1 << 20});
  for (int i = 0; i < kMaxImportedGraphs; ++i) ASSERT_OK(many.Add(Message(1, "a")));
  EXPECT_EQ(many.Add(Message(1, "a")).status().code(), absl::StatusCode::kResourceExhausted);
}

class GraphTransferTest : public RunningServer {
 protected:
  void SetUp() override {
    Start({.imports = {true, {.graph_bytes = 4 << 20, .stream_bytes = 6 << 20}}});
  }

  void Serve(const std::string& id, const std::string& artifact) {
    engine::GraphEntry entry;
    entry.id = id;
    entry.state = engine::GraphState::kCompiled;
    engine_.graphs().entries.push_back(entry);
    engine_.graphs().artifacts[id] = artifact;
  }

  grpc::Status Export(std::vector<v1::GraphBytes>& messages) {
    grpc::ClientContext context;
    v1::ExportGraphsRequest request;
    request.mutable_selector()->set_all(true);
    const auto reader = graph_cache_->ExportGraphs(&context, request);
    v1::GraphBytes message;
    while (reader->Read(&message)) messages.push_back(message);
    return reader->Finish();
  }

  grpc::Status Import(const std::vector<v1::GraphBytes>& messages, v1::GraphResults& results) {
    grpc::ClientContext context;
    const auto writer = graph_cache_->ImportGraphs(&context, &results);
    for (const v1::GraphBytes& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  // Takes whatever comes.
  void TakeImports() {
    engine_.graphs().on_import = [this](std::string artifact) {
      taken_.push_back(std::move(artifact));
      return engine::EntryResult{.id = absl::StrCat("id", taken_.size())};
    };
  }

  std::vector<std::string> taken_;  // by the worker, until the call has ended
};

TEST_F(GraphTransferTest, WhatIsExportedCanBeImported) {
  const std::string large = RandomBytes((2 << 20) + 17, 1), small = RandomBytes(100, 2);
  Serve("aaaaaaaa", large);
  Serve("bbbbbbbb", small);
  std::vector<v1::GraphBytes> messages;
  ASSERT_TRUE(Export(messages).ok());
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].total_bytes(), static_cast<int64_t>(large.size()));
  EXPECT_EQ(messages[1].total_bytes(), 0);
  EXPECT_EQ(messages[3].total_bytes(), 100);
  for (const v1::GraphBytes& message : messages) EXPECT_LE(message.data().size(), 1u << 20);
  TakeImports();
  v1::GraphResults results;
  ASSERT_TRUE(Import(messages, results).ok());
  EXPECT_THAT(taken_, ElementsAre(large, small));
  ASSERT_EQ(results.results_size(), 2);
  EXPECT_EQ(results.results(1).id(), "id2");
}

TEST_F(GraphTransferTest, WhatIsNotCompiledIsNamedBeforeAnythingIsSent) {
  Serve("aaaaaaaa", "bytes");
  Serve("bbbbbbbb", "bytes");
  engine_.graphs().entries[1].state = engine::GraphState::kCold;
  std::vector<v1::GraphBytes> messages;
  const grpc::Status status = Export(messages);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NOT_COMPILED");
  EXPECT_THAT(status.error_message(), HasSubstr("bbbbbbbb"));
  EXPECT_TRUE(messages.empty());
}

TEST_F(GraphTransferTest, AGraphThatLeavesMeanwhileEndsTheExport) {
  Serve("aaaaaaaa", "bytes");
  Serve("bbbbbbbb", "bytes");
  engine_.graphs().artifacts.erase("bbbbbbbb");
  std::vector<v1::GraphBytes> messages;
  EXPECT_EQ(Export(messages).error_message(), "gone meanwhile");
  EXPECT_EQ(messages.size(), 1u);
}

// An export that its client has begun to read.
struct OpenExport {
  explicit OpenExport(v1::GraphCache::Stub& stub) {
    v1::ExportGraphsRequest request;
    request.mutable_selector()->set_all(true);
    reader = stub.ExportGraphs(&context, request);
    v1::GraphBytes message;
    accepted = reader->Read(&message);
  }
  grpc::Status ReadToTheEnd() {
    v1::GraphBytes message;
    while (reader->Read(&message)) {
    }
    return reader->Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GraphBytes>> reader;
  bool accepted = false;
};

TEST_F(GraphTransferTest, ExportsHaveALimitAndThoseWhoseClientsReadNothingAreCancelled) {
  for (int i = 0; i < 32; ++i) Serve(absl::StrCat("aaaaaaa", i), RandomBytes(1 << 20, i));
  std::vector<std::unique_ptr<OpenExport>> stalled;
  for (int i = 0; i < 4; ++i) {
    stalled.push_back(std::make_unique<OpenExport>(*graph_cache_));
    ASSERT_TRUE(stalled.back()->accepted);
  }
  OpenExport refused(*graph_cache_);
  EXPECT_EQ(refused.ReadToTheEnd().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Time passes until a place is free.
  bool accepted = false;
  while (!accepted) {
    clock_.Advance(generation::kStallLimit);
    server_->CancelStalled();
    accepted = OpenExport(*graph_cache_).accepted;
  }
  std::vector<grpc::StatusCode> codes;
  for (const auto& open : stalled) codes.push_back(open->ReadToTheEnd().error_code());
  EXPECT_THAT(codes, Contains(grpc::StatusCode::CANCELLED));
}

TEST_F(GraphTransferTest, ADamagedStreamIsDataLoss) {
  TakeImports();
  v1::GraphResults results;
  EXPECT_EQ(Import({Message(5, "abc")}, results).error_code(), grpc::StatusCode::DATA_LOSS);
  engine_.graphs().on_import = [](std::string) {
    return absl::DataLossError("the checksum is wrong");
  };
  const grpc::Status status = Import({Message(3, "abc")}, results);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "the checksum is wrong");
}

// Else the client would take what came before for all that it sent.
TEST_F(GraphTransferTest, AMessageThatCannotBeReadIsNotTheEnd) {
  TakeImports();
  grpc::GenericStub stub(admin_channel_);
  grpc::ClientContext context;
  const grpc::Slice bytes("\xff\xff\xff");
  const grpc::ByteBuffer garbage(&bytes, 1);
  grpc::ByteBuffer response;
  absl::Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, "/latent.v1.GraphCache/ImportGraphs", {}, &garbage, &response,
                 [&](const grpc::Status& ended) {
                   status = ended;
                   done.Notify();
                 });
  done.WaitForNotification();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(ReasonOf(status), "MALFORMED");
}

TEST_F(GraphTransferTest, AGraphForAnotherMachineIsItsOwnFailure) {
  engine_.graphs().on_import = [](const std::string& artifact) {
    const bool foreign = artifact == "foreign";
    return engine::EntryResult{
        .id = artifact,
        .model = "base",
        .component = "unet",
        .status =
            foreign ? absl::FailedPreconditionError("made for avx2, not amx") : absl::OkStatus()};
  };
  v1::GraphResults results;
  ASSERT_TRUE(Import({Message(7, "foreign"), Message(3, "own")}, results).ok());
  ASSERT_EQ(results.results_size(), 2);
  EXPECT_EQ(results.results(0).error().message(), "made for avx2, not amx");
  EXPECT_EQ(results.results(0).id(), "foreign");
  EXPECT_EQ(results.results(0).model(), "base");
  EXPECT_EQ(results.results(0).component(), "unet");
  EXPECT_EQ(results.results(1).id(), "own");
  EXPECT_FALSE(results.results(1).has_error());
}

TEST_F(GraphTransferTest, MoreThanTheBudgetIsRefused) {
  TakeImports();
  v1::GraphResults results;
  const grpc::Status status = Import({Message(5 << 20, "a")}, results);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "CACHE_BUDGET");
}

TEST_F(GraphTransferTest, OneImportAtATime) {
  absl::Notification importing, go_on;
  engine_.graphs().on_import = [&](std::string) {
    importing.Notify();
    go_on.WaitForNotification();
    return engine::EntryResult{.id = "id"};
  };
  grpc::ClientContext context;
  v1::GraphResults results, none;
  const auto writer = graph_cache_->ImportGraphs(&context, &results);
  ASSERT_TRUE(writer->Write(Message(1, "a")));
  importing.WaitForNotification();
  const grpc::Status second = Import({Message(1, "a")}, none);
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(second), "QUEUE_FULL");
  go_on.Notify();
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
}

TEST_F(GraphTransferTest, AClientThatSendsNothingIsCancelled) {
  grpc::ClientContext context;
  v1::GraphResults results;
  const auto writer = graph_cache_->ImportGraphs(&context, &results);
  grpc::Status status;
  std::atomic<bool> ended = false;
  std::thread client([&] {
    status = writer->Finish();
    ended = true;
  });
  while (!ended) {
    clock_.Advance(generation::kStallLimit);
    server_->CancelStalled();
    std::this_thread::yield();
  }
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
}

class NoImportTest : public RunningServer {};

TEST_F(NoImportTest, IsRefusedWithoutReading) {
  grpc::ClientContext context;
  v1::GraphResults results;
  const auto writer = graph_cache_->ImportGraphs(&context, &results);
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("--allow-import"));
}

}  // namespace
}  // namespace latentd::server::admin
