// libFuzzer target: any bytes as a tokenizer.json.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/tokenizer/clip_tokenizer.h"

namespace {

// A tokenizer's folder, with settings that leave much to tokenizer.json.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tokenizer.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
    Write("tokenizer_config.json", R"({"pad_token": "!"})");
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  folder.Write("tokenizer.json", std::string(reinterpret_cast<const char*>(data), size));
  const auto tokenizer = latentd::tokenizer::ClipTokenizer::Load(folder.path());
  if (!tokenizer.ok()) return 0;
  // An accepted tokenizer must be usable, and give ids.
  for (const char* text :
       {"", "ab abb ba a!b", "<|endoftext|>ab <x>b", "\xC3\xA9\xFF caf\xCC\x81"}) {
    const auto encoding = (*tokenizer)->EncodePadded(text);
    for (const int64_t id : encoding.ids) {
      if (id < 0 || id >= (*tokenizer)->vocabulary_size()) std::abort();
    }
  }
  return 0;
}
