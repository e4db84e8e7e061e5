// GenerateVideo: a stream whose events are a video's.
#pragma once

#include "server/calls/stream_call.h"

namespace latentd::server::calls {

extern const StreamMethod kGenerateVideo;

}  // namespace latentd::server::calls
