#include "server/calls/encode_method.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/tensor_file.h"
#include "server/calls/request_parser.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;

// The same request for a picture.
v1::GenerateRequest ToGenerate(const v1::EncodeRequest& encode) {
  v1::GenerateRequest request;
  request.set_request_id(encode.request_id());
  request.set_prompt(encode.prompt());
  if (encode.has_prompt_2()) request.set_prompt_2(encode.prompt_2());
  if (encode.has_negative_prompt()) request.set_negative_prompt(encode.negative_prompt());
  if (encode.has_negative_prompt_2()) request.set_negative_prompt_2(encode.negative_prompt_2());
  if (encode.has_prompt_syntax()) request.set_prompt_syntax(encode.prompt_syntax());
  if (encode.has_long_prompt()) request.set_long_prompt(encode.long_prompt());
  if (encode.has_clip_skip()) request.set_clip_skip(encode.clip_skip());
  if (encode.has_clip_skip_a1111()) request.set_clip_skip_a1111(encode.clip_skip_a1111());
  request.set_model(encode.model());
  *request.mutable_adapters() = encode.adapters();
  request.set_priority(encode.priority());
  return request;
}

absl::Status ParseEncode(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed) {
  v1::EncodeRequest encode;
  const absl::Status read = ParseRequest(bytes, encode);
  parsed.request = ToGenerate(encode);
  parsed.embeds = generation::FromProto(encode.dtype());
  RETURN_IF_ERROR(read);
  return CheckFields(encode);
}

v1::Tensor::Dtype DtypeOf(const NamedTensor& tensor) {
  if (tensor.dtype == "F16") return v1::Tensor::DTYPE_FLOAT16;
  return tensor.dtype == "BF16" ? v1::Tensor::DTYPE_BFLOAT16 : v1::Tensor::DTYPE_FLOAT32;
}

// Moves each tensor of the file to the field of its name.
absl::Status AddTensors(const std::string& file, v1::EncodeResponse& response) {
  auto tensors = ParseTensorFile(file, "embeddings");
  if (!tensors.ok()) return absl::InternalError(tensors.status().message());
  for (NamedTensor& tensor : *tensors) {
    const auto* field = v1::EncodeResponse::descriptor()->FindFieldByName(tensor.name);
    if (field == nullptr || field->message_type() != v1::Tensor::descriptor()) {
      return absl::InternalError(absl::StrCat("embeddings of no field: ", tensor.name));
    }
    auto& to =
        static_cast<v1::Tensor&>(*response.GetReflection()->MutableMessage(&response, field));
    to.set_dtype(DtypeOf(tensor));
    to.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
    to.set_data(std::move(tensor.data));
  }
  return absl::OkStatus();
}

absl::StatusOr<grpc::ByteBuffer> AnswerEncode(v1::GenerateResponse collected) {
  v1::EncodeResponse response;
  response.set_request_id(collected.request_id());
  for (const v1::Image& image : collected.images()) {
    RETURN_IF_ERROR(AddTensors(image.data(), response));
  }
  v1::Completed& completed = *collected.mutable_completed();
  response.set_prompt_tokens(completed.prompt_tokens());
  response.set_prompt_chunks(completed.prompt_chunks());
  response.set_dropped_tokens(completed.dropped_tokens());
  *response.mutable_warnings() = std::move(*completed.mutable_warnings());
  *response.mutable_timings() = std::move(*completed.mutable_timings());
  return Serialize(response);
}

}  // namespace

const UnaryMethod kEncode = {"Encode", ParseEncode, AnswerEncode,
                             "ask for dtype FLOAT16 or BFLOAT16, of which they have half as many"};

}  // namespace latentd::server::calls
