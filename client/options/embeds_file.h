// Embeddings of a request in a safetensors file: tensors that are named like its fields.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Reads the tensor of the field's name into it, and beside hidden states the pooled ones of the
// file into their field, unless that is set. A negative field takes what is not called negative
// where the file has no other. INVALID_ARGUMENT names the file and what it lacks.
absl::Status ReadEmbeds(const std::string& path, const google::protobuf::FieldDescriptor& field,
                        google::protobuf::Message& request);

// True for bytes that can be such a file, and no image.
bool IsTensorFile(absl::string_view bytes);

// Embeddings of an IP-Adapter's images: the tensor "image_embeds" of the file, or the only one that
// it has. Errors as ReadEmbeds'.
absl::Status ReadImageEmbeds(absl::string_view file, const std::string& path, v1::Tensor& to);

// The file of an answer's embeddings.
std::string EmbedsFile(const v1::EncodeResponse& response);

}  // namespace latentd::client
