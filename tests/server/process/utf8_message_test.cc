#include "server/process/logs/utf8_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "latent/v1/admin.pb.h"
#include "latent/v1/graph_cache.pb.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::process {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(Utf8MessageTest, EveryStringBecomesUtf8) {
  v1::GetCapabilitiesResponse message;
  message.set_backend("cpu\xE9");
  message.add_models()->set_name("caf\xE9");
  message.add_models()->set_name("caf\xC3\xA9");
  message.add_schedulers("one");
  message.add_schedulers("tw\xFF");
  MakeUtf8(message);
  EXPECT_EQ(message.backend(), "cpu\\xe9");
  EXPECT_EQ(message.models(0).name(), "caf\\xe9");
  EXPECT_EQ(message.models(1).name(), "caf\xC3\xA9");
  EXPECT_THAT(message.schedulers(), ElementsAre("one", "tw\\xff"));
}

TEST(Utf8MessageTest, SoDoesWhatIsDeepInIt) {
  v1::WarmBucketsEvent event;
  event.mutable_progress()->mutable_result()->mutable_error()->set_message("no \xE9");
  MakeUtf8(event);
  EXPECT_EQ(event.progress().result().error().message(), "no \\xe9");
}

TEST(Utf8MessageTest, SoDoKeysAndValuesOfMaps) {
  google::rpc::ErrorInfo info;
  (*info.mutable_metadata())["file"] = "caf\xE9";
  (*info.mutable_metadata())["\xE9"] = "key";
  MakeUtf8(info);
  EXPECT_THAT(info.metadata(),
              UnorderedElementsAre(Pair("file", "caf\\xe9"), Pair("\\xe9", "key")));
  google::rpc::ErrorInfo read;
  EXPECT_TRUE(read.ParseFromString(info.SerializeAsString()));
}

TEST(Utf8MessageTest, BytesStayBytes) {
  v1::ImageChunk chunk;
  chunk.set_data("\xFF\xD8");
  MakeUtf8(chunk);
  EXPECT_EQ(chunk.data(), "\xFF\xD8");
}

}  // namespace
}  // namespace latentd::server::process
