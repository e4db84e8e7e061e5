// Servers whose messages cannot be parsed: every call ends, and says so.
#include "client/rpc/answers.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/latent_client.h"

namespace latentd::client {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

using Messages = std::vector<std::string>;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// One call of any method: takes what the client sends, then sends the messages and OK, or nothing
// more where the call is to stay open. Owns itself.
class Answer final : public grpc::ServerGenericBidiReactor {
 public:
  Answer(const Messages& messages, bool stays_open) : stays_open_(stays_open) {
    for (const std::string& message : messages) messages_.push_back(Buffer(message));
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&request_);
    SendNext();
  }
  void OnWriteDone(bool) override { SendNext(); }
  void OnCancel() override {
    if (sent_ == messages_.size() && stays_open_) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

  void SendNext() {
    if (sent_ < messages_.size()) return StartWrite(&messages_[sent_++]);
    if (!stays_open_) Finish(grpc::Status::OK);
  }

  const bool stays_open_;
  grpc::ByteBuffer request_;
  std::vector<grpc::ByteBuffer> messages_;
  size_t sent_ = 0;
};

// A server that answers every call of every service with the same bytes.
class ByteServer final : public grpc::CallbackGenericService {
 public:
  explicit ByteServer(Messages messages, bool stays_open = false)
      : messages_(std::move(messages)), stays_open_(stays_open) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~ByteServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Answer(messages_, stays_open_);
  }

  const Messages messages_;
  const bool stays_open_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

void ExpectUnreadable(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), StatusCode::INTERNAL) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("cannot be read"));
}

// Text that is not UTF-8 in field 1 or 2 of a message, and no message at all.
const std::string kNoUtf8 = "\x0A\x01\xE9\x12\x01\xE9";
const std::string kNoMessage = "\xFF";

std::string Good() {
  v1::WarmBucketsEvent event;
  event.mutable_progress()->set_done(1);
  return event.SerializeAsString();
}

grpc::Status Warm(const ByteServer& server, int& events) {
  AdminClient client(server.address());
  return client.WarmBuckets({}, [&](const v1::WarmBucketsEvent&) { ++events; });
}

TEST(AnswersTest, AStreamEndsAtAMessageThatCannotBeParsed) {
  for (const Messages& messages :
       {Messages{kNoMessage}, Messages{kNoMessage, kNoMessage}, Messages{kNoMessage, Good()}}) {
    const ByteServer server(messages);
    int events = 0;
    ExpectUnreadable(Warm(server, events));
    EXPECT_EQ(events, 0);
  }
}

TEST(AnswersTest, MessagesBeforeItAreTaken) {
  const ByteServer server({Good(), Good(), kNoMessage, Good()});
  int events = 0;
  ExpectUnreadable(Warm(server, events));
  EXPECT_EQ(events, 2);
}

TEST(AnswersTest, AStreamThatStaysOpenEndsToo) {
  const ByteServer server({Good(), kNoMessage}, /*stays_open=*/true);
  int events = 0;
  ExpectUnreadable(Warm(server, events));
  EXPECT_EQ(events, 1);
}

TEST(AnswersTest, AStreamThatIsReadEndsAsTheServerSays) {
  const ByteServer server({Good(), "", Good()});  // no bytes are a message without fields
  int events = 0;
  EXPECT_TRUE(Warm(server, events).ok());
  EXPECT_EQ(events, 3);
}

TEST(AnswersTest, EveryStreamOfAnOperatorIsReadSo) {
  const ByteServer server({kNoMessage, kNoMessage});
  AdminClient client(server.address());
  ExpectUnreadable(client.WatchServerStatus([](const v1::ServerStatus&) { FAIL(); }));
  ExpectUnreadable(client.ExportGraphs({}, [](const v1::GraphBytes&) { return true; }));
}

TEST(AnswersTest, SoAreStreamsOfPictures) {
  for (const std::string& message : {kNoUtf8, kNoMessage}) {
    const ByteServer server({message, message});
    Client client(server.address());
    v1::GenerateRequest request;
    request.set_width(64);
    request.set_height(64);
    ExpectUnreadable(client.Generate(request, {}));
  }
}

TEST(AnswersTest, AnAnswerThatCannotBeParsedIsNoServiceThatIsMissing) {
  for (const std::string& message : {kNoUtf8, kNoMessage}) {
    const ByteServer server({message});
    AdminClient operators(server.address());
    v1::ServerStatus status;
    ExpectUnreadable(operators.GetServerStatus(status));
    v1::GraphResults results;
    ExpectUnreadable(operators.SaveGraphs({}, results));
    Client client(server.address());
    v1::GetCapabilitiesResponse capabilities;
    ExpectUnreadable(client.GetCapabilities(capabilities));
  }
}

TEST(AnswersTest, AnImportWhoseAnswerCannotBeParsedEnds) {
  const ByteServer server({kNoMessage});
  AdminClient client(server.address());
  int parts = 3;
  v1::GraphResults results;
  ExpectUnreadable(client.ImportGraphs(
      [&parts](v1::GraphBytes& part) {
        part.set_data("bytes");
        return --parts >= 0;
      },
      results));
}

TEST(AnswersTest, AnImportHasItsAnswer) {
  v1::GraphResults sent;
  sent.add_results()->set_id("1f");
  const ByteServer server({sent.SerializeAsString()});
  AdminClient client(server.address());
  v1::GraphResults results;
  EXPECT_TRUE(client.ImportGraphs([](v1::GraphBytes&) { return false; }, results).ok());
  EXPECT_EQ(results.results(0).id(), "1f");
  EXPECT_EQ(results.ByteSizeLong(), sent.ByteSizeLong());
}

TEST(AnswersTest, AResponseWithoutAnAnswerIsEmpty) {
  AdminClient client("unix:/nowhere");
  v1::ServerStatus status;
  EXPECT_EQ(client.GetServerStatus(status).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.ByteSizeLong(), 0);
}

}  // namespace
}  // namespace latentd::client
