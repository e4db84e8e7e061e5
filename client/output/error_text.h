// A failed call in words, and as the exit code that `latent` ends with.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

namespace latentd::client {

enum class ExitCode {
  kOk = 0,
  kFailed = 1,       // the server or this side failed
  kUsage = 2,        // wrong options
  kUnreachable = 3,  // no server there
  kRefused = 4,      // the server does not do this, or not now
  kInterrupted = 130,
};

// The server's words: the message, each bad field on a line of its own, and when to try again.
// Ends without a newline. `field_spelling` turns a field's name into what the user typed.
std::string ErrorText(const grpc::Status& status, const std::string& server,
                      std::string (*field_spelling)(const std::string&));

// `connected`: whether the server had answered anything before.
ExitCode ExitCodeFor(const grpc::Status& status, bool connected);

}  // namespace latentd::client
