// Stop signals before a thread waits for them: SIGTERM, SIGINT, and SIGHUP, which a terminal that
// closes sends, unless the process was started to ignore that (nohup).
#pragma once

#include <csignal>

namespace latentd {

// All of them, for sigwait.
sigset_t StopSignalSet();

// Each ends the process at once, with 128 + their number, until BlockStopSignals. By handlers: the
// kernel drops a signal without one where the process is the first of a container. Call first in
// main.
void EndAtStopSignals();

// Blocks them in this thread and in those that it starts from now on. Call before any thread is
// started, as a gRPC channel does, and after the last file was read: until then a signal ends the
// process at once, however long a pipe or a file system keeps it waiting.
void BlockStopSignals();

}  // namespace latentd
