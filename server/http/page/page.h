// The page at "/", for people with a browser: files of this directory, which are compiled into the
// program. It draws by the same paths as every client, and has nothing that is secret.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

struct PageFile {
  absl::string_view name;    // "page.js"
  absl::string_view digest;  // changes with its text
  absl::string_view text;
};

const std::vector<PageFile>& PageFiles();

// Path that it is served at: "/" of index.html, "/page/page.js".
std::string PathOf(const PageFile& file);

// The file at that path, or null.
const PageFile* FindPageFile(absl::string_view path);

// The file, or, where the client has it, that it is still the same. `file` outlives the answer.
Answer ShowPageFile(const PageFile& file, const Request& request);

}  // namespace latentd::server::http
