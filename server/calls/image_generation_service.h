// latent.v1.ImageGeneration: a shell around the engine. Its methods take bytes (request_parser.h).
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "latent/v1/image_generation.grpc.pb.h"
#include "server/generation/active_calls.h"

namespace latentd::server::calls {

using ImageGenerationBase = latent::v1::ImageGeneration::WithRawCallbackMethod_Generate<
    latent::v1::ImageGeneration::WithRawCallbackMethod_Encode<
        latent::v1::ImageGeneration::WithRawCallbackMethod_GenerateStream<
            latent::v1::ImageGeneration::WithRawCallbackMethod_ResumeStream<
                latent::v1::ImageGeneration::WithRawCallbackMethod_CancelGeneration<
                    latent::v1::ImageGeneration::WithRawCallbackMethod_GetCapabilities<
                        latent::v1::ImageGeneration::Service>>>>>>;

// Referents of `environment` outlive the grpc::Server that this is registered with.
class ImageGenerationService final : public ImageGenerationBase {
 public:
  ImageGenerationService(generation::CallEnvironment environment, std::string version);

  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Encode(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateStream(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ResumeStream(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* CancelGeneration(grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;

 private:
  const generation::CallEnvironment environment_;
  const std::string version_;
};

}  // namespace latentd::server::calls
