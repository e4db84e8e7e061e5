// Text of spans for tests.
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/tracing/span_sender.h"

namespace latentd::server::tracing {

// By key, numbers as text.
inline std::map<std::string, std::string> AttributesOf(const Span& span) {
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : span.attributes()) {
    const auto& value = attribute.value();
    attributes[attribute.key()] =
        value.has_string_value() ? value.string_value() : absl::StrCat(value.int_value());
  }
  return attributes;
}

// "steps base 0": its name, and the model and picture that it is of.
inline std::string NameOf(const Span& span) {
  std::string name = span.name();
  auto attributes = AttributesOf(span);
  for (const char* key : {"latentd.model", "latentd.image"}) {
    if (attributes.contains(key)) absl::StrAppend(&name, " ", attributes[key]);
  }
  return name;
}

}  // namespace latentd::server::tracing
