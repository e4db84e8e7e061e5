// GenerateVideo and ResumeVideo: streams whose events are a video's.
#pragma once

#include "server/calls/stream_call.h"

namespace latentd::server::calls {

extern const StreamMethod kGenerateVideo;
extern const StreamMethod kResumeVideo;

}  // namespace latentd::server::calls
