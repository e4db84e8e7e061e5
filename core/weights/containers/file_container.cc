#include "core/weights/containers/file_container.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace latentd::weights {
namespace {

// $0 is the path. What is no tensor in a checkpoint is left out, and tensors that share memory,
// which safetensors does not write, are copied.
constexpr char kUnpickle[] =
    ", which can run code when it is loaded and is not read: convert it once in Python, "
    "import torch, safetensors.torch; d = torch.load(\"$0\", weights_only=True, "
    "map_location=\"cpu\"); d = d.get(\"state_dict\", d); safetensors.torch.save_file({k: "
    "v.clone() for k, v in d.items() if isinstance(v, torch.Tensor)}, \"FILE.safetensors\"), and "
    "give FILE.safetensors";

// A safetensors file begins with the length of its header, of eight bytes, the upper four of which
// are 0: it is below 4 GB. None of the others has zeros there.
bool IsLikeSafetensors(absl::string_view bytes) {
  constexpr size_t kLengthBytes = 8;
  if (bytes.size() < kLengthBytes) return false;
  const absl::string_view upper = bytes.substr(4, 4);
  return std::all_of(upper.begin(), upper.end(), [](char byte) { return byte == 0; });
}

// Protocols 2 to 5; torch.save writes the first.
bool IsPickle(absl::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

bool IsLfsPointer(absl::string_view bytes) {
  return absl::StartsWith(bytes, "version https://git-lfs");
}

// Pointers have three lines, the last of which is "size N".
std::string DescribeLfsPointer(absl::string_view bytes) {
  constexpr size_t kMostBytes = 1024;  // by the specification of pointers
  uint64_t size = 0;
  bool found = false;
  for (absl::string_view line : absl::StrSplit(bytes.substr(0, kMostBytes), '\n')) {
    if (absl::ConsumePrefix(&line, "size ")) found = absl::SimpleAtoi(line, &size);
  }
  return absl::StrCat("a Git LFS pointer",
                      found ? absl::StrCat(" to a file of ", size, " bytes") : "",
                      ", not the file itself, which was not downloaded: fetch it with git lfs "
                      "pull in its repository");
}

// Behind white space and a byte order mark.
bool IsWebPage(absl::string_view bytes) {
  absl::ConsumePrefix(&bytes, "\xEF\xBB\xBF");
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(bytes.substr(0, 256)), "<");
}

}  // namespace

std::string DescribeContainer(absl::string_view bytes, absl::string_view path) {
  if (IsLikeSafetensors(bytes)) return "";
  const std::string unpickle = absl::StrReplaceAll(kUnpickle, {{"$0", path}});
  if (absl::StartsWith(bytes, "PK\x03\x04")) {
    return absl::StrCat("a zip archive, as torch saves a pickle (.ckpt, .pt, .bin)", unpickle);
  }
  if (IsPickle(bytes)) return absl::StrCat("a pickle, as torch once saved it", unpickle);
  if (absl::StartsWith(bytes, "GGUF")) {
    return "a GGUF file, whose quantised weights are not read: give the checkpoint that it was "
           "made "
           "of, as safetensors";
  }
  if (IsLfsPointer(bytes)) return DescribeLfsPointer(bytes);
  if (IsWebPage(bytes)) {
    return "a web page, as a site answers that wants a login or does not have the file: download "
           "it again, signed in or with an access token";
  }
  return "";
}

}  // namespace latentd::weights
