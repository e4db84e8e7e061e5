#include "client/options/embeds_file.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/options/files.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/tensor_file.h"

namespace latentd::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kNegative[] = "negative_", kPooled[] = "pooled_";

// The field of the pooled states beside hidden ones; that of the pooled ones itself is not called
// so twice, and null.
const FieldDescriptor* PooledOf(const FieldDescriptor& field) {
  absl::string_view rest = field.name();
  const bool negative = absl::ConsumePrefix(&rest, kNegative);
  return field.containing_type()->FindFieldByName(
      absl::StrCat(negative ? kNegative : "", kPooled, rest));
}

// The tensor for the field, or, in a file of one prompt, which may be a negative one, that of its
// positive like; null: there is none.
const NamedTensor* TensorFor(const FieldDescriptor& field,
                             const std::vector<NamedTensor>& tensors) {
  const bool has_negative = absl::c_any_of(
      tensors, [](const NamedTensor& one) { return absl::StartsWith(one.name, kNegative); });
  return FindTensor(tensors, has_negative ? absl::string_view(field.name())
                                          : absl::StripPrefix(field.name(), kNegative));
}

absl::Status SetTensor(const NamedTensor& tensor, const std::string& path, v1::Tensor& to) {
  if (tensor.dtype == "F32") {
    to.set_dtype(v1::Tensor::DTYPE_FLOAT32);
  } else if (tensor.dtype == "F16") {
    to.set_dtype(v1::Tensor::DTYPE_FLOAT16);
  } else if (tensor.dtype == "BF16") {
    to.set_dtype(v1::Tensor::DTYPE_BFLOAT16);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", tensor.name, " must be of F32, F16 ",
                                                   "or BF16, is of ", tensor.dtype));
  }
  to.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  to.set_data(tensor.data);
  return absl::OkStatus();
}

// The format's name of it.
const char* DtypeOf(const v1::Tensor& tensor) {
  if (tensor.dtype() == v1::Tensor::DTYPE_FLOAT16) return "F16";
  return tensor.dtype() == v1::Tensor::DTYPE_BFLOAT16 ? "BF16" : "F32";
}

absl::Status SetField(const NamedTensor& tensor, const std::string& path,
                      const FieldDescriptor& field, Message& request) {
  Message* to = request.GetReflection()->MutableMessage(&request, &field);
  return SetTensor(tensor, path, static_cast<v1::Tensor&>(*to));
}

absl::Status HasNone(const std::string& path, absl::string_view name,
                     const std::vector<NamedTensor>& tensors) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has no tensor ", name, "; it has ",
                   absl::StrJoin(tensors, ", ", [](std::string* out, const NamedTensor& one) {
                     absl::StrAppend(out, one.name);
                   })));
}

}  // namespace

absl::Status ReadEmbeds(const std::string& path, const FieldDescriptor& field, Message& request) {
  ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors, ParseTensorFile(file, path));
  const NamedTensor* tensor = TensorFor(field, tensors);
  if (tensor == nullptr) return HasNone(path, field.name(), tensors);
  RETURN_IF_ERROR(SetField(*tensor, path, field, request));
  const FieldDescriptor* pooled = PooledOf(field);
  if (pooled == nullptr || request.GetReflection()->HasField(request, pooled)) {
    return absl::OkStatus();
  }
  const NamedTensor* beside = TensorFor(*pooled, tensors);
  return beside == nullptr ? absl::OkStatus() : SetField(*beside, path, *pooled, request);
}

bool IsTensorFile(absl::string_view bytes) {
  // The length of the header in eight bytes, and its object.
  constexpr size_t kLengthBytes = 8;
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != '{') return false;
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return length <= bytes.size() - kLengthBytes;
}

absl::Status ReadImageEmbeds(absl::string_view file, const std::string& path, v1::Tensor& to) {
  constexpr char kName[] = "image_embeds";
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors, ParseTensorFile(file, path));
  const NamedTensor* named = FindTensor(tensors, kName);
  if (named == nullptr && tensors.size() == 1) named = &tensors.front();
  return named == nullptr ? HasNone(path, kName, tensors) : SetTensor(*named, path, to);
}

std::string EmbedsFile(const v1::EncodeResponse& response) {
  std::vector<NamedTensor> tensors;
  std::vector<const FieldDescriptor*> fields;
  response.GetReflection()->ListFields(response, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() != v1::Tensor::descriptor()) continue;
    const auto& tensor =
        static_cast<const v1::Tensor&>(response.GetReflection()->GetMessage(response, field));
    tensors.push_back({field->name(),
                       DtypeOf(tensor),
                       {tensor.shape().begin(), tensor.shape().end()},
                       tensor.data()});
  }
  return TensorFile(tensors);
}

}  // namespace latentd::client
