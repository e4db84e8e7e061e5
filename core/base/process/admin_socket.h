// The default address at which a latentd's operators reach it on its own machine: a Unix socket,
// named after the port of --listen, in a folder that is its user's alone. One rule for the server,
// which makes both, and for its client, which looks for them.
//
// Thread-safe: free functions without state.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd {

// $XDG_RUNTIME_DIR/latentd where that is an absolute path, else /tmp/latentd-UID. Null: not set.
std::string AdminSocketFolder(const char* xdg_runtime_dir, uid_t user);
// The same for this process.
std::string AdminSocketFolder();

// unix:FOLDER/PORT.sock
std::string AdminSocketAddress(absl::string_view folder, absl::string_view port);

// OK if the folder is this user's and closed to all others, so that its content is this user's too.
// FAILED_PRECONDITION says what is wrong with it; NOT_FOUND: there is none.
absl::Status CheckOwnFolder(const std::string& folder);

// Makes it so, where there is none.
absl::Status MakeOwnFolder(const std::string& folder);

}  // namespace latentd
