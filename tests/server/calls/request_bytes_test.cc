// Every method's answer to bytes that are not its request, and to fields that the server does not
// know: the same.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/client_context.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/generation/conversion/request_fields.h"
#include "tests/server/running_server.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using ::google::protobuf::Descriptor;
using ::google::protobuf::DescriptorPool;
using ::google::protobuf::MethodDescriptor;
using ::google::protobuf::ServiceDescriptor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

// Every method that the server has.
std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* name :
       {"latent.v1.ImageGeneration", "latent.v1.VideoGeneration", "latent.v1.GraphCache",
        "latent.v1.Admin", "latent.v1.Models", "latent.v1.Adapters", "grpc.health.v1.Health"}) {
    const ServiceDescriptor* service = DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

class RequestBytesTest : public RunningServer {
 protected:
  void SetUp() override {
    Start({.imports = {true, {.graph_bytes = 4 << 20, .stream_bytes = 6 << 20}}});
  }

  // At the port where the method is.
  grpc::Status Call(const MethodDescriptor& method, const std::string& bytes) {
    const std::string& service = method.service()->full_name();
    const bool is_operators = service == "latent.v1.GraphCache" || service == "latent.v1.Admin" ||
                              service == "latent.v1.Models" || service == "latent.v1.Adapters";
    grpc::GenericStub stub(is_operators ? admin_channel_ : channel_);
    grpc::ClientContext context;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    absl::Notification done;
    grpc::Status status;
    stub.UnaryCall(&context, absl::StrCat("/", service, "/", method.name()), {}, &request,
                   &response, [&](const grpc::Status& ended) {
                     status = ended;
                     done.Notify();
                   });
    done.WaitForNotification();
    return status;
  }

  static std::vector<std::string> BadFieldsOf(const grpc::Status& status) {
    std::vector<std::string> fields;
    const auto detail = DetailOf<google::rpc::BadRequest>(status);
    for (const auto& violation : detail.field_violations()) fields.push_back(violation.field());
    return fields;
  }

  const std::vector<const MethodDescriptor*> methods_ = AllMethods();
};

TEST_F(RequestBytesTest, ThereAreMethods) { EXPECT_THAT(methods_, SizeIs(35)); }

TEST_F(RequestBytesTest, BytesThatAreNoMessageAreNamedByEveryMethod) {
  for (const MethodDescriptor* method : methods_) {
    const grpc::Status status = Call(*method, "\xff\xff\xff");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method->full_name();
    EXPECT_EQ(ReasonOf(status), "MALFORMED") << method->full_name();
    EXPECT_THAT(status.error_message(), HasSubstr(method->input_type()->full_name()));
  }
}

TEST_F(RequestBytesTest, FieldsOfANewerClientAreNamedByEveryMethod) {
  // Numbers 4711 and 4712, each twice.
  const std::string unknown = "\xb8\xa6\x02\x01\xc0\xa6\x02\x01\xb8\xa6\x02\x01\xc0\xa6\x02\x01";
  for (const MethodDescriptor* method : methods_) {
    if (method->file()->package() == "grpc.health.v1") continue;  // not latentd's own
    const grpc::Status status = Call(*method, unknown);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method->full_name();
    const std::vector<std::string> fields = BadFieldsOf(status);
    EXPECT_EQ(std::count(fields.begin(), fields.end(), "4711"), 1) << method->full_name();
    EXPECT_EQ(std::count(fields.begin(), fields.end(), "4712"), 1) << method->full_name();
  }
}

TEST_F(RequestBytesTest, AFieldOfAnotherTypeIsNamed) {
  // Field 6, `width`, as a text; field 1 of `output`, `format`, as a double.
  const std::string bytes("\x32\x02hi\xb2\x02\x09\x09\x00\x00\x00\x00\x00\x00\x00\x00", 16);
  const grpc::Status status = Call(
      *DescriptorPool::generated_pool()->FindMethodByName("latent.v1.ImageGeneration.Generate"),
      bytes);
  EXPECT_THAT(BadFieldsOf(status), IsSupersetOf({"width", "output.format"}));
  EXPECT_THAT(status.error_message(), HasSubstr("another type"));
}

TEST_F(RequestBytesTest, CapabilitiesListTheFieldsOfARequest) {
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_TRUE(stub_->GetCapabilities(&context, {}, &capabilities).ok());
  const std::vector<std::string> fields(capabilities.request_fields().begin(),
                                        capabilities.request_fields().end());
  EXPECT_THAT(fields, IsSupersetOf({"prompt", "output", "output.format", "original_size.width",
                                    "crops_coords_top_left.left", "bucket_policy"}));
  // The list has all fields of a request, and nothing else.
  const Descriptor& type = *v1::GenerateRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    EXPECT_THAT(fields, Contains(type.field(i)->name()));
  }
  EXPECT_THAT(fields, Not(Contains("format")));
  EXPECT_THAT(generation::FieldPaths(*v1::GraphSelector::descriptor()),
              ElementsAre("all", "ids", "components", "buckets", "buckets.width", "buckets.height",
                          "buckets.num_frames", "models"));
}

}  // namespace
}  // namespace latentd::server::calls
