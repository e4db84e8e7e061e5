// Sets of LoRAs that are kept: those in use and pinned ones, and of the others those that were used
// last.
#include "core/pipeline/graphs/adapter_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/source_directory.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

constexpr int kMost = static_cast<int>(AdapterSets::kMostSets);

class KeptSetsTest : public ::testing::Test {
 protected:
  KeptSetsTest() {
    for (const char* name : {"kohya", "diffusers", "dora"}) {
      std::filesystem::copy_file(
          testing::SourcePath(std::string("tests/golden/loras/") + name + ".safetensors"),
          folder_.File(std::string(name) + ".safetensors"));
    }
    catalogue_ = std::make_unique<adapters::Catalogue>(adapters::FolderOnDisk(folder_.path()));
    rig_ =
        std::make_unique<Rig>(LoadOptions{.base = testing::kDemoBase, .adapters = catalogue_.get()},
                              "", backends::cpu::CpuBackend::Create().value());
    sets_ = rig_->pipeline->adapters();
  }

  std::vector<Adapter> One(const std::string& name, double weight) const {
    return {{.name = name, .weight = weight, .stamp = catalogue_->Find(name)->stamp}};
  }

  AdapterSets::Graphs Make(const std::string& name, double weight = 1) {
    auto made = sets_->FindOrMake(rig_->pipeline->first(), One(name, weight));
    EXPECT_OK(made);
    return made.ok() ? *made : nullptr;
  }

  bool IsKept(const std::string& name, double weight = 1) {
    return sets_->Find(rig_->pipeline->first(), One(name, weight)) != nullptr;
  }

  const testing::TemporaryDirectory folder_;
  std::unique_ptr<adapters::Catalogue> catalogue_;
  std::unique_ptr<Rig> rig_;
  AdapterSets* sets_ = nullptr;
};

TEST_F(KeptSetsTest, AreThoseThatWereUsedLast) {
  for (int i = 0; i < kMost + 1; ++i) Make("kohya", i);  // the newest counts not among the most
  EXPECT_TRUE(IsKept("kohya", 0));                       // a use
  Make("kohya", -1);
  EXPECT_TRUE(IsKept("kohya", 0));
  EXPECT_FALSE(IsKept("kohya", 1));
  EXPECT_TRUE(IsKept("kohya", 2));
}

TEST_F(KeptSetsTest, OneInUseStays) {
  AdapterSets::Graphs used = Make("kohya");
  for (int i = 0; i < 2 * kMost; ++i) Make("dora", i);
  EXPECT_EQ(sets_->FindOrMake(rig_->pipeline->first(), One("kohya", 1)).value(), used);
  Make("kohya", 2);
  EXPECT_EQ(GetReason(sets_->Evict("kohya")), "IN_USE");
  EXPECT_EQ(sets_->UseOf("kohya").sets, 1);  // the other has left
  EXPECT_TRUE(IsKept("kohya"));
  used.reset();
  EXPECT_OK(sets_->Evict("kohya"));
  EXPECT_EQ(sets_->UseOf("kohya").sets, 0);
  EXPECT_GT(sets_->UseOf("dora").sets, 0);
}

TEST_F(KeptSetsTest, APinnedOneStays) {
  sets_->SetPinned("kohya", true);
  Make("kohya");
  for (int i = 0; i < 2 * kMost; ++i) Make("dora", i);
  EXPECT_TRUE(IsKept("kohya"));
  sets_->SetPinned("kohya", false);
  for (int i = 0; i < 2 * kMost; ++i) Make("dora", -i);
  EXPECT_FALSE(IsKept("kohya"));
}

}  // namespace
}  // namespace latentd::pipeline
