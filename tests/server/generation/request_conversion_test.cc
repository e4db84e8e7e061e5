#include "server/generation/conversion/request_conversion.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>
#include <string>

#include "core/pipeline/spec/fields.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/conversion/response_conversion.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> BadFields(const v1::GenerateRequest& request) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ToSpec(request).violations) {
    fields.push_back(violation.field);
  }
  return fields;
}

v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.set_prompt("a star");
  return request;
}

// Gives every field of a message a value of its own.
class Filler {
 public:
  void Fill(Message& message) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      Set(message, *message.GetDescriptor()->field(i));
    }
  }

 private:
  void Set(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    ++number_;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.SetInt32(&message, &field, number_);
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.AddInt64(&message, &field, number_);
      case FieldDescriptor::CPPTYPE_UINT64:
        return field.is_repeated() ? reflection.AddUInt64(&message, &field, number_)
                                   : reflection.SetUInt64(&message, &field, number_);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return field.is_repeated() ? reflection.AddDouble(&message, &field, number_ + 0.5)
                                   : reflection.SetDouble(&message, &field, number_ + 0.5);
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.SetBool(&message, &field, true);
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection.SetEnumValue(&message, &field, field.enum_type()->value_count() - 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return field.is_repeated()
                   ? reflection.AddString(&message, &field, std::to_string(number_))
                   : reflection.SetString(&message, &field, std::to_string(number_));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                        : *reflection.MutableMessage(&message, &field));
      default:
        FAIL() << "no value for " << field.full_name();
    }
  }

  int number_ = 0;
};

// Converts to the engine's spec and back: only fields that are converted both ways can come back.
v1::GenerateRequest RoundTrip(const v1::GenerateRequest& request) {
  const ConvertedRequest converted = ToSpec(request);
  engine::Completed completed;
  completed.effective = converted.spec.picture;
  return ToProto(completed, converted.spec.output).parameters();
}

// The Filler's tensors have the last type that there is.
void ExpectTensor(const std::optional<pipeline::HostTensor>& tensor, const v1::Tensor& wanted) {
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->type, pipeline::HostTensor::Type::kBFloat16);
  EXPECT_THAT(tensor->shape, ::testing::ElementsAreArray(wanted.shape()));
  EXPECT_EQ(tensor->data, wanted.data());
}

TEST(RequestConversionTest, EveryFieldReachesTheSpecAndComesBackInTheParameters) {
  v1::GenerateRequest request;
  Filler().Fill(request);
  request.clear_seed();  // seeds is the other way to say it
  request.mutable_output()->set_format(v1::FORMAT_WEBP);
  request.mutable_output()->clear_embed_parameters();
  v1::GenerateRequest expected = request;
  expected.clear_request_id();  // told in every event
  expected.clear_image();
  expected.clear_mask_image();
  expected.clear_latents();
  expected.mutable_controls(0)->clear_image();
  expected.mutable_ip_adapters(0)->clear_image();
  expected.mutable_ip_adapters(0)->clear_more_images();
  expected.mutable_ip_adapters(0)->clear_image_embeds();
  expected.clear_prompt_embeds();
  expected.clear_pooled_prompt_embeds();
  expected.clear_negative_prompt_embeds();
  expected.clear_negative_pooled_prompt_embeds();
  expected.clear_priority();  // the request's, not its pictures'
  expected.clear_resumable();
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, RoundTrip(request))) << difference;
  const ConvertedRequest converted = ToSpec(request);
  EXPECT_EQ(converted.spec.request_id, request.request_id());
  EXPECT_EQ(converted.spec.inputs->image, request.image());
  EXPECT_EQ(converted.spec.inputs->mask_image, request.mask_image());
  EXPECT_EQ(converted.spec.inputs->latents, request.latents());
  EXPECT_THAT(converted.spec.inputs->control_images, ElementsAre(request.controls(0).image()));
  EXPECT_THAT(converted.spec.inputs->ip_adapter_images,
              ElementsAre(ElementsAre(request.ip_adapters(0).image(),
                                      request.ip_adapters(0).more_images(0))));
  ExpectTensor(converted.spec.inputs->ip_adapter_embeds.front(),
               request.ip_adapters(0).image_embeds());
  ExpectTensor(converted.spec.inputs->prompt.states, request.prompt_embeds());
  ExpectTensor(converted.spec.inputs->prompt.pooled, request.pooled_prompt_embeds());
  ExpectTensor(converted.spec.inputs->negative.states, request.negative_prompt_embeds());
  ExpectTensor(converted.spec.inputs->negative.pooled, request.negative_pooled_prompt_embeds());
  EXPECT_EQ(converted.spec.priority, request.priority());
  EXPECT_THAT(converted.violations, IsEmpty());
}

TEST(RequestConversionTest, TensorsAreOfTheirType) {
  using Type = pipeline::HostTensor::Type;
  EXPECT_EQ(FromProto(v1::Tensor::DTYPE_UNSPECIFIED), Type::kFloat32);
  EXPECT_EQ(FromProto(v1::Tensor::DTYPE_FLOAT32), Type::kFloat32);
  EXPECT_EQ(FromProto(v1::Tensor::DTYPE_FLOAT16), Type::kFloat16);
  EXPECT_EQ(FromProto(v1::Tensor::DTYPE_BFLOAT16), Type::kBFloat16);
}

TEST(RequestConversionTest, APromptIsNotRequiredBesideItsEmbeddings) {
  v1::GenerateRequest request;
  EXPECT_THAT(BadFields(request), ElementsAre("prompt"));
  request.mutable_prompt_embeds();
  EXPECT_THAT(BadFields(request), IsEmpty());
  request.mutable_prompt_embeds()->set_dtype(static_cast<v1::Tensor::Dtype>(9));
  EXPECT_THAT(BadFields(request), ElementsAre("prompt_embeds.dtype"));
  EXPECT_TRUE(ToSpec(request).spec.inputs->prompt.states.has_value());
  EXPECT_EQ(ToSpec(Good()).spec.inputs, nullptr);
}

TEST(RequestConversionTest, BucketPoliciesGoBothWays) {
  v1::GenerateRequest request = Good();
  EXPECT_EQ(ToSpec(request).spec.picture.bucket_policy, pipeline::BucketPolicy::kExact);
  EXPECT_EQ(RoundTrip(request).bucket_policy(), v1::BUCKET_POLICY_EXACT);
  for (const v1::BucketPolicy policy :
       {v1::BUCKET_POLICY_EXACT, v1::BUCKET_POLICY_SNAP, v1::BUCKET_POLICY_COLD_OK}) {
    request.set_bucket_policy(policy);
    EXPECT_EQ(RoundTrip(request).bucket_policy(), policy);
  }
}

TEST(RequestConversionTest, FormatsGoBothWays) {
  v1::GenerateRequest request = Good();
  for (const v1::Format format :
       {v1::FORMAT_PNG, v1::FORMAT_JPEG, v1::FORMAT_WEBP, v1::FORMAT_RAW_RGB8, v1::FORMAT_LATENT}) {
    request.mutable_output()->set_format(format);
    EXPECT_EQ(RoundTrip(request).output().format(), format);
  }
}

TEST(RequestConversionTest, SeedComesBackWhereThereAreNoSeeds) {
  v1::GenerateRequest request = Good();
  request.set_seed(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(RoundTrip(request).seed(), std::numeric_limits<uint64_t>::max());
}

TEST(RequestConversionTest, PngCanLeaveOutItsParameters) {
  v1::GenerateRequest request = Good();
  request.mutable_output()->set_embed_parameters(false);
  EXPECT_FALSE(ToSpec(request).spec.output.embed_parameters);
  EXPECT_TRUE(ToSpec(Good()).spec.output.embed_parameters);
}

TEST(RequestConversionTest, FieldsThatAreNotSetStayAbsent) {
  const pipeline::PictureSpec picture = ToSpec(Good()).spec.picture;
  EXPECT_FALSE(picture.width || picture.seed || picture.guidance_scale || picture.prompt_2);
  EXPECT_FALSE(picture.scheduler.use_karras_sigmas || picture.original_size);
  EXPECT_TRUE(picture.seeds.empty() && picture.timesteps.empty());
}

// Fields of a request that say nothing of its images, files and tensors.
const std::set<std::string> kWithoutRow = {"request_id",
                                           "output",
                                           "image",
                                           "mask_image",
                                           "latents",
                                           "priority",
                                           "resumable",
                                           "prompt_embeds",
                                           "negative_prompt_embeds",
                                           "pooled_prompt_embeds",
                                           "negative_pooled_prompt_embeds"};

TEST(FieldTableTest, EveryOtherFieldOfARequestHasARow) {
  std::set<std::string> fields, rows = kWithoutRow;
  for (int i = 0; i < v1::GenerateRequest::descriptor()->field_count(); ++i) {
    fields.insert(v1::GenerateRequest::descriptor()->field(i)->name());
  }
  for (const pipeline::Field& row : pipeline::Fields()) {
    EXPECT_TRUE(rows.emplace(row.name.substr(0, row.name.find('.'))).second) << row.name;
  }
  EXPECT_EQ(rows, fields);
}

TEST(FieldTableTest, LimitsAreNumbersOfTheCapabilities) {
  std::set<std::string> limits;
  for (const pipeline::Field& row : pipeline::Fields()) {
    limits.insert(row.limits.begin(), row.limits.end());
  }
  EXPECT_EQ(limits.size(), 9u);
  for (const std::string& limit : limits) {
    const auto* field = v1::GetCapabilitiesResponse::descriptor()->FindFieldByName(limit);
    ASSERT_NE(field, nullptr) << limit;
    EXPECT_THAT(field->cpp_type(),
                AnyOf(FieldDescriptor::CPPTYPE_INT32, FieldDescriptor::CPPTYPE_INT64,
                      FieldDescriptor::CPPTYPE_DOUBLE));
  }
}

TEST(RequestFormTest, AnEmptyPromptIsNamed) {
  EXPECT_THAT(BadFields(v1::GenerateRequest()), ElementsAre("prompt"));
}

TEST(RequestFormTest, NumbersAreFinite) {
  v1::GenerateRequest request = Good();
  request.set_guidance_scale(std::numeric_limits<double>::quiet_NaN());
  request.add_sigmas(1);
  request.add_sigmas(std::numeric_limits<double>::infinity());
  EXPECT_THAT(BadFields(request), ElementsAre("guidance_scale", "sigmas"));
}

TEST(RequestFormTest, EnumValuesAreKnown) {
  v1::GenerateRequest request = Good();
  request.mutable_output()->set_format(static_cast<v1::Format>(77));
  request.set_bucket_policy(static_cast<v1::BucketPolicy>(4));
  EXPECT_THAT(BadFields(request), ElementsAre("output.format", "bucket_policy"));
  EXPECT_THAT(ToSpec(request).violations[0].description, HasSubstr("FORMAT_JPEG"));
}

TEST(RequestFormTest, AFieldOfANewerApiIsNotIgnored) {
  v1::GenerateRequest request = Good();
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(4711, 1);
  EXPECT_THAT(BadFields(request), ElementsAre("4711"));
}

TEST(RequestFormTest, NotAllOfVeryManyFieldsAreNamed) {
  v1::GenerateRequest request = Good();
  for (int i = 0; i < 1000; ++i) {
    v1::Adapter& adapter = *request.add_adapters();
    adapter.GetReflection()->MutableUnknownFields(&adapter)->AddVarint(4711, 1);
  }
  const std::vector<std::string> bad = BadFields(request);
  EXPECT_EQ(bad.size(), 64u);
  EXPECT_EQ(bad.back(), "adapters[63].4711");
}

TEST(RequestFormTest, RequestIdsAreWords) {
  v1::GenerateRequest request = Good();
  request.set_request_id("order-17:a.b_c");
  EXPECT_THAT(BadFields(request), IsEmpty());
  request.set_request_id("two words");
  EXPECT_THAT(BadFields(request), ElementsAre("request_id"));
  request.set_request_id(std::string(kMaxRequestIdBytes + 1, 'x'));
  EXPECT_THAT(BadFields(request), ElementsAre("request_id"));
}

TEST(RequestFormTest, OutputOptionsBelongToTheirFormat) {
  v1::GenerateRequest request = Good();
  request.mutable_output()->set_quality(50);
  EXPECT_THAT(BadFields(request), ElementsAre("output.quality"));
  request.mutable_output()->set_format(v1::FORMAT_JPEG);
  EXPECT_THAT(BadFields(request), IsEmpty());
  request.mutable_output()->set_embed_parameters(true);
  EXPECT_THAT(BadFields(request), ElementsAre("output.embed_parameters"));
}

TEST(RequestFormTest, AnEmptyImageIsNamed) {
  v1::GenerateRequest request = Good();
  request.set_image("");
  EXPECT_THAT(BadFields(request), ElementsAre("image"));
}

TEST(RequestFormTest, EmptyLatentsAreNamed) {
  v1::GenerateRequest request = Good();
  request.set_latents("");
  EXPECT_THAT(BadFields(request), ElementsAre("latents"));
}

}  // namespace
}  // namespace latentd::server::generation
