// latent.v1.VideoGeneration: a shell around the engine, as ImageGenerationService is.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "latent/v1/video_generation.grpc.pb.h"
#include "server/generation/active_calls.h"

namespace latentd::server::calls {

using VideoGenerationBase = latent::v1::VideoGeneration::WithRawCallbackMethod_GenerateVideo<
    latent::v1::VideoGeneration::WithRawCallbackMethod_ResumeVideo<
        latent::v1::VideoGeneration::WithRawCallbackMethod_CancelVideo<
            latent::v1::VideoGeneration::WithRawCallbackMethod_GetVideoCapabilities<
                latent::v1::VideoGeneration::Service>>>>;

// Referents of `environment` outlive the grpc::Server that this is registered with.
class VideoGenerationService final : public VideoGenerationBase {
 public:
  VideoGenerationService(generation::CallEnvironment environment, std::string version);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateVideo(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ResumeVideo(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* CancelVideo(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetVideoCapabilities(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) override;

 private:
  const generation::CallEnvironment environment_;
  const std::string version_;
};

}  // namespace latentd::server::calls
