// The file of keys, and the two ways in that it guards, by real connections.
#include "server/tls/api_key_file.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "latent/v1/adapters.pb.h"
#include "latent/v1/models.pb.h"
#include "nlohmann/json.hpp"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::tls {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kWebKey[] = "key-of-the-web-0", kBatchKey[] = "key-of-the-batch";
constexpr char kOperatorKey[] = "key-of-operators";

std::string Bearer(const std::string& key) { return "Bearer " + key; }

class ApiKeyFileTest : public RunningServer {
 protected:
  ~ApiKeyFileTest() override { server_.reset(); }  // it uses the keys
  void SetUp() override { PutKeys(absl::StrCat("web ", kWebKey, "\n")); }

  void PutKeys(const std::string& text, mode_t mode = 0600) {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
  }

  void Listen() {
    ASSERT_OK_AND_ASSIGN(keys_, ApiKeyFile::Open(file_, clock_));
    Start({.http_listen = "127.0.0.1:0", .api_keys = keys_.get()});
  }

  grpc::Status Capabilities(const std::string& name, const std::string& value) {
    grpc::ClientContext context;
    if (!name.empty()) context.AddMetadata(name, value);
    latent::v1::GetCapabilitiesResponse response;
    return stub_->GetCapabilities(&context, {}, &response);
  }

  http::Received Ask(const std::string& method, const std::string& path,
                     const std::string& headers = "") {
    return http::HttpClient(server_->http_address()).Ask(method, path, "", headers);
  }

  const testing::TemporaryDirectory directory_;
  const std::string file_ = directory_.File("keys");

 private:
  std::unique_ptr<ApiKeyFile> keys_;
};

TEST_F(ApiKeyFileTest, AKeyComesInThreeWays) {
  ASSERT_OK_AND_ASSIGN(const auto keys, ApiKeyFile::Open(file_, clock_));
  const std::string basic = absl::Base64Escape(absl::StrCat("anybody:", kWebKey));
  for (const std::string& authorization :
       {Bearer(kWebKey), absl::StrCat("bearer  ", kWebKey, " "), "Basic " + basic}) {
    const auto holder = keys->Check(authorization, "");
    ASSERT_OK(holder) << authorization;
    EXPECT_EQ(holder->name, "web") << authorization;
    EXPECT_FALSE(holder->is_operator) << authorization;
  }
  EXPECT_THAT(keys->Check("", kWebKey), IsOk());
  EXPECT_THAT(keys->Check("Bearer none", kWebKey), IsOk());
  EXPECT_THAT(keys->Check("", ""),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("asks for an API key")));
  for (const std::string& authorization :
       {Bearer(kBatchKey), std::string(kWebKey), absl::StrCat("Token ", kWebKey),
        absl::StrCat("Basic ", kWebKey), "Basic " + absl::Base64Escape(kWebKey),
        std::string("Bearer "), Bearer(absl::StrCat(kWebKey, ",", kWebKey))}) {
    EXPECT_THAT(keys->Check(authorization, ""),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("none of this server's")))
        << authorization;
  }
}

TEST_F(ApiKeyFileTest, AFileThatEverybodyMayUseIsRefused) {
  for (const mode_t mode : {0604, 0602, 0601}) {
    PutKeys(absl::StrCat("web ", kWebKey), mode);
    EXPECT_THAT(ApiKeyFile::Open(file_, clock_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(file_)))
        << mode;
  }
  PutKeys(absl::StrCat("web ", kWebKey), 0640);
  EXPECT_OK(ApiKeyFile::Open(file_, clock_));
  EXPECT_THAT(ApiKeyFile::Open(directory_.File("missing"), clock_), Not(IsOk()));
  PutKeys("web short");
  EXPECT_THAT(ApiKeyFile::Open(file_, clock_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1")));
}

TEST_F(ApiKeyFileTest, EveryWayInAsksForOne) {
  Listen();
  EXPECT_EQ(Capabilities("", "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Capabilities("authorization", Bearer(kBatchKey)).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Capabilities("authorization", Bearer(kWebKey)).ok());
  EXPECT_TRUE(Capabilities("x-api-key", kWebKey).ok());

  const http::Received refused = Ask("GET", "/v1/models");
  EXPECT_EQ(refused.code, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer, Basic realm=\"latentd\"");
  EXPECT_EQ(nlohmann::json::parse(refused.body)["error"]["code"], "invalid_api_key");
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: " + Bearer(kWebKey) + "\r\n").code, 200);
  EXPECT_EQ(Ask("GET", "/sdapi/v1/options", absl::StrCat("X-Api-Key: ", kWebKey, "\r\n")).code,
            200);
  for (const char* path : {"/v1/images/generations", "/sdapi/v1/interrupt", "/hf", "/nowhere"}) {
    EXPECT_EQ(Ask("POST", path).code, 401) << path;
  }
  // Nor does a stranger learn which methods a path has.
  const http::Received method = Ask("DELETE", "/v1/models");
  EXPECT_EQ(method.code, 401);
  EXPECT_EQ(method.headers.count("allow"), 0u);
  EXPECT_EQ(Ask("GET", "/nowhere", "Authorization: " + Bearer(kWebKey) + "\r\n").code, 404);
  EXPECT_EQ(nlohmann::json::parse(Ask("POST", "/sdapi/v1/skip").body)["error"], "invalid_api_key");
  EXPECT_TRUE(nlohmann::json::parse(Ask("POST", "/hf").body)["error"].is_string());
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(ApiKeyFileTest, RefusedKeysAreCountedByTransportAndReason) {
  Listen();
  Capabilities("", "");
  for (const char* name : {"authorization", "x-api-key"}) Capabilities(name, Bearer(kBatchKey));
  Capabilities("x-api-key", kWebKey);
  for (const char* headers : {"", "Authorization: Bearer none\r\n", "X-Api-Key: none\r\n",
                              "X-Other: none\r\n", "X-Api-Key: none\r\n"}) {
    EXPECT_EQ(Ask("GET", "/v1/models", headers).code, 401) << headers;
  }
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: " + Bearer(kWebKey) + "\r\n").code, 200);
  EXPECT_EQ(Ask("GET", "/healthz").code, 200);
  const auto refused = [&](const char* transport, const char* reason) {
    return engine_.metrics().GetCounter(metrics::kApiKeysRefused, {transport, reason}).Value();
  };
  EXPECT_EQ(refused("grpc", "missing"), 1);
  EXPECT_EQ(refused("grpc", "unknown"), 2);
  EXPECT_EQ(refused("http", "missing"), 2);
  EXPECT_EQ(refused("http", "unknown"), 3);
}

TEST_F(ApiKeyFileTest, EveryMethodOfGrpcAsksForOne) {
  Listen();
  const auto code_of = [](const grpc::Status& status) { return status.error_code(); };
  {
    grpc::ClientContext context;
    latent::v1::GenerateResponse response;
    EXPECT_EQ(code_of(stub_->Generate(&context, Request(), &response)),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  {
    grpc::ClientContext context;
    latent::v1::EncodeResponse response;
    EXPECT_EQ(code_of(stub_->Encode(&context, {}, &response)), grpc::StatusCode::UNAUTHENTICATED);
  }
  {
    grpc::ClientContext context;
    latent::v1::CancelGenerationResponse response;
    EXPECT_EQ(code_of(stub_->CancelGeneration(&context, {}, &response)),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  latent::v1::GenerateEvent event;
  {
    grpc::ClientContext context;
    const auto reader = stub_->GenerateStream(&context, Request());
    EXPECT_FALSE(reader->Read(&event));
    EXPECT_EQ(code_of(reader->Finish()), grpc::StatusCode::UNAUTHENTICATED);
  }
  {
    grpc::ClientContext context;
    const auto reader = stub_->ResumeStream(&context, {});
    EXPECT_FALSE(reader->Read(&event));
    EXPECT_EQ(code_of(reader->Finish()), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(engine_.job_count(), 0u);
}

// Methods of the services for operators, "/latent.v1.Admin/Drain".
std::vector<std::string> MethodsOfOperators() {
  std::vector<std::string> methods;
  for (const auto* file :
       {latent::v1::Graph::descriptor()->file(), latent::v1::ServerStatus::descriptor()->file(),
        latent::v1::ModelStatus::descriptor()->file(),
        latent::v1::AdapterStatus::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        methods.push_back(absl::StrCat("/", service->full_name(), "/", service->method(j)->name()));
      }
    }
  }
  return methods;
}

class SharedSocketTest : public ApiKeyFileTest {
 protected:
  void Serve() {
    PutKeys(absl::StrCat("web ", kWebKey, "\nadmin ", kOperatorKey, " operator\n"));
    ASSERT_OK_AND_ASSIGN(shared_keys_, ApiKeyFile::Open(file_, clock_));
    const std::string address = "unix:" + directory_.File("listen.sock");
    ASSERT_OK_AND_ASSIGN(
        shared_,
        GrpcServer::Start({.listen = address, .api_keys = shared_keys_.get(), .version = "test"},
                          engine_, clock_));
    stub_of_all_ = std::make_unique<grpc::GenericStub>(ChannelTo(address));
  }

  // The end of a call with an empty message. `key`: null for none.
  grpc::StatusCode Call(const std::string& method, const char* key) {
    grpc::ClientContext context;
    if (key != nullptr) context.AddMetadata("authorization", Bearer(key));
    const grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1), response;
    grpc::StatusCode code = grpc::StatusCode::OK;
    absl::Notification ended;
    stub_of_all_->UnaryCall(&context, method, {}, &request, &response, [&](grpc::Status status) {
      code = status.error_code();
      ended.Notify();
    });
    ended.WaitForNotification();
    return code;
  }

 private:
  std::unique_ptr<ApiKeyFile> shared_keys_;
  std::unique_ptr<GrpcServer> shared_;
  std::unique_ptr<grpc::GenericStub> stub_of_all_;
};

TEST_F(SharedSocketTest, WhatOperatorsMayNeedsTheirKey) {
  Serve();
  const std::vector<std::string> methods = MethodsOfOperators();
  EXPECT_GT(methods.size(), 20u);
  for (const std::string& method : methods) {
    EXPECT_EQ(Call(method, nullptr), grpc::StatusCode::UNAUTHENTICATED) << method;
    EXPECT_EQ(Call(method, kWebKey), grpc::StatusCode::PERMISSION_DENIED) << method;
  }
  for (const char* method : {"/latent.v1.Admin/GetServerStatus", "/latent.v1.Admin/GetMemoryReport",
                             "/latent.v1.GraphCache/ListGraphs", "/latent.v1.Models/ListModels",
                             "/latent.v1.Adapters/ListAdapters"}) {
    EXPECT_EQ(Call(method, kOperatorKey), grpc::StatusCode::OK) << method;
  }
  for (const char* key : {kWebKey, kOperatorKey}) {
    EXPECT_EQ(Call("/latent.v1.ImageGeneration/GetCapabilities", key), grpc::StatusCode::OK);
  }
}

TEST_F(ApiKeyFileTest, OperatorsOwnSocketNeedsNone) {
  Listen();
  grpc::ClientContext context;
  latent::v1::ServerStatus status;
  EXPECT_TRUE(admin_->GetServerStatus(&context, {}, &status).ok());
}

TEST_F(ApiKeyFileTest, ProbesNeedNone) {
  Listen();
  EXPECT_EQ(Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(Ask("GET", "/readyz").code, 200);
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(health_->Check(&context, {}, &response).ok());
}

TEST_F(ApiKeyFileTest, ACallerIsItsKeysName) {
  Listen();
  std::thread by_grpc([&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", Bearer(kWebKey));
    latent::v1::GenerateResponse response;
    stub_->Generate(&context, Request(), &response);
  });
  SendPicture("picture", 0);
  by_grpc.join();
  std::thread engine([&] { SendPicture("picture", 1); });
  const http::Received drawn = http::HttpClient(server_->http_address())
                                   .Ask("POST", "/v1/images/generations", R"({"prompt": "a"})",
                                        "Authorization: " + Bearer(kWebKey) + "\r\n");
  engine.join();
  EXPECT_EQ(drawn.code, 200);
  EXPECT_EQ(engine_.WaitForSpec(0).caller, "key:web");
  EXPECT_EQ(engine_.WaitForSpec(1).caller, "key:web");
}

TEST_F(ApiKeyFileTest, OperatorsSeeMoreOverHttp) {
  PutKeys(absl::StrCat("web ", kWebKey, "\nadmin ", kOperatorKey, " operator\n"));
  Listen();
  engine::ServerStatus status = engine_.status();
  status.buckets = {{"base", {512, 512}, false, "no memory"}};
  engine_.set_status(status);
  const auto ask = [&](const char* path, const char* key) {
    return Ask("GET", path, absl::StrCat("Authorization: ", Bearer(key), "\r\n"));
  };
  for (const char* path : {"/latent/v1/memory", "/latent/v1/graphs"}) {
    EXPECT_EQ(ask(path, kOperatorKey).code, 200) << path;
    EXPECT_EQ(ask(path, kWebKey).code, 403) << path;
    EXPECT_EQ(Ask("GET", path).code, 401) << path;
  }
  EXPECT_THAT(ask("/latent/v1/status", kOperatorKey).body, HasSubstr("no memory"));
  EXPECT_THAT(ask("/latent/v1/status", kWebKey).body,
              AllOf(HasSubstr("buckets"), Not(HasSubstr("no memory"))));
  EXPECT_EQ(ask("/v1/models", kOperatorKey).code, 200);
}

TEST_F(ApiKeyFileTest, ANewFileCountsForTheNextCallAndABrokenOneNot) {
  Listen();
  PutKeys("web short");
  server_->RefreshTls();
  EXPECT_TRUE(Capabilities("authorization", Bearer(kWebKey)).ok());
  PutKeys(absl::StrCat("batch ", kBatchKey, "\n"));
  server_->RefreshTls();
  EXPECT_FALSE(Capabilities("authorization", Bearer(kWebKey)).ok());
  EXPECT_TRUE(Capabilities("authorization", Bearer(kBatchKey)).ok());
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: " + Bearer(kBatchKey) + "\r\n").code, 200);
}

TEST_F(ApiKeyFileTest, WithoutAFileAnyKeyIsOfNoMatter) {
  Start({.http_listen = "127.0.0.1:0"});
  EXPECT_TRUE(Capabilities("authorization", "Bearer none").ok());
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: Bearer none\r\n").code, 200);
}

}  // namespace
}  // namespace latentd::server::tls
