// A latentd that ends its calls as it is told.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "latent/v1/image_generation.grpc.pb.h"

namespace latentd::client {

// How one call of GenerateStream or ResumeStream ends, and what it sends before.
struct Script {
  grpc::Status status;
  int pictures = 0;
  std::string part = {};  // the first bytes of one more
};

class ScriptedServer final : public v1::ImageGeneration::Service {
 public:
  struct Call {
    v1::GenerateRequest request;
    std::string bucket;  // from the metadata; "none"
  };

  // Calls beyond the scripts draw one picture.
  explicit ScriptedServer(std::deque<Script> scripts = {}) : scripts_(std::move(scripts)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedServer() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  void SetBuckets(std::vector<std::pair<int, int>> buckets) {
    absl::MutexLock lock(&mutex_);
    buckets_ = std::move(buckets);
  }
  std::vector<Call> calls() const {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  // The method and the value of "authorization" of each call, in their order: "Encode Bearer x".
  std::vector<std::string> authorizations() const {
    absl::MutexLock lock(&mutex_);
    return authorizations_;
  }
  int capabilities_asked() const {
    absl::MutexLock lock(&mutex_);
    return capabilities_asked_;
  }

  grpc::Status Encode(grpc::ServerContext* context, const v1::EncodeRequest*,
                      v1::EncodeResponse*) override {
    Note("Encode", *context);
    return grpc::Status::OK;
  }

  grpc::Status GetCapabilities(grpc::ServerContext* context, const v1::GetCapabilitiesRequest*,
                               v1::GetCapabilitiesResponse* response) override {
    Note("GetCapabilities", *context);
    absl::MutexLock lock(&mutex_);
    ++capabilities_asked_;
    response->mutable_default_size()->set_width(256);
    response->mutable_default_size()->set_height(256);
    for (const auto& [width, height] : buckets_) {
      v1::Size& size = *response->add_buckets()->mutable_size();
      size.set_width(width);
      size.set_height(height);
    }
    return grpc::Status::OK;
  }

  grpc::Status GenerateStream(grpc::ServerContext* context, const v1::GenerateRequest* request,
                              grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    Note("GenerateStream", *context);
    return Play(NextScript(*context, *request), 0, 0, *writer);
  }

  // Sends what is missing of two pictures, unless `resume_status` is an error.
  grpc::Status ResumeStream(grpc::ServerContext* context, const v1::ResumeStreamRequest* request,
                            grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    Note("ResumeStream", *context);
    {
      absl::MutexLock lock(&mutex_);
      resumed_.push_back(*request);
      if (!resume_status_.ok()) return resume_status_;
    }
    const int missing = 2 - request->received_images();
    return Play({grpc::Status::OK, missing}, request->received_images(), request->received_bytes(),
                *writer);
  }

  grpc::Status CancelGeneration(grpc::ServerContext* context,
                                const v1::CancelGenerationRequest* request,
                                v1::CancelGenerationResponse*) override {
    Note("CancelGeneration", *context);
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(request->request_id());
    return grpc::Status::OK;
  }

  void set_resume_status(grpc::Status status) {
    absl::MutexLock lock(&mutex_);
    resume_status_ = std::move(status);
  }
  std::vector<v1::ResumeStreamRequest> resumed() const {
    absl::MutexLock lock(&mutex_);
    return resumed_;
  }
  std::vector<std::string> cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

 private:
  static grpc::Status Play(const Script& script, int index, int64_t offset,
                           grpc::ServerWriter<v1::GenerateEvent>& writer) {
    static const std::string kPicture = "data";
    const auto send = [&](const std::string& data) {
      v1::GenerateEvent event;
      event.mutable_image_chunk()->set_index(index++);
      event.mutable_image_chunk()->set_offset(offset);
      event.mutable_image_chunk()->set_total_bytes(static_cast<int64_t>(kPicture.size()));
      event.mutable_image_chunk()->set_data(data);
      writer.Write(event);
      offset = 0;
    };
    for (int i = 0; i < script.pictures; ++i) send(kPicture.substr(static_cast<size_t>(offset)));
    if (!script.part.empty()) send(script.part);
    return script.status;
  }

  // "none": there is none of that name.
  static std::string MetadataOf(const grpc::ServerContext& context, const char* name) {
    const auto header = context.client_metadata().find(name);
    if (header == context.client_metadata().end()) return "none";
    return std::string(header->second.data(), header->second.size());
  }

  void Note(const char* method, const grpc::ServerContext& context) {
    absl::MutexLock lock(&mutex_);
    authorizations_.push_back(absl::StrCat(method, " ", MetadataOf(context, "authorization")));
  }

  Script NextScript(const grpc::ServerContext& context, const v1::GenerateRequest& request) {
    absl::MutexLock lock(&mutex_);
    calls_.push_back({request, MetadataOf(context, "x-latent-bucket")});
    if (scripts_.empty()) return {grpc::Status::OK, 1};
    const Script script = scripts_.front();
    scripts_.pop_front();
    return script;
  }

  mutable absl::Mutex mutex_;
  std::deque<Script> scripts_;
  std::vector<std::pair<int, int>> buckets_ = {{256, 256}};
  std::vector<Call> calls_;
  std::vector<std::string> authorizations_;
  grpc::Status resume_status_;
  std::vector<v1::ResumeStreamRequest> resumed_;
  std::vector<std::string> cancelled_;
  int capabilities_asked_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace latentd::client
