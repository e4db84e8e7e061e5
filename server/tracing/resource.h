// The sender of spans: the attributes of OTLP's Resource.
//
// Pure: any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "otlp/trace_service.pb.h"

namespace latentd::server::tracing {

// Makes it of OpenTelemetry's variables, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// ("key=value,key=value", values percent-encoded); null: not set. The service's name is "latentd"
// where neither says it, its version always `version`. INVALID_ARGUMENT names the variable that is
// of the wrong form.
absl::StatusOr<opentelemetry::proto::collector::trace::v1::Resource> MakeResource(
    const std::string& version, const char* service_name, const char* attributes);

}  // namespace latentd::server::tracing
