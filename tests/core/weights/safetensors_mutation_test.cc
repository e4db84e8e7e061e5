// Random damage to a file must give an error or a sound result, never a crash. Sanitizers make the
// test stronger: all bytes of what is accepted are read.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "core/weights/containers/safetensors.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::weights {
namespace {

constexpr int kRounds = 20'000;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string Mutate(std::string bytes) {
    for (size_t i = Below(3) + 1; i > 0 && !bytes.empty(); --i) MutateOnce(&bytes);
    return bytes;
  }

 private:
  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  void MutateOnce(std::string* bytes) {
    const size_t at = Below(bytes->size());
    const size_t length = Below(16) + 1;
    switch (Below(6)) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
        break;
      case 1:
        // Characters with a meaning in JSON come more often than by chance.
        (*bytes)[at] = "{}[]\",:0123456789-.eE \\"[Below(23)];
        break;
      case 2:
        bytes->erase(at, length);
        break;
      case 3:
        bytes->insert(at, bytes->substr(Below(bytes->size()), length));
        break;
      case 4:
        bytes->resize(at);
        break;
      default:
        (*bytes)[Below(std::min<size_t>(8, bytes->size()))] = static_cast<char>(Below(256));
    }
  }

  std::mt19937 random_;
};

std::string RealFile() {
  return testing::SafetensorsBytes(
      {testing::FilledTensor("text_model.embeddings.token_embedding.weight", {3, 4}, 0.5),
       {"text_model.embeddings.position_ids", "I64", {1, 2}, std::string(16, '\1')},
       {"text_model.final_layer_norm.bias", "F16", {4}, std::string(8, '\2')},
       {"mask", "BOOL", {2}, std::string(2, '\1')},
       {"empty", "F32", {0, 7}, ""}});
}

TEST(SafetensorsMutationTest, DamageGivesAnErrorOrASoundResult) {
  constexpr uint32_t kSeed = 20261121;
  Mutator mutator(kSeed);
  const std::string real = RealFile();
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string damaged = mutator.Mutate(real);
    // On the heap and of exact size, so that AddressSanitizer sees a read beyond it.
    const std::unique_ptr<char[]> bytes(new char[damaged.size()]);
    damaged.copy(bytes.get(), damaged.size());
    const auto tensors = ParseSafetensorsBytes({bytes.get(), damaged.size()}, "damaged", nullptr);
    if (!tensors.ok()) {
      ++refused;
      ASSERT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << "round " << round;
      ASSERT_LT(tensors.status().message().size(), 4096u) << "round " << round;
      continue;
    }
    ++accepted;
    for (const auto& [name, tensor] : *tensors) {
      if (!tensor.unusable_dtype.empty()) continue;
      const char* begin = static_cast<const char*>(tensor.data.data());
      ASSERT_GE(begin, bytes.get()) << "round " << round;
      ASSERT_LE(begin + tensor.data.bytes(), bytes.get() + damaged.size()) << "round " << round;
      tensor.digest->Get();
    }
  }
  // Both happen, or the test would show nothing.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace latentd::weights
