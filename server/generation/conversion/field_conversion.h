// Conversion of the fields of a request between the proto and a spec: of each row of the table
// (core/pipeline/spec/fields.h; of videos, video_fields.h), whose name is the proto's.
//
// Thread-safe: free functions without state.
#pragma once

#include "core/pipeline/spec/fields.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::server::generation {

// Sets the fields that the request has. A value that its enum does not have is its default.
void SetFields(const latent::v1::GenerateRequest& request, pipeline::PictureSpec& spec);
// The same of a video, which the spec is of then.
void SetFields(const latent::v1::GenerateVideoRequest& request, pipeline::PictureSpec& spec);

// Sets the fields that the spec has.
void SetFields(const pipeline::PictureSpec& spec, latent::v1::GenerateRequest& request);
// REQUIRES: the spec is of a video.
void SetFields(const pipeline::PictureSpec& spec, latent::v1::GenerateVideoRequest& request);

}  // namespace latentd::server::generation
