#include "server/http/exchange/proto_json.h"

#include <google/protobuf/util/json_util.h>

#include <memory>
#include <string>

#include "server/process/logs/utf8_message.h"

namespace latentd::server::http {

nlohmann::ordered_json ToJson(const google::protobuf::Message& message) {
  const std::unique_ptr<google::protobuf::Message> copy(message.New());
  copy->CopyFrom(message);
  process::MakeUtf8(*copy);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(*copy, &text, options).ok()) return {};
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? nlohmann::ordered_json() : json;
}

}  // namespace latentd::server::http
