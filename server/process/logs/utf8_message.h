// Messages whose strings are UTF-8, whatever they were made of. Protobuf writes other bytes without
// a word, and no client can then read any of the message.
#pragma once

#include <google/protobuf/message.h>

namespace latentd::server::process {

// ToUtf8 (core/base/text/utf8.h) of every string in it, those of messages in it too. What is packed
// in an Any is bytes, and not looked into. Thread-safe; a free function without state.
void MakeUtf8(google::protobuf::Message& message);

}  // namespace latentd::server::process
