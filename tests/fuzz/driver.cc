// Stands in for libFuzzer where the compiler has none: feeds a target its seeds and mutations of
// them, always the same ones, so that every build shows that the target builds and holds.
//
//   NAME_fuzz SEED_DIRECTORY
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerSeed = 3000;

void Feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::vector<std::string> ReadSeeds(const char* directory) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// One to four of: another byte, a piece repeated elsewhere, a piece cut out.
std::string Mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&random](size_t n) { return n == 0 ? 0 : random() % n; };
  for (size_t round = 1 + below(4); round > 0 && !bytes.empty(); --round) {
    const size_t at = below(bytes.size());
    switch (below(3)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(32)));
        break;
      default:
        bytes.erase(at, below(32));
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> seeds =
      argc == 2 ? ReadSeeds(argv[1]) : std::vector<std::string>();
  if (seeds.empty()) {
    std::cerr << "usage: " << argv[0] << " SEED_DIRECTORY, with a seed in it\n";
    return 2;
  }
  std::mt19937 random(1);
  for (const std::string& seed : seeds) {
    Feed(seed);
    for (int i = 0; i < kMutationsPerSeed; ++i) Feed(Mutated(seed, random));
  }
  return 0;
}
